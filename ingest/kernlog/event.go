package kernlog

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"

	"gpureport/ingest"
	"gpureport/ingest/timeline"
)

// event is one thing worth a mark.
type event struct {
	kind timeline.MarkKind
	code int32
	bus  string // of the GPU it is about; "" the host
	text string
	form string // events of one form within a second are one; "" each counts
}

// class is a kind of kernel message that is kept.
type class struct {
	key string // must occur; a cheap look before the expression
	re  *regexp.Regexp
	not string // words of lines that look alike
	say string // template for the text; "" the whole message
}

// busForm is a PCI address, with or without function.
const busForm = `([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(?:\.[0-7])?`

var (
	xidForm  = regexp.MustCompile(`Xid \((?:PCI:)?` + busForm + `\): (\d+)(?:,\s*|\s+|$)(.*)`)
	sxidForm = regexp.MustCompile(`(?:nvidia-nvswitch(\d+): )?SXid \((?:PCI:)?` + busForm + `\): (\d+)(?:,\s*|\s+|$)(.*)`)
	gpuAt    = regexp.MustCompile(`NVRM: GPU at (?:PCI:)?` + busForm + `: (GPU-[0-9a-f-]{36})`)
	gpuSaid  = regexp.MustCompile(`(?:NVRM: |nvidia )(?:The NVIDIA )?(?:GPU )?(?:at )?(?:PCI:)?` + busForm + `:? `)
	anyBus   = regexp.MustCompile(`PCI:` + busForm)
	xidOwner = regexp.MustCompile(`^pid='?(<unknown>|\d+|<no pid>)'?, (?:name=(.*?), )?`)
	killed   = regexp.MustCompile(`Killed process (\d+)(?:, UID \d+,)? \(([^)]*)\)(.*)`)
	oomd     = regexp.MustCompile(`^Killed (\S+) due to memory`)
	driver   = regexp.MustCompile(`NVRM: loading NVIDIA UNIX .*?(\d{3}\.\d+(?:\.\d+)?)`)
	kernelV  = regexp.MustCompile(`^Linux version (\S+)`)
	rtc      = regexp.MustCompile(`setting system clock to .*\((\d{9,11})\)`)
	nvrm     = regexp.MustCompile(`(?i)fail|error|time(d )?out|needs to be reset|mismatch|lost|not responding|crash dump`)
)

// classes are what the kernel says of everything but Xids and kills, in the order of looking.
var classes = []class{
	{key: "PCIe Bus Error", re: regexp.MustCompile(`PCIe Bus Error: `)},
	{key: "AER:", re: regexp.MustCompile(`AER: .*(?i)(fatal|uncorrect|recovery)`)},
	{key: "Hardware Error", re: regexp.MustCompile(`\[Hardware Error\]: *(event severity|Hardware error from|Machine check events logged|CPU \d+: Machine Check)`)},
	{key: "EDAC", re: regexp.MustCompile(`EDAC \S+: \d+ (CE|UE) |EDAC .*(?i)uncorrect`)},
	{key: "clock throttled", re: regexp.MustCompile(`temperature above threshold, cpu clock throttled`)},
	{key: "blocked for more than", re: regexp.MustCompile(`INFO: task .* blocked for more than \d+ seconds`)},
	{key: "lockup", re: regexp.MustCompile(`(soft|hard) lockup|hard LOCKUP`)},
	{key: "stall", re: regexp.MustCompile(`rcu\S*:? .*(self-detected stall|detected stalls)`)},
	{key: "not responding", re: regexp.MustCompile(`nfs\S*: .*not responding`)},
	{key: "nfs: server", re: regexp.MustCompile(`nfs: server .* (OK|timed out)`)},
	{key: "Lustre", re: regexp.MustCompile(`Lustre(Error)?: .*(Connection to .* was lost|Connection restored|timed out|evict)`)},
	{key: "ceph", re: regexp.MustCompile(`ceph: .*(hung|down|socket (closed|error)|session lost)`)},
	{key: "I/O error", re: regexp.MustCompile(`I/O error`)},
	{key: "nvme", re: regexp.MustCompile(`nvme\S* .*(?i)(timeout|controller is down|aborting|reset controller|device not ready)`)},
	{key: "EXT4-fs", re: regexp.MustCompile(`EXT4-fs (error|warning)|Remounting filesystem read-only`)},
	{key: "XFS", re: regexp.MustCompile(`XFS \(.*(?i)(error|corrupt|shutdown)`)},
	{key: "exception Emask", re: regexp.MustCompile(`^ata\S+ exception Emask`)},
	{key: "Disk failure", re: regexp.MustCompile(`md/raid\S* Disk failure`)},
	{key: "ink", re: regexp.MustCompile(`(?i)\blink (is |status (definitely|down) )*(down|up)\b`), not: "SATA usb veth docker cali cni br-"},
	{key: "able unplugged", re: regexp.MustCompile(`Port module event.*[Cc]able unplugged`)},
	{key: "mlx5_core", re: regexp.MustCompile(`mlx5_core .*(?i)(health compromised|device's health|fatal|timeout|firmware error)`)},
	{key: "segfault at", re: regexp.MustCompile(`^(\S+)\[\d+\]: segfault at .* (in \S+?)(\[|$)`), say: "$1: segfault $2"},
	{key: "general protection", re: regexp.MustCompile(`^traps: (\S+)\[\d+\] general protection.* (in \S+?)(\[|$)`), say: "$1: general protection fault $2"},
	{key: "as unstable", re: regexp.MustCompile(`clocksource '\S+' as unstable|clocksource \S+ as unstable`)},
	{key: "suspend entry", re: regexp.MustCompile(`PM: suspend entry`)},
	{key: "Linux version", re: regexp.MustCompile(`^(Linux version \S+)`), say: "the host booted: $1"},
	{key: "RAID", re: regexp.MustCompile(`(?i)RAID.*(degraded|offline)`)},
}

// eventOf tells what a kernel message is about; false: nothing that is kept.
func eventOf(msg []byte) (event, bool) {
	switch {
	case bytes.Contains(msg, []byte("SXid (")):
		if m := sxidForm.FindSubmatch(msg); m != nil {
			rest := string(m[4])
			if strings.HasPrefix(rest, "Data {") || strings.HasPrefix(rest, "Severity ") {
				return event{}, false // more of the line before
			}
			name := "NVSwitch"
			if len(m[1]) > 0 {
				name += " " + string(m[1])
			}
			return event{kind: timeline.MarkSXid, code: number(m[3]), text: clean(name + " at " + ingest.BusID(string(m[2])) + ": " + rest)}, true
		}
	case bytes.Contains(msg, []byte("Xid (")):
		if m := xidForm.FindSubmatch(msg); m != nil {
			return event{kind: timeline.MarkXid, code: number(m[2]), bus: ingest.BusID(string(m[1])), text: clean(owner(string(m[3])))}, true
		}
	case bytes.Contains(msg, []byte("Killed process")):
		if m := killed.FindSubmatch(msg); m != nil {
			how := "out of memory"
			if bytes.Contains(msg, []byte("cgroup")) {
				how = "out of the memory its cgroup allows"
			}
			return event{kind: timeline.MarkOOM, text: clean("killed " + string(m[2]) + ", pid " + string(m[1]) + ": " + how + string(m[3]))}, true
		}
	}
	if bytes.Contains(msg, []byte("fallen off the bus")) {
		e := event{kind: timeline.MarkGPULost, text: clean(string(msg))}
		if m := gpuSaid.FindSubmatch(msg); m != nil {
			e.bus = ingest.BusID(string(m[1]))
		}
		return e, true
	}
	for i := range classes {
		c := &classes[i]
		if !bytes.Contains(msg, []byte(c.key)) {
			continue
		}
		m := c.re.FindSubmatchIndex(msg)
		if m == nil || c.not != "" && containsAny(msg, c.not) {
			continue
		}
		e := event{kind: timeline.MarkOutput, text: clean(string(msg))}
		if c.say != "" {
			e.text = clean(string(c.re.Expand(nil, []byte(c.say), msg, m)))
		}
		if b := gpuSaid.FindSubmatch(msg); b != nil {
			e.bus = ingest.BusID(string(b[1]))
		}
		e.form = c.key + withoutNumbers(e.text)
		return e, true
	}
	if bytes.Contains(msg, []byte("NVRM: ")) && (nvrm.Match(msg) || bytes.Contains(msg, []byte("rm_init_adapter"))) {
		e := event{kind: timeline.MarkOutput, text: clean(string(msg))}
		if b := gpuSaid.FindSubmatch(msg); b != nil {
			e.bus = ingest.BusID(string(b[1]))
		} else if b := anyBus.FindSubmatch(msg); b != nil {
			e.bus = ingest.BusID(string(b[1]))
		}
		e.form = withoutNumbers(e.text)
		return e, true
	}
	return event{}, false
}

func containsAny(msg []byte, words string) bool {
	for w := range strings.FieldsSeq(words) {
		if bytes.Contains(msg, []byte(w)) {
			return true
		}
	}
	return false
}

func number(digits []byte) int32 {
	n, err := strconv.ParseInt(string(digits), 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// owner turns "pid=4711, name=python, text" into "text (python, pid 4711)".
func owner(rest string) string {
	m := xidOwner.FindStringSubmatch(rest)
	if m == nil {
		return rest
	}
	pid, name := m[1], m[2]
	rest = rest[len(m[0]):]
	if pid[0] == '<' {
		return rest
	}
	if name == "" || name[0] == '<' {
		return rest + " (pid " + pid + ")"
	}
	return rest + " (" + ingest.Program(name) + ", pid " + pid + ")"
}

var (
	memoryAddress = regexp.MustCompile(`\b0x[0-9A-Fa-f]{9,}\b|\b0x[0-9A-Fa-f]+_[0-9A-Fa-f_]+|\b[0-9a-f]{12,16}\b|(@ )0x[0-9A-Fa-f_]+`)
	netAddress    = regexp.MustCompile(`\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b|\b(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}\b`)
	blanks        = regexp.MustCompile(`\s+`)
	digitRuns     = regexp.MustCompile(`\d+`)
)

// clean makes a message fit to be shown: without addresses, of memory and of the network, and not too long.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "?")
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	s = memoryAddress.ReplaceAllString(s, "$1(address)")
	s = netAddress.ReplaceAllString(s, "(address)")
	s = strings.TrimSpace(blanks.ReplaceAllString(s, " "))
	const most = 240
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

func withoutNumbers(s string) string { return digitRuns.ReplaceAllString(s, "#") }
