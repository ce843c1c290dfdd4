// Package recorder samples every GPU through NVML, and the host through /proc and /sys, into a capture that package nvml reads: it is
// `gpureport record`. It is the one package that may touch a GPU.
//
// GPUs are read through Driver and Device, a small interface of our own. Its implementation on go-nvml loads the driver's library when
// a recording begins, and not before; without cgo, or without a driver, the host alone is recorded and that is said once. What a part or
// a driver cannot do is found out by asking once (NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH, NO_PERMISSION) and left
// out from then on. A GPU that falls off the bus becomes an event; it is asked again every slow tick, and everything else goes on.
//
// Ticks lie on a fixed grid, a period apart from the first. A tick that cannot be kept is counted, never caught up. Each GPU has a goroutine of its own:
// a driver that hangs on one of them delays its readings alone. The file format is described in package nvml.
//
// Privacy: no command line, no environment, no user name, no serial number is written; Options.Redact hides the host's name and paths of
// control groups as well. Names of processes are those of /proc/PID/comm, 15 characters without arguments.
package recorder

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// MinPeriod is the shortest interval: the driver's own window is longer, and the host should train, not count.
const MinPeriod = 100 * time.Millisecond

// Options say what to record. The zero value of each is a default.
type Options struct {
	Path     string        // of the file; .gz and .zst compress; "": Name
	Period   time.Duration // of the samples; 0 is 1 s
	Duration time.Duration // 0: until the context ends or the command does
	Rotate   int64         // bytes after which a new part begins; 0 never
	Command  []string      // run it, record while it runs
	Redact   bool
	Serial   bool   // write serial numbers of GPUs
	Tool     string // name and version of the program

	Proc, Sys string // roots of /proc and /sys
	Driver    Driver // nil: the machine's
	NoGPU     bool   // do not look for GPUs

	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Say            func(line string) // what the user should know; nil: nobody

	onTick func(tick int64) // after its records were written
}

// Summary is what a recording came to.
type Summary struct {
	Path     string // of the first part
	Parts    int
	Elapsed  time.Duration
	GPUs     int
	Records  int64
	Bytes    int64 // on disk, all parts
	Raw      int64 // before compression
	Ticks    int64
	Late     int64 // ticks that were not kept
	MaxLate  time.Duration
	CPU      time.Duration // of the recorder alone, user and system
	Absent   []string      // calls of NVML that this machine does not answer
	NeedRoot []string      // those among them that root may make
	ExitCode int           // of the command
	Ran      bool          // the command ran
}

func (o *Options) check() error {
	switch {
	case !supported:
		return errors.New("recording needs Linux: it reads /proc, /sys and the driver's library")
	case o.Period == 0:
		o.Period = time.Second
	case o.Period < MinPeriod:
		return fmt.Errorf("--interval %v: under %v the driver repeats its values and the recorder takes the host's time", o.Period, MinPeriod)
	}
	if o.Duration < 0 || o.Rotate < 0 {
		return errors.New("--duration and --rotate cannot be negative")
	}
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	if o.Sys == "" {
		o.Sys = "/sys"
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Path == "" {
		o.Path = fmt.Sprintf("%s-%s.gpurec.jsonl.zst", hostName(o.Redact), time.Now().UTC().Format("20060102T150405Z"))
	}
	return nil
}

func hostName(redact bool) string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = "host"
	}
	if redact {
		sum := sha256.Sum256([]byte(name))
		name = "host-" + hex.EncodeToString(sum[:4])
	}
	return name
}

// session is one recording while it runs.
type session struct {
	o      Options
	start  time.Time
	host   *host
	driver Driver
	gpus   []*gpu
	codes  ledgerOfCodes
	said   int // of codes: written into the file
	out    *out

	wide, slow         int64 // ns between wide and slow ticks
	nextWide, nextSlow int64
	clkAt, clkOff      int64  // when the clock was last written, and what wall minus monotonic was
	static             []byte // host, gpu and topo, written at the start of each part
	carry              []byte // counters as the part before ended with them, for the start of the next
	part               int
	batch              lines
	ready, xids        bool        // the driver tells events; Xids of every GPU
	deaf               atomic.Bool // it stopped
	listed             int         // GPUs that the driver has
	events             chan []byte
	beside             sync.WaitGroup // what runs beside the ticks
	sum                Summary
}

func (s *session) now() int64 { return int64(time.Since(s.start)) }

// Run records until the context ends, the duration is over, or the command has ended. The summary is good even beside an error, which
// is the file's: a command goes on without its recording, and Run returns when it has ended.
func Run(ctx context.Context, o Options) (Summary, error) {
	if err := o.check(); err != nil {
		return Summary{}, err
	}
	s := &session{o: o, start: time.Now(), events: make(chan []byte, 64)}
	s.codes.first = map[string]Code{}
	s.wide = max(int64(o.Period), int64(time.Second))
	s.slow = min(max(10*int64(o.Period), int64(time.Second)), max(10*int64(time.Second), int64(o.Period)))
	s.host = newHost(o.Proc, o.Sys)
	s.host.groups.of(s.host, s.host.self)
	s.openGPUs()
	defer s.closeGPUs()
	s.describe()
	s.watch()
	out, err := create(o.Path, o.Rotate, s.head, s.tail)
	if err != nil {
		if out == nil {
			return s.sum, err
		}
		return s.sum, errors.Join(err, out.close())
	}
	s.out, s.part = out, 1
	cmd, err := s.startCommand()
	if err != nil {
		s.end("command not started")
		return s.sum, errors.Join(err, s.out.close())
	}
	why := s.loop(ctx, cmd)
	s.end(why)
	err = s.out.close()
	s.sum.Path, s.sum.Parts, s.sum.Bytes, s.sum.Raw, s.sum.Records = o.Path, s.out.part, s.out.stored, s.out.raw, s.out.records
	s.codes.mu.Lock()
	s.sum.Absent, s.sum.NeedRoot = slices.Clone(s.codes.names), slices.Clone(s.codes.root)
	s.codes.mu.Unlock()
	if cmd != nil {
		cmd.wait() // a file that could not be written ends the recording, not the training
		s.sum.ExitCode, s.sum.Ran = cmd.code, true
	}
	return s.sum, err
}

// openGPUs finds the GPUs, or says once why there are none.
func (s *session) openGPUs() {
	if s.driver = s.o.Driver; s.driver == nil && !s.o.NoGPU {
		d, err := openNVML()
		if err != nil {
			s.noGPU(err.Error())
			return
		}
		s.driver = d
	}
	if s.driver == nil {
		return
	}
	n, code := s.driver.Count()
	if code != OK {
		s.noGPU("the driver does not list its GPUs: " + code.String())
		return
	}
	if n == 0 {
		s.noGPU("the driver has no GPU")
	}
	s.listed = n
	for i := range n {
		dev, code := s.driver.Device(i)
		if code != OK {
			s.o.Say(fmt.Sprintf("GPU %d cannot be opened (%s): it is not recorded", i, code))
			var l lines
			event(&l, s.now(), "lost", int64(i), int64(code), fmt.Sprintf("GPU %d cannot be opened: %s", i, code))
			s.static = append(s.static, l.b...)
			continue
		}
		s.gpus = append(s.gpus, newGPU(i, dev, &s.codes))
	}
	s.sum.GPUs = len(s.gpus)
}

func (s *session) noGPU(why string) {
	s.o.Say("the host alone is recorded, for " + why)
	var l lines
	event(&l, s.now(), "no_gpu", none, none, why)
	s.static = append(s.static, l.b...)
}

// closeGPUs lets the driver go. A worker that hangs in it is left where it is.
func (s *session) closeGPUs() {
	hung := false
	for _, g := range s.gpus {
		close(g.req)
		hung = hung || g.busy
	}
	done := make(chan struct{})
	go func() { s.beside.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(3 * time.Second):
		hung = true
	}
	if s.driver != nil && !hung {
		s.driver.Close()
	}
}

// describe makes the static records.
func (s *session) describe() {
	var l lines
	s.host.describe(&l, s.now())
	for _, g := range s.gpus {
		g.describe(&l, s.now, s.o.Serial)
		if g.lost != 0 {
			g.sayLost(&l, s.now())
		}
	}
	topology(&l, s.now(), s.gpus, s.host)
	s.static = append(s.static, l.b...)
}

// head is the beginning of a part: each can be read without the others.
func (s *session) head(part int) []byte {
	var l lines
	l.open("", '{')
	l.text("k", "hdr")
	l.text("schema", "gpureport.record")
	l.num("v", 1)
	l.text("tool", s.o.Tool)
	l.text("host", hostName(s.o.Redact))
	if !s.o.Redact {
		l.text("boot_id", s.host.text(s.o.Proc, "sys/kernel/random/boot_id"))
	}
	l.num("pid", int64(os.Getpid()))
	l.num("part", int64(part))
	l.num("start_unix_ns", s.start.UnixNano())
	_, zone := s.start.Zone()
	l.num("tz_offset_s", int64(zone))
	l.num("period_ns", int64(s.o.Period))
	l.num("wide_ns", s.wide)
	l.num("slow_ns", s.slow)
	l.num("hz", 100) // USER_HZ, the unit of ticks in /proc, is 100 on every architecture that has NVIDIA GPUs
	l.num("gpus", int64(len(s.gpus)))
	l.bool("redacted", s.o.Redact)
	l.bool("xids", s.xids && !s.deaf.Load())
	if s.driver != nil {
		driver, nvml, cuda := s.driver.Version()
		l.text("driver", driver)
		l.text("nvml", nvml)
		if cuda > 0 {
			l.text("cuda", fmt.Sprintf("%d.%d", cuda/1000, cuda%1000/10))
		}
	}
	l.end()
	s.clock(&l, true)
	l.b = append(l.b, s.static...)
	if len(s.carry) > 0 {
		l.again(s.now(), true)
		l.b = append(l.b, s.carry...)
		l.again(s.now(), false)
	}
	return l.b
}

// again marks that what follows ended the part before, or that this is over.
func (l *lines) again(t int64, on bool) {
	l.begin("again", t)
	l.bool("on", on)
	l.end()
}

// counting are the kinds of records that hold counters.
var counting = [][]byte{[]byte(`{"k":"g",`), []byte(`{"k":"gl",`), []byte(`{"k":"h",`), []byte(`{"k":"cg",`), []byte(`{"k":"pr",`), []byte(`{"k":"ib",`)}

// turn ends a full part. Each part is a file that can be read alone, and a counter says something only beside its last reading: so the last
// batch, which holds everything that is read seldom as well, is repeated at the start of the next.
func (s *session) turn(batch []byte) error {
	s.carry = s.carry[:0]
	for line := range bytes.Lines(batch) {
		if slices.ContainsFunc(counting, func(k []byte) bool { return bytes.HasPrefix(line, k) }) {
			s.carry = append(s.carry, line...)
		}
	}
	return s.out.turn()
}

// tail ends a part that another follows.
func (s *session) tail(next int) []byte {
	var l lines
	l.begin("next", s.now())
	l.num("part", int64(next))
	l.end()
	return l.b
}

// clock appends clk where the wall clock has moved against the monotonic one by more than 1 ms, or a minute has gone by.
func (s *session) clock(l *lines, always bool) {
	// The best of a few: a preempted reading says so by its width.
	var at, unix, unc int64
	for k := range 5 {
		a := s.now()
		w := time.Now().UnixNano()
		b := s.now()
		if half := (b - a + 1) / 2; k == 0 || half < unc {
			at, unix, unc = a+half, w, half
		}
		if k == 0 && !always && at-s.clkAt < int64(time.Minute) && abs(unix-at-s.clkOff) <= 1e6 {
			return
		}
	}
	s.clkAt, s.clkOff = at, unix-at
	l.begin("clk", at)
	l.num("unix_ns", unix)
	l.some("boot_ns", bootNs())
	l.num("unc_ns", unc)
	l.end()
}

func abs(v int64) int64 { return max(v, -v) }

// loop takes the samples and tells why it ended.
func (s *session) loop(ctx context.Context, cmd *command) (why string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, g := range s.gpus {
		go g.run(s.now)
	}
	s.listen(ctx)
	var ended <-chan struct{}
	var signals chan os.Signal
	stop := ctx.Done()
	if cmd != nil {
		ended = cmd.done
		stop = nil // the command decides when it is over
		ch := make(chan os.Signal, 8)
		signal.Notify(ch, forwarded...)
		defer signal.Stop(ch)
		signals = ch
	}
	var limit <-chan time.Time
	if s.o.Duration > 0 {
		t := time.NewTimer(s.o.Duration - time.Since(s.start))
		defer t.Stop()
		limit = t.C
	}
	due := s.now() // the first tick at once, the others on its grid
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case sig := <-signals:
			cmd.pass(sig)
			continue
		case <-stop:
			why = "stopped"
		case <-limit:
			why = "duration"
			if cmd != nil {
				s.o.Say("--duration is over: the command runs on without being recorded")
				limit = nil
			}
		case <-ended:
			why = "command ended"
		}
		late := time.Duration(s.now() - due)
		if why == "" {
			s.sum.MaxLate = max(s.sum.MaxLate, late)
		}
		if err := s.tick(due, why != "", cmd, why); err != nil {
			if cmd == nil {
				return "write error"
			}
			s.o.Say(err.Error() + ": the command runs on")
			why = "write error"
		}
		if why != "" {
			if cmd != nil && why != "command ended" { // the command still needs its signals
				s.end(why)
				_ = s.out.close()
				for {
					select {
					case sig := <-signals:
						cmd.pass(sig)
					case <-ended:
						return why
					}
				}
			}
			return why
		}
		s.sum.Ticks++
		if s.o.onTick != nil {
			s.o.onTick(s.sum.Ticks)
		}
		next := due + int64(s.o.Period)
		if behind := s.now() - next; behind >= 0 { // no catching up
			skipped := behind/int64(s.o.Period) + 1
			s.sum.Late += skipped
			next += skipped * int64(s.o.Period)
		}
		due = next
		timer.Reset(time.Duration(due - s.now()))
	}
}

// tick takes one sample of everything that is due and writes it.
func (s *session) tick(due int64, last bool, cmd *command, why string) error {
	t := s.now()
	l := &s.batch
	l.b = l.b[:0]
	s.clock(l, false)
	full := s.out.full() && !last
	wide, slow := t >= s.nextWide || last || full, t >= s.nextSlow || last || full
	if wide {
		s.nextWide = due + s.wide - int64(s.o.Period)/2
	}
	if slow {
		s.nextSlow = due + s.slow - int64(s.o.Period)/2
	}
	ask := tickFast
	if slow {
		ask |= tickSlow | tickProbe
	}
	for _, g := range s.gpus {
		if !g.busy {
			g.busy = true
			g.req <- ask
		}
	}
	if cmd != nil {
		s.host.procs.command = cmd.pid
	}
	s.host.sample(l, s.now(), wide)
	if wide {
		if slow || t < 5e9 || s.host.procs.due(t) {
			s.host.procs.find(s.host)
			s.host.procs.describe(s.host, l, s.now())
			s.host.groups.describe(s.host, l, s.now(), s.o.Redact)
		}
		s.host.procs.sample(s.host, l, s.now())
		s.host.infiniband(l, s.now(), slow)
	}
	if slow {
		s.host.slow(l, s.now())
	}
	s.collect(due)
	s.drain()
	if why == "command ended" {
		event(l, s.now(), "exit", none, int64(cmd.code), cmd.how)
	}
	err := s.out.write(l.b)
	if err == nil && full {
		err = s.turn(l.b)
	}
	if s.out.part != s.part { // a new part describes everything again
		s.part = s.out.part
		s.host.procs.known = map[int]string{}
		s.host.groups.said = 0
		s.nextSlow = 0
	}
	return err
}

// collect waits for the GPUs until the next tick is near. Who is not ready by then goes into a later batch, with the time it has.
func (s *session) collect(due int64) {
	deadline := time.NewTimer(max(time.Duration(due+int64(s.o.Period)*9/10-s.now()), s.o.Period/4))
	defer deadline.Stop()
	over := false
	for _, g := range s.gpus {
		if !g.busy {
			continue
		}
		var r gpuResult
		if over {
			select {
			case r = <-g.res:
			default:
				continue
			}
		} else {
			select {
			case r = <-g.res:
			case <-deadline.C:
				over = true
				select {
				case r = <-g.res:
				default:
					continue
				}
			}
		}
		g.busy = false
		s.batch.b = append(s.batch.b, r.b...)
		if r.slow {
			s.gpuProcesses(r)
		}
	}
}

// gpuProcesses notes who uses a GPU.
func (s *session) gpuProcesses(r gpuResult) {
	gpus := s.host.procs.gpus
	for pid, list := range gpus {
		if list = slices.DeleteFunc(list, func(i int) bool { return i == r.i }); len(list) == 0 {
			delete(gpus, pid)
		} else {
			gpus[pid] = list
		}
	}
	for _, p := range r.pids {
		if pid := int(p.PID); !slices.Contains(gpus[pid], r.i) {
			gpus[pid] = append(gpus[pid], r.i)
			slices.Sort(gpus[pid])
		}
	}
}

// drain takes what came between the ticks: events, PCIe readings, abilities that turned out absent.
func (s *session) drain() {
	for {
		select {
		case b := <-s.events:
			s.batch.b = append(s.batch.b, b...)
			continue
		default:
		}
		break
	}
	s.codes.mu.Lock()
	defer s.codes.mu.Unlock()
	for ; s.said < len(s.codes.names); s.said++ {
		name := s.codes.names[s.said]
		event(&s.batch, s.now(), "cap_absent", none, int64(s.codes.first[name]), name)
	}
}

// watch asks the driver to tell Xids, before the first part begins: its head says whether silence will mean that there were none.
func (s *session) watch() {
	if len(s.gpus) == 0 {
		return
	}
	_, _, s.ready = s.driver.Wait(0)
	s.xids = s.ready && s.driver.Xids() && len(s.gpus) == s.listed
}

// listen starts what runs beside the ticks.
func (s *session) listen(ctx context.Context) {
	if len(s.gpus) == 0 {
		return
	}
	if s.ready {
		s.beside.Go(func() {
			for ctx.Err() == nil {
				e, ok, ready := s.driver.Wait(200 * time.Millisecond)
				if !ready {
					var l lines
					event(&l, s.now(), "deaf", none, none, "the driver tells no events any more")
					s.deaf.Store(true)
					s.post(ctx, l.b)
					return
				}
				if !ok {
					continue
				}
				var l lines
				ty := "driver"
				if e.Type == 0x8 {
					ty = "xid"
				}
				i := int64(none)
				if e.Index >= 0 {
					i = int64(e.Index)
				}
				l.begin("ev", s.now())
				l.text("ty", ty)
				l.some("i", i)
				l.num("code", e.Data)
				if ty == "driver" {
					l.num("bits", int64(e.Type))
				}
				l.end()
				s.post(ctx, l.b)
			}
		})
	}
	if slices.ContainsFunc(s.gpus, func(g *gpu) bool { return !g.pciBytes }) {
		s.beside.Go(func() {
			absent := map[int]bool{}
			tick := time.NewTicker(s.o.Period)
			defer tick.Stop()
			for {
				b := throughput(s.gpus, absent, s.now)
				if len(absent) == len(s.gpus) {
					return
				}
				s.post(ctx, b)
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
		})
	}
}

func (s *session) post(ctx context.Context, b []byte) {
	select {
	case s.events <- b:
	case <-ctx.Done():
	}
}

// end writes the last record: what was recorded and what it cost.
func (s *session) end(why string) {
	if s.sum.Elapsed != 0 {
		return // said already
	}
	s.sum.Elapsed = time.Since(s.start)
	user, system, rss := ownCPU()
	s.sum.CPU = user + system
	var l lines
	l.begin("end", int64(s.sum.Elapsed))
	l.text("why", why)
	l.num("n", s.out.records+1)
	l.num("ticks", s.sum.Ticks)
	l.num("late", s.sum.Late)
	l.num("max_late_ns", int64(s.sum.MaxLate))
	l.num("cpu_user_ns", int64(user))
	l.num("cpu_sys_ns", int64(system))
	l.some("rss_max", rss)
	l.num("bytes", s.out.stored)
	l.num("raw_bytes", s.out.raw)
	l.end()
	_ = s.out.write(l.b) // an error is kept, and close gives it
}

// command is the training that is recorded.
type command struct {
	pid  int
	cmd  *exec.Cmd
	done chan struct{}
	code int
	how  string
}

func (s *session) startCommand() (*command, error) {
	if len(s.o.Command) == 0 {
		return nil, nil
	}
	c := &command{cmd: exec.Command(s.o.Command[0], s.o.Command[1:]...), done: make(chan struct{})}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = s.o.Stdin, s.o.Stdout, s.o.Stderr
	if err := c.cmd.Start(); err != nil {
		s.sum.Ran, s.sum.ExitCode = true, 126
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			s.sum.ExitCode = 127
		}
		return nil, fmt.Errorf("%s cannot be started: %w", s.o.Command[0], err)
	}
	c.pid = c.cmd.Process.Pid
	var l lines
	l.begin("ev", s.now())
	l.text("ty", "start")
	l.num("pid", int64(c.pid))
	if !s.o.Redact {
		l.text("txt", filepath.Base(s.o.Command[0]))
	}
	l.end()
	s.post(context.Background(), l.b)
	go func() {
		_ = c.cmd.Wait()
		sig := ""
		c.code, sig = exitCode(c.cmd.ProcessState)
		c.how = strings.TrimSpace(sig)
		close(c.done)
	}()
	return c, nil
}

// pass hands a signal to the command.
func (c *command) pass(sig os.Signal) {
	if !fromTerminal(sig) {
		_ = c.cmd.Process.Signal(sig)
	}
}

func (c *command) wait() { <-c.done }
