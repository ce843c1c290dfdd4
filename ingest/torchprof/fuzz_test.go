package torchprof

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	bigmath "math/big"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"gpureport/fixtures/sim"
	"gpureport/ingest/timeline"
)

func simulated(tb testing.TB, size int64) []byte {
	var buf bytes.Buffer
	if err := sim.WriteBig(&buf, size, sim.BigOptions{}); err != nil {
		tb.Fatal(err)
	}
	return buf.Bytes()
}

// seeds are named for what they break.
var seeds = map[string]string{
	"plain":            `{"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1.5,"dur":2,"args":{"correlation":3,"grid":[1,2,3],"stream":7}}]}`,
	"array-form":       `[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"Input Dims":[[1,2],[]],"Input type":["float",""]}}]`,
	"flow-fast-path":   `[{"ph":"s","id":1,"pid":1,"tid":1,"ts":1,"cat":"ac2g","name":"a}c2g"},{"ph":"f","id":1,"args":{"x":1}},{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":0,"ts":1,"dur":1}]`,
	"unclosed-string":  `{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a,"pid":1},{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":1,"dur":1}]}`,
	"brackets-crossed": `{"traceEvents":[{"ph":"X","args":{"a":[1}]},{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":1,"dur":1}]}`,
	"deep":             `{"traceEvents":[{"ph":"X","args":{"a":` + strings.Repeat("[", 80) + strings.Repeat("]", 80) + `}}]}`,
	"huge-numbers":     `[{"ph":"X","cat":"cpu_op","name":"b","pid":99999999999999999999,"tid":-1,"ts":9e18,"dur":1e400},{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":-9e15,"dur":9e15}]`,
	"escapes":          `[{"ph":"X","c\u0061t":"cpu_op","name":"\ud800\\\"\u00zz","pid":1,"tid":1,"ts":1,"dur":1}]`,
	"many-devices":     `[{"ph":"X","cat":"kernel","name":"k","pid":-5,"tid":"stream x","ts":1,"dur":1,"args":{"device":-7,"stream":1e3,"correlation":-1,"grid":[-1,2],"bytes":-4}}]`,
	"base-overflow":    `{"baseTimeNanoseconds":3999999999999999999,"traceEvents":[{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":9999999999999,"dur":99999999999}]}`,
	"memory-kinds":     `[{"ph":"X","cat":"gpu_memcpy","name":"Memcpy to","pid":0,"tid":0,"ts":1,"dur":1},{"ph":"X","cat":"gpu_memset","name":"(","pid":0,"tid":0,"ts":1,"dur":1},{"ph":"X","cat":"gpu_memcpy","name":")->(to","pid":0,"tid":0,"ts":1,"dur":1}]`,
	"metadata":         `{"distributedInfo":{"rank":"1","world_size":"2","pg_config":[{"ranks":"[0,"}]},"deviceProperties":[{"id":"x"}],"traceEvents":[{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":`,
}

// FuzzRead wants no panic, a valid timeline and the same one from any number of workers, whatever the bytes.
func FuzzRead(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		one, p1, err1 := readBytes(data, "t.json", 1)
		two, p2, err2 := readBytes(data, "t.json", 3)
		if (err1 == nil) != (err2 == nil) {
			t.Fatalf("one worker: %v, three: %v", err1, err2)
		}
		if err1 != nil {
			if strings.Contains(err1.Error(), "invalid:") {
				t.Fatal(err1)
			}
			return
		}
		if a, b := dump(one), dump(two); a != b {
			t.Fatalf("one worker:\n%s\nthree:\n%s", a, b)
		}
		if a, b := codes(p1), codes(p2); a != b {
			t.Fatalf("problems of one worker %s, of three %s", a, b)
		}
	})
}

// oracleEvent is an event as a general JSON decoder sees it.
type oracleEvent struct {
	row  uint32
	text string
}

// oracle reads data with jsontext and math/big alone: X events of four categories. Not ok where data is no plain trace, or
// holds what the reader answers in its own way, such as numbers in strings.
func oracle(data []byte) (events []oracleEvent, ok bool) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data)) // strict: no duplicate names, valid UTF-8
	v, err := dec.ReadValue()
	if err != nil {
		return nil, false
	}
	v = bytes.Clone(v)
	if _, err := dec.ReadToken(); err != io.EOF {
		return nil, false
	}
	var list []json.RawMessage
	if v[0] == '{' {
		var top map[string]json.RawMessage // keys as they are: struct fields match in any case
		if json.Unmarshal(v, &top) != nil || top["baseTimeNanoseconds"] != nil || json.Unmarshal(top["traceEvents"], &list) != nil {
			return nil, false
		}
	} else if json.Unmarshal(v, &list) != nil {
		return nil, false
	}
	kinds := map[string]string{"cpu_op": "op", "kernel": "kernel", "user_annotation": "anno", "python_function": "python"}
	for row, raw := range list {
		var m map[string]json.RawMessage
		if json.Unmarshal(raw, &m) != nil {
			return nil, false
		}
		str := func(key string) (string, bool) {
			var s string
			err := json.Unmarshal(m[key], &s)
			return s, m[key] != nil && m[key][0] == '"' && err == nil
		}
		ph, ok1 := str("ph")
		cat, ok2 := str("cat")
		name, ok3 := str("name")
		if !ok1 || !ok2 || !ok3 || ph != "X" || kinds[cat] == "" {
			return nil, false
		}
		start, ok1 := exactMicros(m["ts"])
		dur, ok2 := exactMicros(m["dur"])
		if !ok1 || !ok2 || start.Sign() <= 0 || dur.Sign() <= 0 || start.BitLen() > 52 || dur.BitLen() > 40 {
			return nil, false
		}
		events = append(events, oracleEvent{uint32(row), fmt.Sprintf("%d %s %d..%d %s", row, kinds[cat], start, new(bigmath.Int).Add(start, dur), name)})
	}
	return events, true
}

// exactMicros gives a JSON number times 1000, rounded half away from zero.
func exactMicros(raw json.RawMessage) (*bigmath.Int, bool) {
	if len(raw) == 0 || len(raw) > 40 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return nil, false
	}
	if i := bytes.IndexAny(raw, "eE"); i >= 0 && len(raw)-i > 4 {
		return nil, false
	}
	r, ok := new(bigmath.Rat).SetString(string(raw))
	if !ok {
		return nil, false
	}
	r.Mul(r, bigmath.NewRat(1000, 1))
	half := bigmath.NewRat(int64(r.Sign()), 2)
	r.Add(r, half)
	return new(bigmath.Int).Quo(r.Num(), r.Denom()), true
}

func checkOracle(t *testing.T, data []byte) bool {
	want, ok := oracle(data)
	if !ok || len(want) == 0 {
		return false
	}
	tl, problems, err := readBytes(data, "t.json", 1)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	var got []oracleEvent
	for i := range tl.Spans.Len() {
		s := &tl.Spans
		got = append(got, oracleEvent{s.Row[i], fmt.Sprintf("%d %s %d..%d %s", s.Row[i], kindNames[s.Kind[i]], s.Start[i], s.End[i], tl.Names.Get(s.Name[i]))})
	}
	slices.SortFunc(got, func(a, b oracleEvent) int { return int(a.row) - int(b.row) })
	if !slices.Equal(got, want) {
		t.Fatalf("reader %v\noracle %v\n%s\n%v", got, want, data, problems)
	}
	return true
}

// FuzzOracle compares the scanner with a general decoder on whatever that one accepts.
func FuzzOracle(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Add([]byte("[ {\"args\" : {\"a\\\"}\":[{}, \"]\"]} , \"dur\":1E1,\"ts\" : 12345678.12345 ,\"name\":\"\\u0041\\n\",\"cat\":\"python_function\",\"ph\":\"X\"}\n]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if tooFar(data) {
			return
		}
		checkOracle(t, data)
	})
}

// tooFar leaves out stamps that the reader drops or clamps on purpose, beside others.
func tooFar(data []byte) bool {
	events, ok := oracle(data)
	return !ok || len(events) > 64
}

// TestOracle runs the comparison over numbers and layouts of all kinds.
func TestOracle(t *testing.T) {
	n := 0
	for _, ts := range []string{"1", "12", "1234567", "12345678", "123456789", "1234567890123", "1.5", "12345678.1", "12345678.123", "12345678.1234", "12345678.1235",
		"99999999.9995", "1e3", "1.5E+2", "4458676522690.655", "0.001", "0.0005", "123456.0004999", "1234567890.12300000000000000001", "1000e-1"} {
		for _, dur := range []string{"1", "0.001", "156.777", "12345678", "12345678.5", "1e-3", "2.0000"} {
			for _, layout := range []string{
				`[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":%s,"dur":%s}]`,
				"{\"traceEvents\":[\n  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"a\\\\\", \"pid\": 1, \"tid\": 1,\n    \"ts\": %s, \"dur\": %s,\n    \"args\": {\n      \"x\": \"}\"\n    }\n  }\n]}",
				"[{\"args\":{\"y\":[{\"z\":[]}]},\"dur\" :%[2]s ,\"ts\"\t:\t%[1]s\t,\"tid\":1,\"pid\":1,\"name\":\"\\u00e9\",\"cat\":\"python_function\",\"ph\":\"X\"}\r\n]",
			} {
				if checkOracle(t, []byte(fmt.Sprintf(layout, ts, dur))) {
					n++
				}
			}
		}
	}
	if n != 20*7*3 {
		t.Errorf("only %d of %d texts were compared", n, 20*7*3)
	}
}

// TestJobsAgree reads a trace of many blocks, whole and damaged, with one and with several workers.
func TestJobsAgree(t *testing.T) {
	data := simulated(t, 6<<20)
	check := func() *timeline.Timeline {
		one, p1, err := readBytes(data, "t.json", 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, jobs := range []int{2, 4} {
			more, p2, err := readBytes(data, "t.json", jobs)
			if err != nil {
				t.Fatal(err)
			}
			if dump(one) != dump(more) || codes(p1) != codes(p2) || one.Sources[0].Rows != more.Sources[0].Rows {
				t.Fatalf("%d workers differ: %d rows, %s; one: %d rows, %s", jobs, more.Sources[0].Rows, codes(p2), one.Sources[0].Rows, codes(p1))
			}
		}
		return one
	}
	whole := check()
	if bad := bytes.Count(data, []byte("\n  {\n")); int64(bad) != whole.Sources[0].Rows {
		t.Errorf("%d rows, %d events in the text", whole.Sources[0].Rows, bad)
	}
	for i := 12345; i < len(data); i += 300007 { // a quote here and there, a brace at block ends too
		data[i] = "\"}{x"[i%4]
	}
	damaged := check()
	if n := whole.Spans.Len() - damaged.Spans.Len(); n < 0 || n > 3*len(data)/300007 {
		t.Errorf("%d of %d spans lost", n, whole.Spans.Len())
	}
}
