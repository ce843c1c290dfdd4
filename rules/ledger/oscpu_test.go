package ledger

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"gpureport/ingest/timeline"
	"gpureport/ingest/timeline/timelinetest"
)

// The gap lies between 100 us and the launch at 1000 us; the second kernel closes it at 1012 us.
const (
	osHead = "main op -40us..-39us aten::empty\nmain api -20us..-10us cudaLaunchKernel link=1\ngpu0/s7 kernel 0us..100us sgemm link=1\n"
	osTail = "main api 1000us..1010us cudaLaunchKernel link=2\ngpu0/s7 kernel 1012us..1100us sgemm link=2\n"
)

// What the system shows of threads decides between running, waiting and not being scheduled.
func TestSystemView(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing recorded: as before", "", "host.python 900µs"},
		{"running: switches were recorded, and none covers it", "main offcpu -30us..-25us off CPU", "host.python 900µs [on CPU 900µs]"},
		{"preempted, by the file's word", "main offcpu 200us..900us Running", "host.python 200µs [on CPU 200µs], host.descheduled 700µs"},
		{"off the CPU, no word, and waits were recorded", "main offcpu 200us..900us off CPU\nmain oswait -35us..-30us read", "host.python 200µs [on CPU 200µs], host.descheduled 700µs"},
		{"off the CPU, no word, and waits were not recorded: cannot be told", "main offcpu 200us..900us off CPU", "host.python 900µs [on CPU 200µs]"},
		{"gave up the CPU in a call that was not recorded", "main offcpu 200us..900us Interruptible\nmain oswait -35us..-30us read", "host.python 900µs [on CPU 200µs]"},
		{"a known wait is no descheduling", "main offcpu 200us..900us off CPU\nmain oswait 195us..905us read", "host.python 900µs [on CPU 200µs]"},
		{"a call that runs is no wait", "main offcpu -30us..-25us off CPU\nmain oswait 195us..905us write", "host.python 900µs [on CPU 900µs]"},
		{"half of a wait explains half", "main offcpu 200us..900us off CPU\nmain oswait 195us..500us read", "host.python 500µs [on CPU 200µs], host.descheduled 400µs"},
		{"samples alone", "main sample 300us a\nmain sample 400us a\nmain sample 500us a\nmain sample 600us b", "host.python 900µs [on CPU 450µs]"},
		{"operators and calls come first", "main offcpu 200us..900us Running\nmain op 300us..350us aten::add", "host.launch 50µs, host.python 200µs [on CPU 200µs], host.descheduled 650µs"},
		{"what another thread of the process does", "main offcpu 200us..900us off CPU\nmain oswait 195us..905us pthread_cond_wait\nworker api 500us..895us cudaFree\nworker offcpu -30us..-25us off CPU",
			"host.python 505µs [on CPU 190µs] [lock 315µs], host.allocator 395µs"},
		{"the thread that ended the wait was not scheduled", "main offcpu 200us..900us off CPU\nmain oswait 200us..900us sem_wait\nworker oswait 880us..890us write\nworker offcpu 200us..600us Running",
			"host.python 500µs [on CPU 200µs] [lock 300µs], host.descheduled 400µs"},
		{"a signal too early ends nothing", "main offcpu 200us..900us off CPU\nmain oswait 200us..900us sem_wait\nworker oswait 860us..870us write\nworker offcpu 200us..600us Running",
			"host.python 900µs [on CPU 200µs]"},
		{"turns of one wait", "main offcpu 200us..550us off CPU\nmain offcpu 560us..900us off CPU\nmain oswait 200us..550us pthread_cond_timedwait\nmain oswait 560us..900us pthread_cond_timedwait\n" +
			"pt_data_pin offcpu -30us..-25us off CPU\npt_data_pin oswait 300us..890us munmap", "host.python 900µs [on CPU 200µs] [pin 700µs]"},
		{"two waits one after the other are not one", "main offcpu 200us..550us off CPU\nmain offcpu 560us..900us off CPU\nmain oswait 200us..550us pthread_cond_timedwait\nmain oswait 560us..900us pthread_cond_wait\n" +
			"pt_data_pin offcpu -30us..-25us off CPU\npt_data_pin oswait 300us..545us munmap\nworker oswait 700us..895us write\nworker offcpu 0us..600us Running",
			"host.python 860µs [on CPU 210µs] [lock 300µs] [pin 350µs], host.descheduled 40µs"},
		{"the pin thread's queue is the loader's", "main offcpu 200us..900us off CPU\nmain oswait 200us..900us sem_clockwait\npt_data_pin oswait 300us..890us write\npt_data_pin offcpu -30us..-25us off CPU",
			"host.python 200µs [on CPU 200µs], host.dataloader 700µs"},
		{"a pin thread that waits for its workers", "main offcpu 200us..900us off CPU\nmain oswait 200us..900us pthread_cond_timedwait\npt_data_pin oswait 300us..890us poll\npt_data_pin offcpu 300us..885us off CPU",
			"host.python 315µs [on CPU 200µs] [pin 115µs], host.dataloader 585µs"},
		{"an interpreter lock without a signal, and the pin thread runs", "main offcpu 200us..900us off CPU\nmain oswait 200us..900us pthread_cond_timedwait\npt_data_pin offcpu 0us..250us off CPU",
			"host.python 900µs [on CPU 200µs] [pin 650µs]"},
		{"a chain of two", "main offcpu 200us..900us off CPU\nmain oswait 200us..900us sem_wait\na oswait 200us..880us sem_wait\na oswait 885us..895us write\na offcpu 200us..880us off CPU\n" +
			"b oswait 860us..870us write\nb offcpu 200us..300us Running", "host.python 800µs [on CPU 200µs] [lock 600µs], host.descheduled 100µs"},
		{"two that wait for each other", "main offcpu 200us..900us off CPU\nmain oswait 200us..900us sem_wait\nmain oswait 100us..190us write\na oswait 200us..900us sem_wait\na oswait 100us..190us write\na offcpu 200us..900us off CPU",
			"host.python 900µs [on CPU 200µs]"},
		{"in next(), running and waiting", "main anno 100us..1000us enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__\nmain offcpu 300us..900us off CPU\nmain oswait 300us..900us sem_clockwait",
			"host.dataloader 900µs [on CPU 300µs]"},
	} {
		red := reduce(t, osHead+c.text+"\n"+osTail)[0]
		got := owned(&red.GPUs[0])
		want := "compute 188µs, host.launch 12µs, "
		if strings.HasPrefix(c.want, "host.launch 50µs, ") {
			want = "compute 188µs, host.launch 62µs, "
			c.want = strings.TrimPrefix(c.want, "host.launch 50µs, ")
		}
		if got != want+c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, want+c.want)
		}
	}
}

// Without operators the system's view is the only one.
func TestSystemViewWithoutOperators(t *testing.T) {
	head := strings.TrimPrefix(osHead, "main op -40us..-39us aten::empty\n")
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "unknown 900µs [no operators 900µs]"},
		{"switches", "main offcpu 200us..900us Running", "host.python 200µs [on CPU 200µs], host.descheduled 700µs"},
		{"samples", "main sample 300us a\nmain sample 400us a", "host.python 250µs [on CPU 250µs], unknown 650µs [no operators 650µs]"},
		{"a wait that cannot be followed", "main oswait 200us..900us read", "unknown 900µs [no operators 900µs]"},
	} {
		red := reduce(t, head+c.text+"\n"+osTail)[0]
		if got, want := owned(&red.GPUs[0]), "compute 188µs, host.launch 12µs, "+c.want; got != want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, want)
		}
	}
}

// A thread that only launches waits for the main thread, whose state counts.
func TestSystemViewOfALaunchingThread(t *testing.T) {
	red := reduce(t, `main op -40us..-39us aten::empty
main anno -90us..-80us enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__
autograd api -20us..-10us cudaLaunchKernel link=1
gpu0/s7 kernel 0us..100us sgemm link=1
autograd oswait 100us..990us pthread_cond_wait
autograd offcpu 100us..990us off CPU
main offcpu 300us..800us Running
autograd api 1000us..1010us cudaLaunchKernel link=2
gpu0/s7 kernel 1012us..1100us sgemm link=2
`)[0]
	if got, want := owned(&red.GPUs[0]), "compute 188µs, host.launch 12µs, host.python 400µs [on CPU 400µs], host.descheduled 500µs"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The totals of the main thread: time and number of times it was off the CPU with nothing to wait for, and its commonest frame.
func TestSystemTables(t *testing.T) {
	red := reduce(t, osHead+`main offcpu 200us..300us Running
main offcpu 400us..450us Running
main offcpu 500us..600us off CPU
main oswait 500us..600us read
main sample 150us eval (python3)
main sample 350us loads (_json.so)
main sample 360us loads (_json.so)
main sample 1050us gone (python3)
`+osTail)[0]
	r := red.Rank
	if r.PreemptedNS != 150_000 || r.Preemptions != 2 || len(r.PreemptedRows) != 2 || !r.Switches || !r.OSWaits || !r.CPUSamples || r.PinThread {
		t.Errorf("%+v", r)
	}
	if r.Frame != "loads (_json.so)" || r.FrameTop != 2 || r.FrameSamples != 3 {
		t.Errorf("frame %q, %d of %d", r.Frame, r.FrameTop, r.FrameSamples)
	}
}

// Allocations behind the first step count, by the level that the process holds.
func TestMemoryTable(t *testing.T) {
	tl := timelinetest.Parse("main anno 0us..100us ProfilerStep#1\nmain anno 100us..200us ProfilerStep#2\nmain anno 200us..300us ProfilerStep#3\n" +
		"main api 10us..15us cudaLaunchKernel link=1\ngpu0/s7 kernel 20us..60us k link=1\nmain api 110us..115us cudaLaunchKernel link=2\ngpu0/s7 kernel 120us..160us k link=2\n" +
		"main api 210us..215us cudaLaunchKernel link=3\ngpu0/s7 kernel 220us..260us k link=3\n")
	tl.Tracks = append(tl.Tracks, timeline.Track{Kind: timeline.TrackGPU, Proc: 0, Device: 0, Thread: -1})
	us := func(v ...int64) (out []timeline.Time) {
		for _, x := range v {
			out = append(out, timeline.Time(x*1000))
		}
		return out
	}
	tl.Series = []timeline.Series{{Metric: timeline.MemAllocated, Track: timeline.TrackID(len(tl.Tracks) - 1), At: us(5, 10, 250, 260, 270, 280), Value: []float64{100, 300, 350, 350, 250, 260}, Row: make([]uint32, 6)}}
	reds, err := Reduce(tl, tables(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r := reds[0].Rank; !r.MemoryEvents || r.MemoryAllocs != 2 || r.MemoryAllocBytes != 60 || r.MemoryFrees != 1 {
		t.Errorf("%d allocations of %d bytes, %d releases", r.MemoryAllocs, r.MemoryAllocBytes, r.MemoryFrees)
	}
}

// Whatever a system shows, the ledger closes, and time is moved only between those who can be told apart by it.
func TestSystemViewCloses(t *testing.T) {
	names := []string{"off CPU", "Running", "Interruptible"}
	calls := []string{"read", "sem_wait", "pthread_cond_timedwait", "poll"}
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		var b, os strings.Builder
		b.WriteString("main op -40us..-39us aten::empty\n")
		at := 0
		for i := range 20 {
			fmt.Fprintf(&b, "%s api %dus..%dus cudaLaunchKernel link=%d\n", []string{"main", "autograd"}[rnd.IntN(2)], at, at+10, i+1)
			at += 12 + rnd.IntN(30)
			fmt.Fprintf(&b, "gpu0/s7 kernel %dus..%dus sgemm link=%d\n", at, at+20, i+1)
			if rnd.IntN(3) == 0 {
				fmt.Fprintf(&b, "main anno %dus..%dus enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__\n", at, at+90)
			}
			at += 20 + rnd.IntN(300)
		}
		for _, th := range []string{"main", "autograd", "pt_data_pin", "other"} {
			for x := -30; x < at; x += 1 + rnd.IntN(200) {
				end := x + 1 + rnd.IntN(150)
				switch rnd.IntN(3) {
				case 0:
					fmt.Fprintf(&os, "%s offcpu %dus..%dus %s\n", th, x, end, names[rnd.IntN(3)])
					x = end
				case 1:
					fmt.Fprintf(&os, "%s oswait %dus..%dus %s\n", th, x, end, calls[rnd.IntN(4)])
				default:
					fmt.Fprintf(&os, "%s sample %dus f\n", th, x)
				}
			}
		}
		without, with := reduce(t, b.String())[0].GPUs[0], reduce(t, b.String()+os.String())[0].GPUs[0]
		for o := range with.Owners {
			switch o := timeline.Owner(o); o {
			case timeline.HostPython, timeline.HostDescheduled, timeline.HostDataloader, timeline.HostLaunch, timeline.HostSync, timeline.UnknownOwner:
			default:
				if with.Owners[o] != without.Owners[o] {
					t.Errorf("seed %d: %v was %d ns, is %d", seed, o, without.Owners[o], with.Owners[o])
				}
			}
		}
		if with.Owners[timeline.HostDataloader] < without.Owners[timeline.HostDataloader] || with.Window != without.Window {
			t.Errorf("seed %d: the loader's time was %d ns, is %d", seed, without.Owners[timeline.HostDataloader], with.Owners[timeline.HostDataloader])
		}
	}
}
