package facts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gpureport/ingest/timeline"
)

// dipBench is hosts a and b with two GPUs each, from logs of their own; shift is by how many samples each GPU's dips come late, -1: none.
func dipBench(err time.Duration, shift ...int) *bench {
	b := newBench()
	b.in.Logs = map[string][]timeline.DeviceID{}
	for g, late := range shift {
		if g%2 == 0 {
			src := b.source(fmt.Sprintf("%d.csv", g), "smiquery", timeline.Recorded)
			b.in.Base.Sources[src].Host = string(rune('a' + g/2))
			b.in.Base.Clocks[len(b.in.Base.Clocks)-1].Error = err
		}
		d := b.deviceOf(timeline.SourceID(len(b.in.Base.Sources)-1), g%2, a100, "")
		x := flat(120, 1)
		for i := 10; late >= 0 && i < 110; i += 20 {
			for k := range 4 + i%3 { // dips of several lengths, so that only one lag fits
				x[i+late+k] = 0.1
			}
		}
		b.series(d, timeline.SMBusy, 1, x...)
		b.in.Logs[fmt.Sprintf("gpu%d", g)] = []timeline.DeviceID{d}
	}
	return b
}

func TestDipScope(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   time.Duration
		shift []int
		scope string
		leads string
		hosts float64
		says  string
	}{
		{"all hosts at once", 0, []int{0, 0, 0, 0}, "all hosts", "none", 2, "storage or the network"},
		{"host b alone", 0, []int{-1, -1, 0, 0}, "one host", "none", 1, "all GPUs of host b dip together, none of host a"},
		{"one GPU", 0, []int{-1, 3, -1, -1}, "one GPU", "GPU 1", 0, "only GPU 1 dips"},
		{"hosts at different times", 0, []int{0, 0, 8, 8}, "some GPUs", "none", 2, "at different times"},
		{"host a first", 0, []int{0, 0, 1, 1}, "all hosts", "a", 2, "host a dips first"},
		{"within the clocks' error nobody is first", time.Second / 2, []int{0, 0, 1, 1}, "all hosts", "none", 2, "look at what the hosts share"},
		{"clocks too loose", 3 * time.Second, []int{0, 0, 0, 0}, "none", "none", 2, "not placed surely enough"},
		{"one host", 0, []int{0, 0}, "all GPUs", "none", 1, "all GPUs dip together: look at what they share"},
		{"nobody", 0, []int{-1, -1, -1, -1}, "none", "none", 0, "no GPU dips"},
		{"each at its own times", 0, []int{0, 8}, "none", "none", 0, "each at its own times"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := dipBench(c.err, c.shift...).derive(t)
			g.text("run", runDipScope, c.scope)
			g.text("run", runDipLeads, c.leads)
			g.num("run", runDipHosts, c.hosts)
			if v := g.value("run", runDipSays); !strings.Contains(v.Text, c.says) || v.Conf != timeline.Hint {
				t.Errorf("says %q, %v", v.Text, v.Conf)
			}
		})
	}
}
