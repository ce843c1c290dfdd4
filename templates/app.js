// The page's one script: theme, copying, filters, and the drawing of the charts. Data comes from the JSON blocks beside each chart; text from
// files is only ever set as text.
(() => {
'use strict';
const doc = document, root = doc.documentElement;
const byId = id => doc.getElementById(id);
const all = (sel, from = doc) => Array.from(from.querySelectorAll(sel));
const W = JSON.parse(byId('words').textContent);
const tr = w => W.words[w] || w;
const NB = '\u00a0';
const live = byId('live');
let liveTimer = 0;
const say = text => { clearTimeout(liveTimer); liveTimer = setTimeout(() => { live.textContent = text; }, 60); };

// ---- palette: colours and tiles come from the style sheet, so that canvas, table and print look alike
let P = null;
const tiles = new Map();
const cssVar = (cs, name) => cs.getPropertyValue('--' + name).trim();

async function tile(value) {
	const m = /^url\("(.*)"\)$/.exec(value);
	if (!m) return null;
	if (tiles.has(m[1])) return tiles.get(m[1]);
	const img = new Image();
	img.src = m[1];
	await img.decode();
	const c = doc.createElement('canvas');
	c.width = c.height = 32; // the 8 px tile at four times its size: sharp on every screen and in print
	c.getContext('2d').drawImage(img, 0, 0, 32, 32);
	const pattern = { image: c, repeat: 'repeat', scaleX: 0.25, scaleY: 0.25 };
	tiles.set(m[1], pattern);
	return pattern;
}

// colours takes what the style sheet says now; palette makes it ready for the canvas.
function colours() {
	const cs = getComputedStyle(root), p = { f: [] };
	for (const n of ['page', 'panel', 'rule', 'rule2', 'ink', 'ink2', 'ink3', 'link', 'hatch']) p[n] = cssVar(cs, n);
	for (const f of W.families) p.f.push({ hue: cssVar(cs, 'h-' + f.k), tile: cssVar(cs, 't-' + f.k), on: cssVar(cs, 'on-' + f.k) });
	return p;
}
async function palette(c) {
	const p = { ...c, hue: [], fill: [], on: [], solid: [] };
	for (const f of c.f) {
		const pattern = await tile(f.tile);
		p.hue.push(f.hue);
		p.fill.push(pattern || f.hue);
		p.solid.push(!pattern);
		p.on.push(f.on);
	}
	p.hatch = await tile(c.hatch);
	return p;
}
const outlined = new Set(['undivided', 'unknown', 'peer']);

// ---- shapes: one path for all boxes of one fill, one for all strokes of one pen
const registerShapes = () => {
	echarts.registerShape('boxes', echarts.extendShape({
		shape: { r: [] },
		buildPath(ctx, s) { const r = s.r; for (let i = 0; i < r.length; i += 4) ctx.rect(r[i], r[i + 1], r[i + 2], r[i + 3]); },
	}));
	echarts.registerShape('strokes', echarts.extendShape({
		shape: { r: [] },
		buildPath(ctx, s) { const r = s.r; for (let i = 0; i < r.length; i += 4) { ctx.moveTo(r[i], r[i + 1]); ctx.lineTo(r[i + 2], r[i + 3]); } },
	}));
	echarts.registerShape('dots', echarts.extendShape({
		shape: { r: [], d: 1.7 },
		buildPath(ctx, s) { const r = s.r; for (let i = 0; i < r.length; i += 2) { ctx.moveTo(r[i] + s.d, r[i + 1]); ctx.arc(r[i], r[i + 1], s.d, 0, 6.2832); } },
	}));
};

// Pen collects the elements of one drawing.
let drawing = 0;
class Pen {
	constructor() { this.els = []; this.n = ++drawing; this.boxed = 0; }
	add(el) { el.silent = true; el.name = this.n + ':' + this.els.length; this.els.push(el); return el; }
	boxes(r, style) { if (r.length) { this.boxed += r.length / 4; this.add({ type: 'boxes', shape: { r }, style }); } }
	family(f, r, outline = true) {
		if (!r.length) return;
		this.boxes(r, { fill: P.fill[f] });
		if (!outline || !outlined.has(W.families[f].k)) return;
		const o = [];
		for (let i = 0; i < r.length; i += 4) if (r[i + 2] >= 5 && r[i + 3] >= 5) o.push(r[i] + 0.5, r[i + 1] + 0.5, r[i + 2] - 1, r[i + 3] - 1);
		if (o.length) this.add({ type: 'boxes', shape: { r: o }, style: { fill: 'none', stroke: P.hue[f], lineWidth: 1 } });
	}
	strokes(r, stroke, lineWidth = 1, lineDash = null) { if (r.length) this.add({ type: 'strokes', shape: { r }, style: { fill: 'none', stroke, lineWidth, lineDash } }); }
	dots(r, fill, d = 1.7) { if (r.length) this.add({ type: 'dots', shape: { r, d }, style: { fill } }); }
	dashed(x, y, w, h, hatch) {
		this.add({ type: 'boxes', shape: { r: [x, y, w, h] }, style: { fill: hatch ? P.hatch : P.page } });
		this.add({ type: 'boxes', shape: { r: [x + 0.5, y + 0.5, Math.max(1, w - 1), h - 1] }, style: { fill: 'none', stroke: P.ink3, lineWidth: 1, lineDash: [3, 2] } });
	}
	text(x, y, text, o = {}) {
		if (!text) return;
		const style = { text: String(text), fill: o.fill || P.ink3, font: font(o.size || 11, o.bold ? 600 : 400), align: o.align || 'left', verticalAlign: 'middle' };
		if (o.width) { style.width = o.width; style.overflow = 'truncate'; style.ellipsis = '…'; }
		if (o.plate) { style.backgroundColor = P.page; style.padding = [1, 4]; style.borderRadius = 2; }
		this.add({ type: 'text', x, y, style });
	}
	group() { return { type: 'group', diffChildrenByName: true, children: this.els }; }
}
const font = (size, weight) => weight + ' ' + size + 'px Inter, system-ui, sans-serif';
const ruler = doc.createElement('canvas').getContext('2d');
const textWidth = (s, size = 11, weight = 400) => { ruler.font = font(size, weight); return ruler.measureText(s).width; };

// ---- numbers for axes and tooltips
const niceStep = raw => {
	if (!(raw > 0)) return 1;
	const p = Math.pow(10, Math.floor(Math.log10(raw)));
	for (const m of [1, 2, 5, 10]) if (m * p >= raw * 0.999) return m * p;
	return 10 * p;
};
const decimals = step => Math.max(0, Math.min(9, Math.ceil(-Math.log10(step) - 1e-9)));
const sig = (v, n = 3) => {
	if (v === 0) return '0';
	const d = Math.max(0, Math.min(9, n - 1 - Math.floor(Math.log10(Math.abs(v)))));
	const s = v.toFixed(d), [i, f] = s.split('.');
	const g = i.replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
	return f ? g + '.' + f : g;
};
const axis = v => { const s = String(Number(v.toPrecision(5))); return Math.abs(v) >= 1e4 ? s.replace(/\B(?=(\d{3})+$)/g, '\u202f') : s; };
const dur = s => s >= 1 ? sig(s) + NB + 's' : s >= 1e-3 ? sig(s * 1e3) + NB + 'ms' : s >= 1e-6 ? sig(s * 1e6) + NB + 'µs' : sig(s * 1e9) + NB + 'ns';
const ticks = (a, b, px, want) => {
	const step = niceStep((b - a) / Math.max(1, px / want)), out = [];
	for (let k = Math.ceil(a / step - 1e-9); k * step <= b + step * 1e-9 && out.length < 60; k++) out.push(k * step);
	return { step, at: out, label: v => { const s = v.toFixed(decimals(step)); return s === '-0' ? '0' : s; } };
};
const lowerBound = (n, less) => { let a = 0, b = n; while (a < b) { const m = (a + b) >> 1; if (less(m)) a = m + 1; else b = m; } return a; };

// ---- tooltip: built of text nodes; it never covers the row under the pointer
let tip = null;
const hideTip = () => { if (tip) tip.hidden = true; };
function showTip(el, x, top, bottom, lines) {
	if (!tip) { tip = doc.createElement('div'); tip.id = 'tip'; tip.setAttribute('aria-hidden', 'true'); doc.body.append(tip); }
	tip.replaceChildren(...lines.map(l => {
		const d = doc.createElement('div');
		if (l.family !== undefined) { const s = doc.createElement('span'); s.className = 'sw f-' + W.families[l.family].k; d.append(s); }
		const t = doc.createElement(l.bold ? 'strong' : 'span');
		t.textContent = l.text;
		if (l.weak) t.className = 'tipweak';
		d.append(t);
		return d;
	}));
	tip.hidden = false;
	const r = el.getBoundingClientRect(), w = tip.offsetWidth, h = tip.offsetHeight;
	let left = r.left + x + 14;
	if (left + w > root.clientWidth - 8) left = Math.max(8, r.left + x - w - 14);
	let y = r.top + top - h - 8;
	if (y < 4) y = r.top + bottom + 8;
	tip.style.left = left + scrollX + 'px';
	tip.style.top = y + scrollY + 'px';
}

// ---- a chart on its element: size, drawing, redrawing
const charts = [];
window.gpureportCharts = charts;

class Chart {
	constructor(el) {
		this.el = el;
		this.id = el.id;
		this.kind = el.dataset.kind;
		this.d = JSON.parse(byId(el.id + '-data').textContent);
		this.draws = 0;
		this.boxes = 0;
		this.prepare();
	}
	prepare() {}
	init() {
		this.layout();
		this.ec = echarts.init(this.el, null, { renderer: 'canvas', devicePixelRatio: Math.max(2, window.devicePixelRatio || 1) });
		this.over = doc.createElement('div');
		this.over.setAttribute('aria-hidden', 'true');
		this.el.append(this.over);
		this.ec.setOption(this.option());
		this.listen();
		this.drawn = true;
	}
	listen() {
		this.el.addEventListener('pointermove', e => { if (e.buttons) { this.leave(); return; } const r = this.el.getBoundingClientRect(); this.hover(e.clientX - r.left, e.clientY - r.top); });
		this.el.addEventListener('pointerdown', () => this.leave());
		this.el.addEventListener('pointerleave', () => this.leave());
	}
	hover() {}
	leave() { hideTip(); }
	width() { return this.el.clientWidth; }
	layout() { this.w = this.width(); this.narrow = this.w < 560; }
	// option puts our drawings and this width's offsets into the frame that came with the data.
	option() {
		const o = this.d.option;
		o.animation = false;
		o.backgroundColor = 'transparent';
		o.grid = { left: this.left, right: this.right, top: this.top, height: this.plotH, containLabel: false, show: false };
		const draws = this.drawings();
		o.series = o.series.filter(s => draws[s.name]).map((s, i) => ({
			id: s.name, name: s.name, type: 'custom', data: [[0, 0]], clip: !!draws[s.name].clip, silent: true, z: 2 + i, coordinateSystem: 'cartesian2d', animation: false,
			renderItem: (params, api) => {
				const cs = params.coordSys, p0 = api.coord([0, 0])[0], p1 = api.coord([this.endX, 0])[0];
				this.cs = cs;
				this.X = v => p0 + v / this.endX * (p1 - p0);
				this.T = px => (px - p0) / (p1 - p0) * this.endX;
				this.view = [Math.max(0, this.T(cs.x)), Math.min(this.endX, this.T(cs.x + cs.width))];
				const pen = new Pen();
				draws[s.name](pen);
				this.draws++;
				if (pen.boxed) this.boxes = pen.boxed;
				return pen.group();
			},
		}));
		return o;
	}
	redraw() {
		if (!this.ec) return;
		hideTip();
		this.layout();
		this.ec.resize({ width: this.w, height: this.h });
		const o = this.option();
		this.ec.setOption({ grid: o.grid, series: o.series, ...(this.zooms ? { dataZoom: this.zooms() } : {}) });
	}
}

// ---- one reading: dots are instants, dashes are means over the time they cover, steps are totals
function drawLane(c, pen, lane, top, h, o = {}) {
	const X = c.X, [a, b] = c.view, cs = c.cs, x0 = cs.x, x1 = cs.x + cs.width;
	const Y = v => top + (1 - (v - lane.min) / (lane.max - lane.min)) * h;
	const at = Y;
	const pxS = (X(1) - X(0));
	for (const m of lane.hatch) {
		const l = Math.max(x0, X(m.s)), r = Math.min(x1, X(m.e));
		if (r <= l) continue;
		pen.dashed(l, top, Math.max(2, r - l), h, true);
	}
	for (const m of lane.limits) {
		if (m.v < lane.min || m.v > lane.max) continue;
		pen.strokes([x0, at(m.v), x1, at(m.v)], P.ink3, 1, [3, 3]);
		pen.text(x1 - 2, at(m.v) - 7, m.l, { align: 'right' });
	}
	const wpx = lane.w * pxS, ends = [], wide = lane.covers === 'window' && wpx > 60;
	if (wide && lane.err > 0) {
		const first = lane.curves.find(k => k.odd) || lane.curves[0];
		if (first) {
			const r = [], lines = [];
			const i0 = lowerBound(first.t.length, i => first.t[i] < a), i1 = lowerBound(first.t.length, i => first.t[i] <= b + lane.err);
			for (let i = i0; i < i1 && i - i0 < 400; i++) {
				const e = X(first.t[i]), d = lane.err * pxS;
				r.push(e - d, top, 2 * d, h);
				lines.push(e, top, e, top + h);
			}
			pen.boxes(r, { fill: P.panel });
			pen.strokes(lines, P.ink3, 1, [2, 3]);
			for (let i = i0; i < i1 && i - i0 < 40; i++) pen.text(X(first.t[i]) - lane.err * pxS + 8, top + h - 9, '±' + dur(lane.err));
		}
	}
	const order = lane.curves.map((k, i) => i).sort((i, j) => (lane.curves[i].odd ? 1 : 0) - (lane.curves[j].odd ? 1 : 0) || i - j);
	for (const ci of order) {
		const k = lane.curves[ci], n = k.t.length;
		if (!n) continue;
		const lone = lane.curves.length === 1, ink = k.odd || lone ? P.ink : P.ink3, lw = k.odd ? 2.5 : lone ? 2 : 1.4;
		const startOf = i => lane.covers === 'window' ? k.t[i] - lane.w : lane.covers === 'total' ? (i ? k.t[i - 1] : k.t[i]) : k.t[i];
		const i0 = Math.max(0, lowerBound(n, i => k.t[i] < a) - 1);
		const i1 = Math.min(n, lowerBound(n, i => startOf(i) <= b) + 1);
		if (k.lo) {
			const r = [];
			for (let i = i0; i < i1; i++) {
				const l = X(startOf(i)), e = lane.covers === 'instant' ? (i + 1 < n ? Math.min(X(k.t[i + 1]), l + 40) : l + 2) : X(k.t[i]);
				const y = at(k.hi[i]), y2 = at(k.lo[i]);
				if (y2 - y > 1.5 && e > l) r.push(l, y, Math.max(1, e - l), y2 - y);
			}
			pen.boxes(r, { fill: P.rule2 });
		}
		const shown = i1 - i0, span = Math.max(1, X(k.t[Math.min(n - 1, i1 - 1)]) - X(k.t[i0]));
		const per = span / Math.max(1, shown);
		if (per < (lane.covers === 'instant' ? 2.4 : 1)) { // more readings than pixels: lowest to highest of each pixel column
			const cols = new Map();
			for (let i = i0; i < i1; i++) {
				const px = Math.round(X(k.t[i])), v = k.v[i], m = cols.get(px);
				if (!m) cols.set(px, [v, v]); else { if (v < m[0]) m[0] = v; if (v > m[1]) m[1] = v; }
			}
			const r = [];
			for (const [px, m] of cols) { const y = at(m[1]), y2 = at(m[0]); r.push(px - 0.5, y - lw / 2, 1, Math.max(lw, y2 - y + lw)); }
			pen.boxes(r, { fill: ink });
		} else if (lane.covers === 'instant') {
			const r = [];
			for (let i = i0; i < i1; i++) r.push(X(k.t[i]), at(k.v[i]));
			pen.boxed += r.length / 2;
			pen.dots(r, ink, k.odd ? 1.9 : 1.6);
		} else {
			const dashes = [], joins = [];
			for (let i = i0; i < i1; i++) {
				const l = X(startOf(i)), e = X(k.t[i]), y = at(k.v[i]);
				dashes.push(l, y, e, y);
				if (!wide && i > 0 && Math.abs(startOf(i) - k.t[i - 1]) < Math.max(lane.w, 1e-9) * 0.25) joins.push(l, at(k.v[i - 1]), l, y);
			}
			pen.strokes(joins, ink, 1);
			pen.boxed += dashes.length / 4;
			pen.strokes(dashes, ink, lw);
			if (wide && k.odd) for (let i = i0; i < i1; i++) {
				const l = Math.max(x0, X(startOf(i))), e = Math.min(x1, X(k.t[i])), label = k.n + ': ' + sig(k.v[i]) + (lane.unit ? NB + lane.unit : '');
				if (e - l > textWidth(label, 11, 600) + 12) pen.text((l + e) / 2, at(k.v[i]) + 12, label, { bold: true, fill: P.ink, align: 'center', plate: true });
			}
		}
		const lastI = Math.max(i0, Math.min(n - 1, lowerBound(n, i => startOf(i) <= b) - 1));
		ends.push({ y: at(k.v[lastI]), n: k.n, odd: k.odd });
	}
	for (const m of lane.hatch) { // after the curves, in the half that they leave free
		const l = Math.max(x0, X(m.s)), r = Math.min(x1, X(m.e)), lw = textWidth(m.l, 11, 600);
		if (r <= l || !m.l) continue;
		if (r - l < Math.min(lw + 16, 120)) { pen.text(Math.max(x0 + lw / 2, Math.min(x1 - lw / 2, (l + r) / 2)), top + h + 9, m.l, { align: 'center', fill: P.ink2 }); continue; }
		const k = lane.curves.find(q => q.odd) || lane.curves[0], t = k && c.T(Math.min(r, l + lw / 2)), i = k ? Math.min(k.t.length - 1, lowerBound(k.t.length, q => k.t[q] < t)) : -1;
		const low = i >= 0 && at(k.v[i]) < top + h / 2;
		pen.text(l + 6, low ? top + h - 9 : top + 10, m.l, { bold: true, fill: P.ink, plate: true, width: Math.min(lw + 1, r - l - 16) });
	}
	if (o.ends) o.ends.push(...ends);
	return ends;
}

// subLines puts what a reading covers on one line, and its file with the clock's error on the next.
const subLines = lane => [lane.sub[0], lane.sub.slice(1).join(', ')].filter(Boolean);

function rightLabels(pen, ends, x, top, h, width) {
	const list = ends.slice().sort((p, q) => p.y - q.y);
	const y0 = top + 2, step = 14;
	for (let i = 0; i < list.length; i++) list[i].y = Math.max(list[i].y, i ? list[i - 1].y + step : y0);
	for (let i = list.length - 1, lim = top + h + 8; i >= 0; i--) { list[i].y = Math.min(list[i].y, lim); lim = list[i].y - step; }
	for (const e of list) if (e.y > top - 10) pen.text(x, e.y, e.n, { bold: e.odd, fill: e.odd ? P.ink : P.ink3, width });
}

// ---- hero and hardware lanes
class LaneChart extends Chart {
	prepare() { this.lane = this.d.lane; this.endX = this.d.end - this.d.start; this.hero = this.kind === 'hero'; }
	layout() {
		super.layout();
		if (this.hero) {
			this.left = this.narrow ? 44 : 128; this.right = this.narrow ? 8 : 64; this.top = this.narrow ? 44 : 28; this.plotH = 104;
			this.h = this.top + 104 + 26;
		} else {
			const odd = Math.max(0, ...this.lane.curves.map(k => textWidth(k.n, 11, 600)));
			this.left = 0; this.right = Math.min(80, Math.ceil(odd) + 8); this.top = 12; this.plotH = 84; this.h = 12 + 84 + 22;
		}
		this.el.style.height = this.h + 'px';
	}
	drawings() {
		const lane = this.lane;
		const frame = pen => {
			const { x, width } = this.cs, top = this.top, h = this.plotH, x1 = x + width;
			const unit = lane.unit ? NB + lane.unit : '';
			if (this.hero) {
				pen.strokes([x, top, x1, top, x, top + h / 2, x1, top + h / 2], P.rule);
				for (const [v, y] of [[lane.max, top], [(lane.max + lane.min) / 2, top + h / 2], [lane.min, top + h]]) pen.text(x - 6, y, axis(v) + (v === lane.max ? unit : ''), { align: 'right' });
				if (this.narrow) pen.text(0, 8, [lane.title, ...lane.sub].join(', '), { bold: true, fill: P.ink, width: this.w });
				else { pen.text(0, top + 2, lane.title, { bold: true, size: 12, fill: P.ink }); subLines(lane).forEach((s, i) => pen.text(0, top + 17 + 14 * i, s, { width: i === 2 ? 100 : 122 })); }
				if (lane.dips && lane.dips.length && !this.narrow) pen.text(x1 + 6, top - 12, tr('held by') + ': ?');
			} else {
				pen.text(x, top - 6, axis(lane.max));
				pen.text(x, top + h - 8, axis(lane.min));
			}
			pen.strokes([x, top + h, x1, top + h], P.rule2);
			const tk = ticks(this.d.start, this.d.end, width, this.hero ? 110 : 90), X = v => this.X(v - this.d.start);
			tk.at.forEach((v, i) => pen.text(X(v), top + h + 12, tk.label(v) + (i ? '' : ' s'), { align: X(v) > x1 - 20 ? 'right' : X(v) < x + 20 && !this.hero ? 'left' : 'center' }));
			rightLabels(pen, this.ends || [], x1 + 6, top, h, this.right - 6);
		};
		const draw = pen => {
			this.ends = [];
			drawLane(this, pen, lane, this.top, this.plotH, { ends: this.ends });
			for (const m of lane.dips || []) {
				const l = this.X(m.s), r = this.X(m.e);
				pen.family(m.f, [l, this.top - 16, Math.max(3, r - l), 8]);
			}
			frame(pen);
		};
		return { lane: draw };
	}
	hover(x, y) {
		if (!this.cs || x < this.cs.x || x > this.cs.x + this.cs.width) { this.leave(); return; }
		const t = this.T(x), lines = [{ text: sig(t + this.d.start, 4) + NB + 's', bold: true }];
		laneTip(this.lane, t, lines);
		showTip(this.el, x, this.top, this.top + this.plotH, lines);
	}
}

function laneTip(lane, t, lines) {
	for (const k of lane.curves.slice(0, 6)) {
		let i = lowerBound(k.t.length, j => k.t[j] < t);
		if (lane.covers !== 'window' && i > 0 && (i === k.t.length || t - k.t[i - 1] < k.t[i] - t)) i--;
		if (i >= k.t.length) continue;
		const unit = lane.unit ? NB + lane.unit : '';
		lines.push({ text: k.n + ': ' + sig(k.v[i]) + unit + (k.lo ? ' (' + sig(k.lo[i]) + ' ' + tr('to') + ' ' + sig(k.hi[i]) + unit + ')' : '') });
	}
	if (lane.sub.length) lines.push({ text: [lane.title, ...lane.sub].join(', '), weak: true });
}

// ---- step chart
class StepChart extends Chart {
	prepare() { this.show = this.d.show; }
	get endX() { return Math.max(1, this.rank.i.length); }
	get rank() { return this.d.ranks[this.show]; }
	layout() {
		super.layout();
		this.left = this.narrow ? 46 : 54; this.right = 8; this.top = 14; this.h = 210; this.plotH = 210 - 14 - 24;
		this.el.style.height = this.h + 'px';
	}
	option() { const o = super.option(); o.xAxis[0].max = this.endX; return o; }
	choose(i) {
		this.show = i;
		for (const b of all('button[data-rank][data-chart="' + this.id + '"]')) b.setAttribute('aria-pressed', String(Number(b.dataset.rank) === i));
		const title = byId(this.id + '-title');
		if (title) title.textContent = tr('Step by step') + ', ' + this.rank.n;
		this.ec.setOption({ xAxis: [{ max: this.endX }] });
		this.redraw();
		say(this.rank.n);
	}
	drawings() {
		return { steps: pen => {
			const { x, width } = this.cs, top = this.top, h = this.plotH, x1 = x + width, max = this.d.max, r = this.rank, n = r.i.length;
			const Y = v => top + h - Math.min(1, v / max) * h;
			const tk = ticks(0, max, h, 52), lines = [];
			for (const v of tk.at) lines.push(x, Y(v), x1, Y(v));
			pen.strokes(lines, P.rule);
			tk.at.forEach((v, i) => pen.text(x - 8, Y(v), tk.label(v) + (i === tk.at.length - 1 ? NB + this.d.unit : ''), { align: 'right' }));
			const px = width / Math.max(1, n), gap = px > 5 ? 1 : px > 2.5 ? 0.5 : 0, base = new Float64Array(n), by = new Map();
			for (const s of r.o) {
				const f = W.owners[s.o].f;
				if (!by.has(f)) by.set(f, []);
				const out = by.get(f);
				for (let i = 0; i < n; i++) {
					const lo = base[i], hi = lo + s.v[i];
					base[i] = hi;
					if (s.v[i] <= 0 || lo >= max) continue;
					const y = Y(hi), y2 = Y(lo);
					out.push(x + i * px, y, px - gap, y2 - y);
				}
			}
			for (const [f, out] of by) pen.family(f, out);
			pen.strokes([x, top + h, x1, top + h], P.rule2);
			const every = niceStep(Math.max(1, n / Math.max(1, width / 90)));
			for (let i = 0; i < n; i++) {
				if (i % Math.max(1, Math.round(every))) continue;
				pen.text(x + (i + 0.5) * px, top + h + 12, (i ? '' : tr('step') + ' ') + r.i[i], { align: i ? 'center' : 'left' });
			}
			if (r.median && r.median < max) {
				pen.strokes([x, Y(r.median), x1, Y(r.median)], P.ink, 1, [3, 3]);
				pen.text(x1 - 2, Y(r.median) - 9, tr('median') + ' ' + sig(r.median) + NB + this.d.unit, { align: 'right', fill: P.ink, plate: true });
			}
			let free = -1;
			for (const c of r.cut.slice().sort((p, q) => p.at - q.at)) {
				const cx = x + c.at * px;
				pen.strokes([cx - 2, top + 11, cx + px + 2, top + 7], P.page, 3); // the break
				const w = textWidth(c.l) + 10, right = cx + px + 4 + w < x1;
				const at = right ? cx + px + 4 : cx - 4 - w;
				if (at < free) continue;
				pen.text(at, top + 4, c.l, { fill: P.ink, plate: true });
				free = at + w;
			}
		} };
	}
	hover(x, y) {
		if (!this.cs || x < this.cs.x || x >= this.cs.x + this.cs.width) { this.leave(); return; }
		const r = this.rank, i = Math.min(r.i.length - 1, Math.floor(this.T(x)));
		if (i < 0) return;
		let sum = 0;
		for (const s of r.o) sum += s.v[i];
		const lines = [{ text: r.n + ', ' + tr('step') + NB + r.i[i] + ': ' + sig(sum) + NB + this.d.unit, bold: true }];
		for (const s of r.o) if (s.v[i] > 0) lines.push({ family: W.owners[s.o].f, text: ownerText(s.o) + ': ' + sig(s.v[i]) + NB + this.d.unit });
		showTip(this.el, x, this.top, this.top + this.plotH, lines);
	}
}
const ownerText = o => {
	const own = W.owners[o], fam = W.families[own.f].n;
	return W.owners.filter(q => q.f === own.f).length > 1 ? fam + ' (' + own.n + ')' : fam;
};

// ---- time line
class TimeLine extends Chart {
	prepare() {
		const d = this.d;
		this.endX = d.end - d.start;
		this.rows = d.rows.map(r => {
			const n = r.i.length, s = new Float64Array(n), e = new Float64Array(n);
			let at = 0;
			for (let i = 0; i < n; i++) { at += r.s[i]; s[i] = at / 1e6; e[i] = (at + r.d[i]) / 1e6; }
			const m = r.iv.length / 3, is = new Float64Array(m), ie = new Float64Array(m), io = new Uint8Array(m), wins = [];
			let p = 0;
			for (let i = 0; i < m; i++) {
				is[i] = (p + r.iv[3 * i]) / 1e7;
				p += r.iv[3 * i] + r.iv[3 * i + 1];
				ie[i] = p / 1e7;
				io[i] = r.iv[3 * i + 2];
				const w = wins[wins.length - 1];
				if (w && is[i] - w[1] < 1e-3) w[1] = ie[i]; else wins.push([is[i], ie[i]]);
			}
			return { n: r.n, late: !!r.late, i: r.i, s, e, o: r.o, is, ie, io, wins, hole: r.hole || [] };
		});
		const durs = [];
		for (const r of this.rows) for (let i = 0; i < r.s.length; i++) durs.push(r.e[i] - r.s[i]);
		durs.sort((p, q) => p - q);
		this.median = durs.length ? durs[durs.length >> 1] : 0;
		this.events = d.events;
		this.cur = { row: Math.max(0, this.rows.findIndex(r => r.late)), step: -1 };
	}
	layout() {
		super.layout();
		this.left = this.narrow ? 48 : 128;
		this.right = this.narrow ? 12 : 64;
		this.top = 22;
		const plot = Math.max(40, this.w - this.left - this.right), scale = plot / this.endX;
		// events: greedy rows, so that no two labels meet
		const ends = [];
		this.eventRow = this.events.map(m => {
			const l = m.s * scale, w = Math.max(3, (m.e - m.s) * scale), lw = Math.min(textWidth(m.l), 180) + 12;
			const r = l + w + lw > plot ? l + w + 6 : l + w + lw, start = l + w + lw > plot ? l - lw : l;
			let k = ends.findIndex(e => e <= start);
			if (k < 0) { k = ends.length < 6 ? ends.length : -1; }
			if (k >= 0) ends[k] = r;
			return k;
		});
		let y = this.top + 6;
		this.eventY = y;
		y += Math.max(1, ends.length) * 19;
		this.missingY = y;
		y += this.d.missing.length * 19;
		this.laneY = [];
		this.d.lanes.forEach((lane, i) => {
			const h = i ? 40 : 104;
			y += (i ? 22 : 38) + (this.narrow ? 16 : 0);
			this.laneY.push({ top: y, h });
			y += h;
		});
		y += 10;
		this.rowsTitleY = y + 8;
		y += 20;
		this.rowsY = y;
		y += Math.max(1, this.rows.length) * 26;
		this.rulerY = y;
		y += this.rows.length ? 26 : 6;
		this.sliderY = y;
		this.plotH = y - this.top;
		this.h = y + 20 + 6;
		this.el.style.height = this.h + 'px';
	}
	zooms() {
		const slider = { type: 'slider', left: this.left, right: this.right, top: this.sliderY, height: 20, showDetail: false, showDataShadow: false, brushSelect: false, moveHandleSize: 0,
			backgroundColor: 'transparent', fillerColor: P.link + '22', borderColor: 'transparent', borderRadius: 0, handleSize: '100%', handleIcon: 'path://M0,0h2v20h-2z', handleStyle: { color: P.link, borderWidth: 0 },
			emphasis: { handleStyle: { color: P.link, borderWidth: 0 } } };
		const inside = { type: 'inside', zoomOnMouseWheel: false, moveOnMouseMove: true, moveOnMouseWheel: false, preventDefaultMouseMove: false };
		const both = { xAxisIndex: 0, filterMode: 'none', minValueSpan: Math.min(this.endX, Math.max(2e-5, this.endX * 1e-6)), throttle: 16 };
		return [{ ...inside, ...both, id: 'inside' }, { ...slider, ...both, id: 'slider' }];
	}
	option() { const o = super.option(); o.dataZoom = this.zooms(); return o; }
	drawings() {
		const clipped = f => { f.clip = true; return f; };
		return { frame: pen => this.frame(pen), lanes: clipped(pen => this.drawLanes(pen)), rows: clipped(pen => this.drawRows(pen)), front: pen => this.front(pen) };
	}
	frame(pen) {
		const d = this.d, { x, width } = this.cs, x1 = x + width, bottom = this.rulerY;
		const tk = ticks(this.view[0] + d.start, this.view[1] + d.start, width, this.narrow ? 80 : 110), lines = [], at = v => this.X(v - d.start);
		tk.at.forEach(v => lines.push(at(v), this.top, at(v), bottom));
		pen.strokes(lines, P.rule);
		tk.at.forEach((v, i) => pen.text(at(v), 10, tk.label(v) + (i ? '' : ' s'), { align: 'center' }));
		if (this.narrow) pen.text(0, this.eventY + 7, tr('Events'), { bold: true, fill: P.ink, width: this.left - 2 });
		else pen.text(0, this.eventY + 7, tr('Events'), { bold: true, size: 12, fill: P.ink });
		d.missing.forEach((m, i) => {
			const y = this.missingY + 19 * i;
			pen.dashed(x, y, width, 14, false);
			pen.text(x + 12, y + 7, m, { fill: P.ink2, width: width - 20, size: 11 });
		});
		d.lanes.forEach((lane, i) => {
			const { top, h } = this.laneY[i], unit = lane.unit ? NB + lane.unit : '';
			pen.strokes(i ? [x, top, x1, top, x, top + h, x1, top + h] : [x, top, x1, top, x, top + h / 2, x1, top + h / 2], P.rule);
			if (!i) pen.strokes([x, top + h, x1, top + h], P.rule2);
			const vs = i ? [[lane.max, top], [lane.min, top + h]] : [[lane.max, top], [(lane.max + lane.min) / 2, top + h / 2], [lane.min, top + h]];
			for (const [v, y] of vs) pen.text(x - 6, y, axis(v) + (v === lane.max && !this.narrow ? unit : ''), { align: 'right' });
			if (this.narrow) pen.text(0, top - (i ? 12 : 36), [lane.title + (lane.unit ? ', ' + lane.unit : ''), ...lane.sub.slice(0, 1)].join(', '), { bold: true, fill: P.ink, width: this.w });
			else {
				pen.text(0, top + 8, lane.title, { bold: true, size: 12, fill: P.ink, width: 70 });
				subLines(lane).forEach((s, k) => pen.text(0, top + 23 + 14 * k, s, { width: i && k ? 96 : 122 }));
			}
		});
		if (d.dips.length && this.laneY.length && !this.narrow) pen.text(x1 + 6, this.laneY[0].top - 10, tr('held by'));
		pen.text(0, this.rowsTitleY, tr('Who held the GPU'), { bold: true, size: this.narrow ? 11 : 12, fill: P.ink });
		if (!this.rows.length) {
			pen.dashed(x, this.rowsY, width, 22, true);
			pen.text(x + 12, this.rowsY + 11, d.noTrace, { fill: P.ink, plate: true, width: width - 30 });
		}
		this.rows.forEach((r, k) => pen.text(0, this.rowsY + 26 * k + 11, this.narrow ? r.n.split(',')[0] : r.n + (r.late && !/late/.test(r.n) ? ': late' : ''),
			{ bold: r.late, size: this.narrow ? 11 : 12, fill: r.late ? P.ink : P.ink2, width: this.left - 8 }));
		if (this.rows.length) this.stepRuler(pen);
		// the whole run under the slider, as heights of the first lane
		const y = this.sliderY;
		if (!this.narrow) pen.text(0, y + 10, tr('Whole run'), { size: 12, width: this.left - 6 });
		pen.add({ type: 'boxes', shape: { r: [x, y, width, 20] }, style: { fill: P.panel } });
		const lane = d.lanes[0], k = lane && (lane.curves.find(q => q.odd) || lane.curves[0]);
		if (k) {
			const cols = new Map(), F = v => x + v / this.endX * width, w = Math.max(1, lane.w / this.endX * width);
			for (let i = 0; i < k.t.length; i++) {
				const px = Math.round(F(k.t[i])), f = Math.max(0, Math.min(1, (k.v[i] - lane.min) / (lane.max - lane.min)));
				if (!cols.has(px) || cols.get(px) > f) cols.set(px, f);
			}
			const r = [];
			for (const [px, f] of cols) { const l = Math.max(x, px - w); r.push(l, y + 20 - 16 * f, Math.max(1, Math.min(px, x1) - l), 16 * f); }
			pen.add({ type: 'boxes', shape: { r }, style: { fill: P.rule2 } });
		}
	}
	stepRuler(pen) {
		const r = this.rows[this.cur.row] || this.rows[0], { x, width } = this.cs, [a, b] = this.view, y = this.rulerY + 4;
		const n = r.s.length, i0 = lowerBound(n, i => r.e[i] <= a), i1 = lowerBound(n, i => r.s[i] < b);
		if (i1 <= i0) return;
		const every = niceStep(Math.max(1, (i1 - i0) / (width / 80))), step = Math.max(1, Math.round(every)), minor = [], major = [];
		let free = -1e9;
		const dense = width / (i1 - i0) < 4;
		for (let i = i0; i < i1; i++) {
			const px = this.X(r.s[i]);
			if (px < x - 1) continue;
			if (r.i[i] % step === 0) {
				major.push(px, y, px, y + 6);
				const label = (free < 0 ? tr('step') + ' ' : '') + r.i[i];
				if (px > free && px + textWidth(label) < x + width) { pen.text(px + 3, y + 11, label); free = px + textWidth(label) + 12; }
			} else if (!dense) minor.push(px, y, px, y + 2);
		}
		pen.strokes(minor, P.rule2);
		pen.strokes(major, P.ink3);
	}
	drawLanes(pen) {
		const { x, width } = this.cs, x1 = x + width, d = this.d;
		this.ends = [];
		this.events.forEach((m, i) => {
			const k = this.eventRow[i];
			if (k < 0) return;
			const y = this.eventY + 19 * k, l = this.X(m.s), w = Math.max(3, this.X(m.e) - l);
			if (l > x1 || l + w < x) return;
			if (m.f < 0) pen.add({ type: 'boxes', shape: { r: [l, y + 0.5, w, 13] }, style: { fill: P.page, stroke: P.ink, lineWidth: 1.3 } });
			else pen.family(m.f, [l, y, w, 14]);
			const lw = Math.min(textWidth(m.l), 180) + 8, right = l + w + lw < x1;
			const lx = right ? Math.max(x, l + w) + 5 : Math.min(x1, l) - 5;
			if (right || l - lw > x) pen.text(lx, y + 7, m.l, { fill: P.ink, align: right ? 'left' : 'right', width: 180 });
			else pen.text(Math.max(x, l) + 4, y + 7, m.l, { fill: P.ink, plate: true, width: Math.max(30, Math.min(x1, l + w) - Math.max(x, l) - 16) });
		});
		d.lanes.forEach((lane, i) => {
			const { top, h } = this.laneY[i];
			this.ends.push(drawLane(this, pen, lane, top, h));
			if (!i) this.drawDips(pen, top);
		});
	}
	drawDips(pen, top) {
		const by = new Map(), { x, width } = this.cs;
		let free = -1e9;
		for (const m of this.d.dips) {
			const l = this.X(m.s), w = Math.max(2, this.X(m.e) - l);
			if (l > x + width || l + w < x) continue;
			if (!by.has(m.f)) by.set(m.f, []);
			by.get(m.f).push(l, top - 13, w, 7);
		}
		for (const [f, r] of by) pen.family(f, r);
		for (const m of this.d.dips.slice().sort((p, q) => p.s - q.s)) {
			if (!m.l) continue;
			const l = Math.max(x, this.X(m.s)), r = Math.min(x + width, this.X(m.e)), long = tr('Dip') + ' ' + m.l + ': ' + W.families[m.f].n;
			if (r < x || l > x + width) continue;
			if (r - l > textWidth(long, 11, 600)) pen.text(l, top - 22, long, { bold: true, fill: P.ink });
			else if ((l + r) / 2 > free) { pen.text((l + r) / 2, top - 22, m.l, { bold: true, fill: P.ink, align: 'center' }); free = (l + r) / 2 + textWidth(m.l, 11, 600) + 4; }
		}
	}
	drawRows(pen) {
		this.level = '';
		const by = W.families.map(() => []), labels = [], worst = [];
		this.rows.forEach((r, k) => this.drawRow(r, this.rowsY + 26 * k, by, labels, worst));
		by.forEach((r, f) => pen.family(f, r, this.level === 'intervals'));
		pen.strokes(worst, P.ink, 1);
		for (const l of labels) pen.text(l.x, l.y, l.text, l.o);
		this.rows.forEach((r, k) => {
			const n = r.s.length, y = this.rowsY + 26 * k, x0 = this.cs.x, x1 = x0 + this.cs.width;
			for (const [s, e] of n ? [[0, r.s[0]], [r.e[n - 1], this.endX]] : [[0, this.endX]]) { // absence has a look
				if (r.hole.some(h => h.s < e && h.e > s)) continue;
				const l = Math.max(x0, this.X(s)), w = Math.min(x1, this.X(e)) - l;
				if (w < 8) continue;
				pen.dashed(l, y, w, 22, false);
				if (w > textWidth(tr('no analysed step')) + 24) pen.text(l + 12, y + 11, tr('no analysed step'));
			}
			for (const h of r.hole) {
				const l = this.X(h.s), w = this.X(h.e) - l;
				if (l > this.cs.x + this.cs.width || l + w < this.cs.x) continue;
				pen.dashed(l, this.rowsY + 26 * k, Math.max(2, w), 22, true);
				if (w > 60) pen.text(Math.max(l, x0) + 10, y + 11, h.l || tr('not read'), { fill: P.ink, plate: true, width: w - 20 });
			}
		});
	}
	drawRow(r, y, by, labels, worst) {
		const X = this.X, [a, b] = this.view, H = 22, n = r.s.length;
		const i0 = lowerBound(n, i => r.e[i] <= a), i1 = lowerBound(n, i => r.s[i] < b);
		const px = this.median * (X(1) - X(0));
		// Intervals are drawn where they are wide enough for their ink to be their time: a kept window of many intervals below 2 px each
		// stays a column a step, or the least width of the short ones would paint over the long ones.
		const m = r.is.length, shown = px < 40 ? [] : r.wins.filter(w => {
			const c = lowerBound(m, j => r.is[j] < w[1]) - lowerBound(m, j => r.ie[j] <= w[0]);
			return c > 0 && (X(w[1]) - X(w[0])) / c >= 2;
		});
		const covered = (s, e) => shown.some(w => w[0] <= s + 1e-3 && w[1] >= e - 1e-3);
		for (const win of shown) {
			const j0 = lowerBound(m, j => r.ie[j] <= Math.max(a, win[0])), j1 = lowerBound(m, j => r.is[j] < Math.min(b, win[1]));
			for (let j = j0; j < j1; j++) {
				const l = X(r.is[j]), w = Math.max(0.6, X(r.ie[j]) - l), f = W.owners[r.io[j]].f;
				by[f].push(l, y, w, H);
				const vl = Math.max(l, this.cs.x), vw = Math.min(l + w, this.cs.x + this.cs.width) - vl, text = W.families[f].n;
				if (vw >= 92 && W.families[f].k !== 'sync' && W.families[f].k !== 'compute' && textWidth(text) + 20 < vw) {
					labels.push(P.solid[f] ? { x: vl + 7, y: y + H / 2, text, o: { fill: P.on[f] } } : { x: vl + vw / 2, y: y + H / 2, text, o: { fill: P.ink, plate: true, align: 'center' } });
				}
			}
			if (j1 > j0) this.level = 'intervals';
		}
		if (px >= 3 || i1 - i0 < 4) {
			const gap = px > 6 ? 1 : px > 4 ? 0.5 : 0;
			for (let i = i0; i < i1; i++) {
				if (covered(r.s[i], r.e[i])) continue;
				this.stack(r, X(r.s[i]), Math.max(0.6, X(r.e[i]) - X(r.s[i]) - gap), y, H, by, o => o.v[i] / 1e4);
				this.level = this.level || 'steps';
			}
			return;
		}
		// less than 3 px a step: whole steps are summed in columns of 3 px, and a step far above the median gets a tick
		this.level = 'columns';
		for (let i = i0; i < i1;) {
			const col = Math.floor(X(r.s[i]) / 3), from = i;
			let total = 0, slow = 0;
			while (i < i1 && Math.floor(X(r.s[i]) / 3) === col) { const d = r.e[i] - r.s[i]; total += d; slow = Math.max(slow, d); i++; }
			const left = X(r.s[from]), w = Math.max(1, X(r.e[i - 1]) - left);
			this.stack(r, left, w, y, H, by, o => { let v = 0; for (let k = from; k < i; k++) v += o.v[k] * (r.e[k] - r.s[k]); return v / 1e4 / total; });
			if (slow > 1.3 * this.median) worst.push(left + w / 2, y - 3.5, left + w / 2, y - 0.5);
		}
	}
	stack(r, left, w, y, H, by, frac) {
		let at = y + H;
		for (const o of r.o) {
			const h = frac(o) * H;
			if (h <= 0) continue;
			at -= h;
			by[W.owners[o.o].f].push(left, Math.max(y, at), w, Math.min(h, at + h - y));
		}
	}
	front(pen) {
		const { x, width } = this.cs;
		(this.ends || []).forEach((e, i) => { if (!this.narrow) rightLabels(pen, e, x + width + 6, this.laneY[i].top, this.laneY[i].h, this.right - 6); });
		const y = this.sliderY, F = v => x + v / this.endX * width;
		pen.add({ type: 'boxes', shape: { r: [F(this.view[0]) + 0.5, y + 0.5, Math.max(2, F(this.view[1]) - F(this.view[0]) - 1), 19] }, style: { fill: 'none', stroke: P.link, lineWidth: 1.5 } });
	}
	// ---- pointing
	cross(x) {
		if (!this.line) {
			this.line = doc.createElement('div');
			this.chip = doc.createElement('div');
			this.over.append(this.line, this.chip);
		}
		this.line.style.cssText = `position:absolute;pointer-events:none;z-index:2;left:${x}px;top:${this.top}px;width:1px;height:${this.rulerY - this.top}px;background:${P.link}`;
		this.chip.style.cssText = `position:absolute;pointer-events:none;z-index:2;left:${x}px;top:3px;transform:translateX(-50%);background:${P.link};color:${P.page};font-size:11px;line-height:15px;padding:0 5px;border-radius:2px`;
		const span = this.view[1] - this.view[0];
		this.chip.textContent = (this.T(x) + this.d.start).toFixed(Math.max(0, Math.min(9, 3 - Math.floor(Math.log10(span)) - 1 + 1)));
		this.line.hidden = this.chip.hidden = false;
	}
	leave() { hideTip(); if (this.line) this.line.style.display = this.chip.style.display = 'none'; }
	hover(x, y) {
		const cs = this.cs;
		if (!cs || x < cs.x || x > cs.x + cs.width || y > this.rulerY + 20) { this.leave(); return; }
		this.cross(x);
		const t = this.T(x), k = Math.floor((y - this.rowsY) / 26);
		if (this.rows.length && k >= 0 && k < this.rows.length && y >= this.rowsY) {
			const lines = this.tellRow(k, t);
			if (lines) { showTip(this.el, x, this.rowsY + 26 * k, this.rowsY + 26 * k + 22, lines); return; }
			hideTip();
			return;
		}
		const li = this.laneY.findIndex(l => y >= l.top - 26 && y <= l.top + l.h + 4);
		if (li >= 0) {
			const lane = this.d.lanes[li], lines = [{ text: sig(t + this.d.start, 4) + NB + 's', bold: true }];
			const dip = li === 0 && this.d.dips.find(m => t >= m.s && t <= m.e);
			if (dip) lines.push({ family: dip.f, text: tr('Dip') + ' ' + dip.l + ', ' + tr('held by') + ' ' + W.families[dip.f].n });
			laneTip(lane, t, lines);
			showTip(this.el, x, this.laneY[li].top - 30, this.laneY[li].top + this.laneY[li].h, lines);
			return;
		}
		const ev = this.events.findIndex((m, i) => this.eventRow[i] >= 0 && y >= this.eventY + 19 * this.eventRow[i] && y <= this.eventY + 19 * this.eventRow[i] + 14 && t >= m.s && t <= m.e);
		if (ev >= 0) {
			const m = this.events[ev];
			showTip(this.el, x, this.eventY, this.eventY + 120, [{ text: m.l, bold: true }, { text: sig(m.s + this.d.start, 4) + ' ' + tr('to') + ' ' + sig(m.e + this.d.start, 4) + NB + 's, ' + dur(m.e - m.s) }]);
			return;
		}
		hideTip();
	}
	ownerAt(r, t) {
		const j = lowerBound(r.is.length, q => r.ie[q] <= t);
		if (j < r.is.length && r.is[j] <= t) return { o: r.io[j], s: r.is[j], e: r.ie[j] };
		return null;
	}
	stepAt(r, t) { const i = lowerBound(r.s.length, q => r.e[q] <= t); return i < r.s.length && r.s[i] <= t ? i : -1; }
	tellRow(k, t) {
		const r = this.rows[k], i = this.stepAt(r, t), head = r.n + (i >= 0 ? ', ' + tr('step') + ' ' + r.i[i] : '');
		const hole = r.hole.find(h => t >= h.s && t <= h.e);
		if (hole) return [{ text: r.n, bold: true }, { text: hole.l || tr('not read') }];
		const v = this.level === 'intervals' ? this.ownerAt(r, t) : null;
		const lines = [{ text: head, bold: true }], peer = W.families.findIndex(f => f.k === 'peer');
		if (v) {
			const d = decimals(Math.max(1e-6, (v.e - v.s) / 10));
			lines.push({ family: W.owners[v.o].f, text: ownerText(v.o) + ': ' + dur(v.e - v.s) + ', ' + (v.s + this.d.start).toFixed(d) + ' ' + tr('to') + ' ' + (v.e + this.d.start).toFixed(d) + NB + 's' });
			if (W.owners[v.o].f === peer) this.tellLate(r, t, lines);
			return lines;
		}
		if (i < 0) return null;
		lines[0].text += ': ' + dur(r.e[i] - r.s[i]) + ', ' + sig(r.s[i] + this.d.start, 5) + ' ' + tr('to') + ' ' + sig(r.e[i] + this.d.start, 5) + NB + 's';
		const own = r.o.map(o => [o.o, o.v[i] / 1e4 * (r.e[i] - r.s[i])]).filter(p => p[1] > 0).sort((p, q) => q[1] - p[1]);
		for (const [o, s] of own.slice(0, 8)) lines.push({ family: W.owners[o].f, text: ownerText(o) + ': ' + dur(s) });
		if (own.some(p => W.owners[p[0]].f === peer)) this.tellLate(r, t, lines);
		return lines;
	}
	// tellLate adds what held the late rank in the step under the pointer: the longest owner beside useful work.
	tellLate(r, t, lines) {
		for (const q of this.rows) {
			const j = q.late && q !== r ? this.stepAt(q, t) : -1;
			if (j < 0) continue;
			const held = q.o.map(o => [o.o, o.v[j]]).filter(p => !['compute', 'transfer', 'peer'].includes(W.families[W.owners[p[0]].f].k)).sort((p, s) => s[1] - p[1])[0];
			if (held && held[1] > 0) lines.push({ family: W.owners[held[0]].f, text: q.n + ', ' + tr('same step') + ': ' + ownerText(held[0]) + NB + dur(held[1] / 1e4 * (q.e[j] - q.s[j])) });
		}
	}
	// ---- moving
	look(a, b) {
		const min = Math.min(this.endX, Math.max(2e-5, this.endX * 1e-6));
		if (b - a < min) { const m = (a + b) / 2; a = m - min / 2; b = m + min / 2; }
		if (a < 0) { b -= a; a = 0; }
		if (b > this.endX) { a -= b - this.endX; b = this.endX; }
		this.leave();
		this.ec.dispatchAction({ type: 'dataZoom', startValue: Math.max(0, a), endValue: Math.min(this.endX, b) });
	}
	zoom(f) { const [a, b] = this.view, m = this.cur.step >= 0 && this.rows.length ? Math.min(b, Math.max(a, this.rows[this.cur.row].s[this.cur.step])) : (a + b) / 2; this.look(m - (m - a) * f, m + (b - m) * f); }
	around(s, e) { const pad = Math.max((e - s) * 0.35, this.endX * 1e-5); this.look(s - pad, e + pad); }
	go(what) {
		const d = this.d;
		if (what === 'all') this.look(0, this.endX);
		else if (what === 'slow' && d.slow) this.around(d.slow[0], d.slow[1]);
		else if (what === 'in') this.zoom(0.5);
		else if (what === 'out') this.zoom(2);
		else if (what === 'dip' && d.dips.length) this.dip(0);
		const [a, b] = this.view;
		if (what !== 'dip') say(sig(a + d.start, 4) + ' ' + tr('to') + ' ' + sig(b + d.start, 4) + ' s');
	}
	dip(i) {
		const m = this.d.dips[i];
		this.around(m.s, m.e);
		say(tr('Dip') + ' ' + m.l + ', ' + sig(m.s + this.d.start, 4) + ' s, ' + dur(m.e - m.s) + ', ' + tr('held by') + ' ' + W.families[m.f].n);
	}
	nextDip(dir) {
		const order = this.d.dips.map((m, i) => i).sort((p, q) => this.d.dips[p].s - this.d.dips[q].s);
		if (!order.length) return;
		this.dipAt = this.dipAt === undefined ? (dir > 0 ? 0 : order.length - 1) : (this.dipAt + dir + order.length) % order.length;
		this.dip(order[this.dipAt]);
	}
	// jump shows a dip by its anchor or a step by its number.
	jump(key) {
		const i = this.d.dips.findIndex(m => m.id === key);
		if (i >= 0) { this.dip(i); return; }
		const m = /^step-(-?\d+)$/.exec(key);
		if (!m) return;
		for (const r of this.rows) {
			const j = r.i.indexOf(Number(m[1]));
			if (j >= 0) { this.around(r.s[j], r.e[j]); return; }
		}
	}
	key(e) {
		const k = e.key;
		if (e.ctrlKey || e.altKey || e.metaKey) return;
		if (k === '+' || k === '=') this.go('in');
		else if (k === '-' || k === '_') this.go('out');
		else if (k === '0') this.go('all');
		else if (k === 'n') this.nextDip(1);
		else if (k === 'p') this.nextDip(-1);
		else if (k === 'Escape') this.leave();
		else if (/^Arrow(Left|Right|Up|Down)$/.test(k) && (e.shiftKey || k === 'ArrowLeft' || k === 'ArrowRight')) this.step(k === 'ArrowLeft' || k === 'ArrowUp' ? -1 : 1, e.shiftKey);
		else return;
		e.preventDefault();
	}
	step(dir, gpu) {
		if (!this.rows.length) { const [a, b] = this.view, d = (b - a) * 0.2 * dir; this.look(a + d, b + d); return; }
		const c = this.cur;
		if (gpu) {
			const was = this.rows[c.row], t = c.step >= 0 && was.s.length ? (was.s[c.step] + was.e[c.step]) / 2 : (this.view[0] + this.view[1]) / 2;
			c.row = (c.row + dir + this.rows.length) % this.rows.length;
			c.step = this.stepAt(this.rows[c.row], t);
		} else {
			const r = this.rows[c.row];
			if (c.step < 0) c.step = Math.max(0, Math.min(r.s.length - 1, lowerBound(r.s.length, i => r.e[i] <= this.view[0]) + (dir < 0 ? 0 : 0)));
			else c.step = Math.max(0, Math.min(r.s.length - 1, c.step + dir));
		}
		const r = this.rows[c.row];
		if (c.step < 0 || !r.s.length) { say(r.n); return; }
		const t = (r.s[c.step] + r.e[c.step]) / 2;
		if (t < this.view[0] || t > this.view[1]) { const w = this.view[1] - this.view[0]; this.look(t - w / 2, t + w / 2); }
		const x = this.X(t);
		this.cross(x);
		const lines = this.tellRow(c.row, t);
		if (lines) { showTip(this.el, x, this.rowsY + 26 * c.row, this.rowsY + 26 * c.row + 22, lines); say(lines.map(l => l.text).join('; ')); }
	}
	listen() {
		super.listen();
		this.el.addEventListener('keydown', e => this.key(e));
		// The chart library takes every wheel from the page, so it does not get to see it: alone it scrolls, with Ctrl it zooms.
		this.el.addEventListener('wheel', e => {
			e.stopPropagation();
			if (!e.ctrlKey || !this.cs) return;
			e.preventDefault();
			const x = e.clientX - this.el.getBoundingClientRect().left, m = Math.max(this.view[0], Math.min(this.view[1], this.T(x))), f = e.deltaY > 0 ? 1.25 : 0.8;
			this.look(m - (m - this.view[0]) * f, m + (this.view[1] - m) * f);
		}, { capture: true, passive: false });
		this.el.addEventListener('blur', () => this.leave());
		this.ec.on('datazoom', () => this.leave());
	}
}

// ---- labels in bars: the whole text, else the short one, else none
function fitLabels() {
	for (const lab of all('.seg > .lab')) {
		const seg = lab.parentElement, full = lab.dataset.full || (lab.dataset.full = lab.textContent), room = seg.clientWidth - 12;
		const plate = getComputedStyle(lab).backgroundColor !== 'rgba(0, 0, 0, 0)' ? 12 : 0;
		const fits = s => textWidth(s, 12, 500) + plate + 6 <= room + 6;
		const pick = fits(full) ? full : lab.dataset.short && fits(lab.dataset.short) ? lab.dataset.short : '';
		seg.dataset.fit = pick ? 'yes' : 'none';
		if (pick) lab.textContent = pick;
	}
}

// ---- a long command on the first screen shows its first lines, and a way to the rest
function cutCommands() {
	for (const box of all('.four .cmd')) {
		const pre = box.querySelector('pre'), more = box.querySelector('.whole');
		if (!more || more.querySelector('input').checked) continue;
		const cut = pre.scrollHeight > pre.clientHeight + 2;
		box.classList.toggle('cut', cut);
		more.hidden = !cut;
	}
}

const kinds = { hero: LaneChart, lane: LaneChart, steps: StepChart, timeline: TimeLine };
const chartById = id => charts.find(c => c.id === id);

async function redrawAll() { P = await palette(colours()); for (const c of charts) c.redraw(); }

async function startCharts() {
	const els = all('.chart');
	await Promise.all([doc.fonts.load('400 12px Inter'), doc.fonts.load('600 12px Inter'), doc.fonts.load('500 12px Inter')]);
	fitLabels();
	cutCommands();
	P = await palette(colours());
	await printPalette();
	if (!els.length) { root.dataset.ready = 'yes'; return; }
	registerShapes();
	for (const el of els) { const c = new kinds[el.dataset.kind](el); charts.push(c); c.init(); }
	let wait = 0, wide = root.clientWidth;
	new ResizeObserver(() => {
		if (root.clientWidth === wide) return;
		wide = root.clientWidth;
		clearTimeout(wait);
		wait = setTimeout(() => { fitLabels(); cutCommands(); for (const c of charts) c.redraw(); }, 80);
	}).observe(root);
	root.dataset.ready = 'yes';
}

// ---- theme
function theme(set) {
	if (set === 'auto') delete root.dataset.theme; else root.dataset.theme = set;
	for (const b of all('.theme button')) b.setAttribute('aria-pressed', String(b.dataset.set === set));
	return redrawAll();
}
all('.theme button').forEach(b => b.addEventListener('click', () => theme(b.dataset.set)));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawAll);

// ---- copying works without the clipboard: the text is selected and the page says so
async function copy(b) {
	const code = b.parentElement.querySelector('code');
	let word = 'Copied';
	try { await navigator.clipboard.writeText(code.textContent); } catch (e) {
		const s = getSelection();
		s.removeAllRanges();
		const r = doc.createRange();
		r.selectNodeContents(code);
		s.addRange(r);
		let done = false;
		try { done = doc.execCommand('copy'); } catch (err) { done = false; }
		if (!done) word = 'Selected: copy it with the keyboard';
	}
	const was = b.dataset.word || (b.dataset.word = b.textContent);
	if (word === 'Copied') b.textContent = tr(word);
	say(tr(word));
	setTimeout(() => { b.textContent = was; }, 2000);
}
all('.copy').forEach(b => { b.hidden = false; b.addEventListener('click', () => copy(b)); });

// ---- checklist filters hide rows, not stages
let filter = '';
all('[data-filter]').forEach(b => b.addEventListener('click', () => {
	filter = filter === b.dataset.filter ? '' : b.dataset.filter;
	all('[data-filter]').forEach(x => x.setAttribute('aria-pressed', String(x.dataset.filter === filter)));
	all('.check, .folded').forEach(r => r.classList.toggle('off', filter !== '' && r.dataset.outcome !== filter));
	if (filter === 'pass') all('.folded').forEach(f => { f.open = true; });
}));
all('[data-expand]').forEach(b => b.addEventListener('click', () => {
	const open = b.textContent === tr('Expand all');
	all('details.check, details.folded').forEach(d => { d.open = open; });
	b.textContent = tr(open ? 'Fold all' : 'Expand all');
}));

// ---- anchors open what they point at; jumps move the time line
const reveal = id => {
	const el = id && byId(id);
	if (!el) return;
	for (let p = el; p; p = p.parentElement) {
		if (p.tagName === 'DETAILS') p.open = true;
		if (p.classList.contains('rest')) { const box = p.closest('.tblock').querySelector('[data-rest]'); if (box) box.checked = true; }
	}
	el.scrollIntoView();
};
addEventListener('hashchange', () => reveal(decodeURIComponent(location.hash.slice(1))));
all('a[data-jump]').forEach(a => a.addEventListener('click', () => {
	const line = charts.find(c => c.kind === 'timeline');
	if (line) { line.jump(a.dataset.jump); line.el.focus({ preventScroll: true }); }
}));
all('[data-go]').forEach(b => b.addEventListener('click', () => { const c = chartById(b.dataset.chart); if (c) c.go(b.dataset.go); }));
all('[data-rank]').forEach(b => b.addEventListener('click', () => { const c = chartById(b.dataset.chart); if (c) c.choose(Number(b.dataset.rank)); }));
all('.theme, .tools, .filters, .choose').forEach(el => { el.hidden = false; });

// ---- rail: where the reader is
const railLinks = all('.rail a');
if (railLinks.length && 'IntersectionObserver' in window) {
	const mark = () => {
		let now = railLinks[0];
		for (const a of railLinks) { const el = byId(decodeURIComponent(a.hash.slice(1))); if (el && el.getBoundingClientRect().top < 140) now = a; }
		railLinks.forEach(a => { if (a === now) a.setAttribute('aria-current', 'true'); else a.removeAttribute('aria-current'); });
	};
	new IntersectionObserver(mark, { threshold: [0, 0.05, 0.5, 1] }).observe(doc.body);
	addEventListener('scroll', mark, { passive: true });
	mark();
}

// ---- print: light, everything that matters open, charts at paper width
let before = null;
addEventListener('beforeprint', () => {
	before = { theme: root.dataset.theme, open: all('details.check, details.folded').map(d => [d, d.open]) };
	for (const d of all('details.o-finding')) d.open = true;
	root.dataset.theme = 'light';
	root.classList.add('printing');
	P = lightPalette || P;
	fitLabels();
	for (const c of charts) c.redraw();
});
addEventListener('afterprint', () => {
	if (!before) return;
	for (const [d, open] of before.open) d.open = open;
	if (before.theme) root.dataset.theme = before.theme; else delete root.dataset.theme;
	root.classList.remove('printing');
	before = null;
	redrawAll().then(fitLabels);
});
// printPalette reads the light colours ahead: there is no time for tiles once printing has begun.
let lightPalette = null;
async function printPalette() {
	const was = root.dataset.theme;
	root.dataset.theme = 'light';
	const c = colours();
	if (was) root.dataset.theme = was; else delete root.dataset.theme;
	lightPalette = await palette(c);
}

startCharts().then(() => { if (location.hash) reveal(decodeURIComponent(location.hash.slice(1))); });
})();
