package facts

import (
	"gpureport/ingest/timeline"
	"gpureport/ingest/unit"
)

var (
	runTokens = &Decl{ID: "run.rank_tokens_over_mean_frac", Unit: unit.Frac, Per: Run, Max: 1e6, Capture: "C4",
		Doc: "Tokens of the rank that has most of them in a step above the ranks' mean, out of that; median over the steps. Padding counts, as shapes do not tell it."}
	runTokensFollow = &Decl{ID: "run.rank_tokens_follow_frac", Unit: unit.Frac, Per: Run, Min: -1e6, Max: 1, Capture: "C4",
		Doc: "Own time of the rank with most tokens above the ranks' mean, out of that of the rank with most own time; median over the steps. 1: the one with most tokens is the slow one."}
	runTokensSave = &Decl{ID: "run.rank_tokens_wait_frac", Unit: unit.Frac, Per: Run, Max: 1, Capture: "C4",
		Doc: "What ranks with equal tokens would return at most: run.save_late_frac where a rank is named that is late for its work; else the share of the GPUs' windows that waited for a late rank, " +
			"at most what the slowest rank's own time is above the mean in the median step."}
	rankStepTokens = &Decl{ID: "rank.step_tokens_count", Unit: unit.Count, Per: Rank, Max: 1e15, Capture: "C4",
		Doc: "Tokens of a step, median, counted by what an embedding looks up; where only linear layers are seen, the rows of the largest one in all its calls."}
	rankPadding = &Decl{ID: "rank.padding_frac", Unit: unit.Frac, Per: Rank, Max: 1, Capture: "C4",
		Doc: "Tokens of a padded batch that are padding: 1 - tokens that attention was given / tokens that the embedding looked up. Known where attention takes packed sequences of padded batches."}
)

// Tokens: do ranks get equal work, and is the work padding? Both are read from recorded input shapes. Ranks are compared where they count by
// the same layer. Missing without shapes, without steps, with one rank, and, for padding, where attention is given the padded batch: then
// no shape tells the lengths.
var Tokens = &Deriver{
	Name:  "tokens",
	After: []*Deriver{Straggler, LateSaving},
	Gives: []*Decl{runTokens, runTokensFollow, runTokensSave, rankStepTokens, rankPadding},
	Run: func(p *Pass) {
		var ranks []*timeline.Reduced
		p.eachRank(func(sub int, r *timeline.Reduced) {
			if tokensKnown(r) {
				ranks = append(ranks, r)
			}
			p.tokensOf(sub, r)
		})
		p.compareTokens(ranks)
	},
}

// tokensKnown tells whether the tokens of each step of a rank are known, and its ledger has the same steps.
func tokensKnown(r *timeline.Reduced) bool {
	g := mainGPU(r)
	return g != nil && len(r.Rank.StepTokens) > 0 && len(r.Rank.StepTokens) == len(r.Steps.Index) && len(g.Steps) == len(r.Steps.Index)
}

func (p *Pass) tokensOf(sub int, r *timeline.Reduced) {
	switch {
	case !r.Rank.Shapes:
		p.missAll(sub, "input shapes were not recorded", rankStepTokens, rankPadding)
		return
	case len(r.Rank.StepTokens) == 0:
		p.Miss(rankStepTokens, sub, "no embedding and no linear layer with shapes ran in an analysed step")
	default:
		x := make([]float64, len(r.Rank.StepTokens))
		for i, n := range r.Rank.StepTokens {
			x[i] = float64(n)
		}
		p.Set(rankStepTokens, sub, Value{Num: median(x), Cover: 1, Conf: timeline.Measured})
	}
	if r.Rank.TokensPadded <= 0 || r.Rank.TokensReal > r.Rank.TokensPadded {
		p.Miss(rankPadding, sub, "shapes tell the padded size alone: the lengths are known where attention is given packed sequences")
		return
	}
	refs, n := rowRefs(r, r.Rank.PaddingRows)
	p.Set(rankPadding, sub, Value{Num: 1 - float64(r.Rank.TokensReal)/float64(r.Rank.TokensPadded), Cover: 1, Refs: refs, NRefs: n, Conf: timeline.Measured})
}

// compareTokens compares the ranks step by step.
func (p *Pass) compareTokens(ranks []*timeline.Reduced) {
	all := []*Decl{runTokens, runTokensFollow, runTokensSave}
	switch {
	case len(p.Job.Ranks) == 0:
		p.missAll(0, noTrace, all...)
		return
	case len(p.Job.Ranks) == 1:
		p.missAll(0, "only one rank was traced, so there is nothing to compare with", all...)
		return
	case len(ranks) < len(p.Job.Ranks):
		p.missAll(0, "the tokens of a step are not known of every rank: record input shapes on all of them", all...)
		return
	}
	over, follow, late, conf, why := tokenSpread(ranks)
	if why != "" {
		p.missAll(0, why, all...)
		return
	}
	v := Value{Cover: 1, Conf: min(conf, timeline.Measured)}
	v.Num = max(0, median(over))
	p.Set(runTokens, 0, v)
	if len(follow) == 0 {
		v.Num = 0
		p.Set(runTokensFollow, 0, v)
		p.Set(runTokensSave, 0, v)
		return
	}
	v.Num = max(-1e6, min(1, median(follow)))
	p.Set(runTokensFollow, 0, v)
	wait := 0.0
	for _, r := range ranks {
		g := mainGPU(r)
		wait += float64(g.Owners[timeline.CommPeerWait]) / float64(g.Window.Dur()) / float64(len(ranks))
	}
	v.Num = min(1, wait, max(0, median(late)))
	cause, _ := p.Get(runCause, 0)
	if _, named := p.Get(runCulprit, 0); named && cause.Text == causeUneven {
		if save, ok := p.Get(runSaveLate, 0); ok {
			v.Num = save.Num // the same time, told alike
		}
	}
	p.Set(runTokensSave, 0, v)
}

// tokenSpread compares ranks step by step: how far the one with most tokens lies above the mean, how much of the slowest one's own time above
// the mean it shows, and how long that is out of the step. why says what hinders it.
func tokenSpread(ranks []*timeline.Reduced) (over, follow, late []float64, conf Confidence, why string) {
	at := make([]map[int64]int, len(ranks))
	for i, r := range ranks {
		if r.Rank.TokensOf != ranks[0].Rank.TokensOf {
			return nil, nil, nil, 0, "the ranks hold different layers, so the rows of their work do not compare"
		}
		at[i] = map[int64]int{}
		for k, n := range r.Steps.Index {
			at[i][n] = k
		}
	}
	conf = timeline.Measured
	for _, r := range ranks {
		conf = min(conf, stepConf(r), splitConfidence(r))
	}
next:
	for _, n := range ranks[0].Steps.Index {
		tok, own := make([]float64, len(ranks)), make([]float64, len(ranks))
		var sumTok, sumOwn, sumDur float64
		for i, r := range ranks {
			k, ok := at[i][n]
			if !ok {
				continue next
			}
			s := &mainGPU(r).Steps[k]
			tok[i], own[i] = float64(r.Rank.StepTokens[k]), float64(s.Dur-s.Owners[timeline.CommPeerWait])
			sumTok, sumOwn, sumDur = sumTok+tok[i], sumOwn+own[i], sumDur+float64(s.Dur)
		}
		if sumTok <= 0 || sumDur <= 0 {
			continue
		}
		count := float64(len(ranks))
		big, slow := argMax(tok), argMax(own)
		over = append(over, tok[big]*count/sumTok-1)
		if most := own[slow] - sumOwn/count; most > 0 {
			follow = append(follow, (own[big]-sumOwn/count)/most)
			late = append(late, most*count/sumDur)
		}
	}
	if len(over) == 0 {
		return nil, nil, nil, 0, "the ranks share no analysed step"
	}
	if len(over) < 5 {
		conf = timeline.Hint
	}
	return over, follow, late, conf, ""
}

// tokensTell tells whether the rank that is late, another one in each step, is the one with more tokens: no card is slow by turns.
func tokensTell(job []*timeline.Reduced) bool {
	for _, r := range job {
		if !tokensKnown(r) {
			return false
		}
	}
	if len(job) < 2 {
		return false
	}
	over, follow, _, conf, why := tokenSpread(job)
	return why == "" && conf > timeline.Hint && len(follow) > 0 && median(over) > sameWork && median(follow) >= mainCause
}
