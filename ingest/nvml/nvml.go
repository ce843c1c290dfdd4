// Package nvml reads the captures of `gpureport record`.
//
// A capture is JSON Lines, version 1: one object a line, UTF-8, appended tick by tick, plain or compressed. Its first line is the header,
// {"k":"hdr","schema":"gpureport.record","v":1,...}; by that it is recognised. k is the kind of a record, t its time: ns on the monotonic
// clock since the recording began, at the start of the reading. Records of an unknown kind, unknown keys, any order of keys, a cut last
// line and null elements are accepted; a key is never renamed or given another unit, a changed meaning gets a new key; v rises only for a
// change that older readers cannot bear. A missing key was not measured, null was asked for and not given. Counters are cumulative and
// raw; a decrease is a reset. Integers are 64 bits wide.
//
// Clock: clk gives the wall clock (UTC) at an instant of the monotonic one, at the start, every minute, and when the two moved by more
// than 1 ms. A wall clock that jumps ahead moves what follows; one that is set back moves what came before, so that time only rises.
//
// Records (S at each tick, W at most once a second, L every 10 ticks but within 1 s to 10 s, C once):
//
//	hdr    C  v, tool, host, boot_id, pid, part (1, 2, ... of a rotated capture), start_unix_ns, tz_offset_s, period_ns, wide_ns, slow_ns,
//	          hz (of ticks), gpus, redacted, driver, nvml, cuda
//	clk       unix_ns; boot_ns since boot, sleep included; unc_ns half width of the reading
//	host   C  cpus_online, cpus, sockets, cores, model, governor, freq_max kHz, mem B, btime (Unix s), kernel, os, set (CPUs allowed),
//	          nodes [{id,cpus,mem,distance}], disks [{name,model,bytes,rotational}], nics [{name,pci,numa,driver,mtu,ib}]
//	gpu    C  i index, uuid, pci, name, vbios, cpus, cc [major,minor], minor, mem_total B, sm_max, mem_max, sm_app MHz, pl, pl_def, pl_min,
//	          pl_max mW, t_shut, t_slow, t_mem, t_max C, tl_* the same as margins, pcie_max [gen,width], pcie_dev gen of the card,
//	          nvlinks, nvlink_v, nvlink_bps B/s of a link, nvr [[kind,bus] of the other end], reasons_ok mask, mig, ecc, persist, gpm,
//	          mode, virt, numa, fabric [state,status]
//	topo   C  gpu, p2p, nvl: N x N levels (0 same, 10 PIX, 20 PXB, 30 PHB, 40 NODE, 50 SYS), P2P states (0 yes) and NVLinks between two;
//	          nics [{name,pci,numa,anc: level from each GPU}]
//	g      S  i; u [gpu,memory] %; c [sm,mem,video] MHz; r event reasons mask; p mW; pa mW mean of 1 s; pi mW now; en mJ; T [gpu,mem] C;
//	          tm C to the limit; ps P-state; m [used,reserved] B; tv {pw,th,sb,board,low,rel,swth,hwth,brake} ns limited; px [tx,rx] B,
//	          or pr [tx,rx] B/s over 20 ms in a record of its own; nv [tx,rx] B; gpm {ge,sm,occ,int,tc,dfma,hmma,imma,dram,fp64,fp32,fp16}
//	          fractions and {ptx,prx,ntx,nrx} B/s, means of gpm_dt ns; e {key: NVML code} of what failed; d ns that the reading took
//	gs     S  i; ty 1; s [[Unix us, utilisation %], ...]: the driver's own samples since the last tick
//	gl     L  i; lk [gen,width]; rp replays; pe {PCIe errors}; nvs 0/1 a link; nve [replay,recovery,CRC flit,CRC data] a link;
//	          ecc [corrected, uncorrected volatile, corrected, uncorrected aggregate]; eccd [DRAM corr, unc, SRAM corr, unc aggregate];
//	          rr [corrected,uncorrected,pending,failed] rows; rpend; rpg [single,double] pages; pl mW enforced; act recovery action;
//	          b1 [used,total] B; fan %; ed [enc,dec,jpg,ofa] %; pids [[pid, B, "C"|"G"|"M"]]
//	pu     L  i; p [[pid, SM %, memory %, Unix us]]
//	h      S  cpu [user,nice,system,idle,iowait,irq,softirq,steal] ticks; run, blk tasks; ctx, intr, forks; load [1,5,15 min];
//	          psi {cpu,mem,io: [some,full]} us; mem [total,free,available,cached,dirty,writeback,swap total,swap free,shared,buffers,
//	          reclaimable,anonymous] B; W: cpus [[CPU, then as cpu]]; vm {majfault, pgpgin, pgpgout KiB, swapin, swapout pages, numa_miss,
//	          numa_foreign, oom}; retrans; dsk {name: [reads, B, ms, writes, B, ms, in flight, busy ms, weighted ms]};
//	          net {name: [rx B, packets, errors, drops, tx B, packets, errors, drops]}
//	hl     L  freq [min,max,mean] kHz; numa [[node,total,free] B]; link {name: [up, Mb/s]}
//	cgroup    id, v (1, 2), path, quota [us,period us], set: a control group, when first met; 0 is the recorder's own and the command's
//	cg     W  id; quota; thr [periods, throttled periods, us]; use_us; mem [B, limit]; oom
//	proc      pid, ppid, comm, start (ticks since boot), cpus, mems, cg, gpu [indices], cmd: a process, when first met or changed; looked for
//	          with L, and with W for 10 s after one of them was gone: a loader that makes its workers anew is seen within a second
//	pr     W  p [[pid, utime, stime ticks, rss B, read B, written B, threads, major faults, ran ns, waited for a CPU ns, switches asked for,
//	          not asked for, ticks waiting for a disk]]; run, wait and switches are the main thread's
//	ib     W  dev, port, x {port_xmit_data, port_rcv_data B, port_xmit_wait ticks}; L: errors in x, rate, st, ph, layer
//	ev        ty: xid, driver (bits), lost, reset_required, back, cap_absent, no_gpu, start, exit; i, code, txt
//	again     on true, and later false: the records between are the last batch of the part before, repeated at the start of the next for their
//	          counters: what these rise by from there on would else be lost to who reads the parts one by one
//	next      part: the last record of a part that another one follows
//	end       why, n, ticks, late, max_late_ns, cpu_user_ns, cpu_sys_ns, rss_max, bytes, raw_bytes; missing: the recorder was killed
//
// Shares and rates of counters cover the time between two readings, whatever it was. Utilisation looks back over up to a second.
// What it cannot tell: kernels, streams, which thread of a process ran.
package nvml

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

// Format reads captures of gpureport record.
var Format = ingest.Format{
	Name:      "gpureport-record",
	Doc:       "gpureport record: utilisation, power, clocks, limits, links and errors of each GPU; CPUs, memory, disks, network and processes of the host",
	Recognise: recognise,
	Read:      read,
	Asks:      []string{"step", "idle", "data", "comm", "hw"},
}

func recognise(h ingest.Head) bool {
	line, _, _ := bytes.Cut(bytes.TrimLeft(h.Text, " \t\r\n"), []byte("\n"))
	if !bytes.HasPrefix(line, []byte("{")) {
		return false
	}
	line = line[:min(len(line), 4096)]
	i := bytes.Index(line, []byte(`"schema"`))
	if i < 0 {
		return false
	}
	rest := bytes.TrimLeft(line[i+len(`"schema"`):], " \t:")
	return bytes.HasPrefix(rest, []byte(`"gpureport.record"`))
}

// maxLine is longer than any record that the recorder writes.
const maxLine = 4 << 20

// lenient reads what a damaged or newer file may hold.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

func read(ctx context.Context, in *ingest.Input, b *timeline.Builder) error {
	f, err := in.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	r := newReader(in, b)
	br := bufio.NewReaderSize(f, 64<<10)
	var long []byte
	for {
		part, err := br.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			if len(long)+len(part) <= maxLine {
				long = append(long, part...)
			} else {
				long = append(long[:0], bytes.Repeat([]byte{0}, 1)...) // no JSON: reported below
			}
			continue
		}
		line := part
		if len(long) > 0 {
			line = append(long, part...)
			long = line[:0]
		}
		if err == nil || len(line) > 0 {
			r.row++
			r.line(line, err == nil)
		}
		if r.row%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			in.Report("gpureport-record/damaged-file", timeline.DataLoss, uint64(r.row), "%v after line %d: what lies before it is read; a recorder that was killed leaves this", err, r.row)
			break
		}
	}
	return r.finish()
}
