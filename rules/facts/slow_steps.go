package facts

import (
	"gpureport/ingest/timeline"
)

// slowFrom is how much longer than the median steps the slowest tenth must be for its ledger to say something.
const slowFrom = 0.05

// SlowSteps is the ledger of a GPU's slowest tenth of steps beside that of the fifth around the median: what grows makes steps unsteady.
type SlowSteps struct {
	GPU   string
	Rank  int // -1 unknown
	Steps int // analysed
	Slow  int // of them the slowest tenth
	Lines []SlowLine
}

// SlowLine is one owner's time, ns a step.
type SlowLine struct {
	Owner        timeline.Owner
	Median, Slow float64 // mean of the median steps, mean of the slow ones
}

// SlowLedger gives the GPU whose slow steps stand out most; false where no GPU has twenty steps, or the slow ones are hardly longer.
func SlowLedger(in *Input) (SlowSteps, bool) {
	var best SlowSteps
	most := slowFrom
	for _, ref := range in.Job.GPUs {
		r := in.Job.Ranks[ref.Rank]
		l := &r.GPUs[ref.GPU]
		if len(l.Steps) < minSteps {
			continue
		}
		durs := make([]float64, len(l.Steps))
		for i := range l.Steps {
			durs[i] = float64(l.Steps[i].Dur)
		}
		byLen := byLength(durs)
		n, tenth := len(byLen), max(1, len(byLen)/10)
		slow, mid := byLen[n-tenth:], byLen[n/2-tenth:n/2+tenth]
		s := SlowSteps{GPU: ref.ID, Rank: r.Process.Rank, Steps: n, Slow: tenth}
		var longer, usual float64
		for o := timeline.Owner(0); o < timeline.NOwners; o++ {
			line := SlowLine{Owner: o}
			for _, i := range slow {
				line.Slow += float64(l.Steps[i].Owners[o]) / float64(len(slow))
			}
			for _, i := range mid {
				line.Median += float64(l.Steps[i].Owners[o]) / float64(len(mid))
			}
			longer, usual = longer+line.Slow, usual+line.Median
			if line.Slow > 0 || line.Median > 0 {
				s.Lines = append(s.Lines, line)
			}
		}
		if usual > 0 && longer/usual-1 >= most {
			best, most = s, longer/usual-1
		}
	}
	return best, best.GPU != ""
}
