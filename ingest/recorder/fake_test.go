//go:build linux

package recorder_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gpureport/ingest/recorder"
)

// fakeDriver is a machine with GPUs of our own making: what they say is known, and any call can be made to fail.
type fakeDriver struct {
	devs   []*fakeDevice
	events chan recorder.Event
	mute   bool // promises no Xids
	closed atomic.Bool
}

func newFake(n int) *fakeDriver {
	d := &fakeDriver{events: make(chan recorder.Event, 8)}
	for i := range n {
		d.devs = append(d.devs, &fakeDevice{i: i, n: n, fail: map[any]recorder.Code{}})
	}
	return d
}

func (d *fakeDriver) Version() (driver, nvml string, cuda int) {
	return "590.48.01", "13.590.48.01", 13010
}
func (d *fakeDriver) Count() (int, recorder.Code) { return len(d.devs), recorder.OK }
func (d *fakeDriver) Close()                      { d.closed.Store(true) }
func (d *fakeDriver) Device(i int) (recorder.Device, recorder.Code) {
	return d.devs[i], recorder.OK
}

func (d *fakeDriver) Xids() bool { return !d.mute }

func (d *fakeDriver) Wait(limit time.Duration) (e recorder.Event, ok, ready bool) {
	select {
	case e = <-d.events:
		return e, true, true
	case <-time.After(limit):
		return e, false, true
	}
}

// fakeDevice counts its fast samples; counters follow from that.
type fakeDevice struct {
	i, n int
	mu   sync.Mutex
	fail map[any]recorder.Code // by Call, TextCall, field number, or "Fields", "Processes", "ProcessUse", "Samples", "GPM"
	lost recorder.Code
	tick atomic.Int64
	hang chan struct{} // calls of utilisation wait for it
	gpm  bool          // was asked before
}

func (d *fakeDevice) set(what any, c recorder.Code) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if what == "lost" {
		d.lost = c
		return
	}
	d.fail[what] = c
}

func (d *fakeDevice) code(what any) recorder.Code {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost != 0 {
		return d.lost
	}
	return d.fail[what]
}

// fakeValues are what each call gives, by call and argument.
func (d *fakeDevice) value(c recorder.Call, arg int) (recorder.Values, recorder.Code) {
	i, t := int64(d.i), d.tick.Load()
	ok := func(v ...int64) (recorder.Values, recorder.Code) {
		var out recorder.Values
		copy(out[:], v)
		return out, recorder.OK
	}
	switch c {
	case recorder.CallUtilization:
		return ok(90+i%10, 40)
	case recorder.CallEncoder, recorder.CallDecoder, recorder.CallJpg, recorder.CallOfa:
		return ok(int64(c))
	case recorder.CallClock:
		return ok([]int64{1700, 1755, 2619, 1545}[arg])
	case recorder.CallMaxClock:
		return ok([]int64{1980, 1980, 2619, 1545}[arg])
	case recorder.CallReasons:
		return ok(4)
	case recorder.CallReasonsKnown:
		return ok(0x1ff)
	case recorder.CallPower:
		return ok(688120 + i)
	case recorder.CallPowerEnforced, recorder.CallPowerDefault:
		return ok(700000)
	case recorder.CallPowerRange:
		return ok(200000, 700000)
	case recorder.CallEnergy:
		return ok(9007199254740993 + t*1000) // past 2^53
	case recorder.CallTemperature:
		return ok(63)
	case recorder.CallMargin:
		return ok(24)
	case recorder.CallThreshold:
		return ok([]int64{98, 95, 100, 93}[arg])
	case recorder.CallPCIeThroughput:
		return ok(1000 + int64(arg))
	case recorder.CallPCIeGen, recorder.CallPCIeGenMax, recorder.CallPCIeGenDevice:
		return ok(5)
	case recorder.CallPCIeWidth, recorder.CallPCIeWidthMax:
		return ok(16)
	case recorder.CallNVLinkState:
		if arg >= 18 {
			return recorder.Values{}, 2
		}
		return ok(int64(min(arg, 1))) // link 0 is down
	case recorder.CallNVLinkVersion:
		return ok(4)
	case recorder.CallNVLinkRemoteType:
		return ok(2)
	case recorder.CallNVLinkErrors:
		return ok(int64(arg % 8 % 2))
	case recorder.CallECC:
		return ok(int64(10 + arg))
	case recorder.CallECCPlace:
		return ok(int64(arg))
	case recorder.CallRemapped:
		return ok(1, 2, 1, 0)
	case recorder.CallRetired:
		return ok(int64(arg))
	case recorder.CallMemory:
		return ok(85520809984, 71234567890, 502267904, 13783974190)
	case recorder.CallBAR1:
		return ok(131072<<20, 64<<20)
	case recorder.CallFan:
		return recorder.Values{}, recorder.NotSupported
	case recorder.CallECCMode, recorder.CallPersistence, recorder.CallGPM:
		return ok(1, 1)
	case recorder.CallCapability:
		return ok(9, 0)
	case recorder.CallBusWidth:
		return ok(5120)
	case recorder.CallNUMANode, recorder.CallMinor:
		return ok(i)
	case recorder.CallAncestor:
		return ok(50)
	case recorder.CallFabric:
		return ok(3, 0)
	}
	return ok(0)
}

func (d *fakeDevice) Call(c recorder.Call, arg int) (recorder.Values, recorder.Code) {
	if c == recorder.CallUtilization {
		d.mu.Lock()
		d.tick.Add(1)
		hang := d.hang
		d.mu.Unlock()
		if hang != nil {
			<-hang
		}
	}
	if code := d.code(c); code != recorder.OK {
		return recorder.Values{}, code
	}
	return d.value(c, arg)
}

func (d *fakeDevice) Text(c recorder.TextCall, arg int) (string, recorder.Code) {
	if code := d.code(c); code != recorder.OK {
		return "", code
	}
	switch c {
	case recorder.TextName:
		return "NVIDIA H100 80GB HBM3", recorder.OK
	case recorder.TextUUID:
		return fmt.Sprintf("GPU-%08d", d.i), recorder.OK
	case recorder.TextBus:
		return fmt.Sprintf("00000000:%02x:00.0", 0x10+d.i), recorder.OK
	case recorder.TextRemote:
		return fmt.Sprintf("00000000:a%d:00.0", arg%4), recorder.OK
	case recorder.TextCPUs:
		return "0-51", recorder.OK
	case recorder.TextVBIOS:
		return "96.00.5E.00.01", recorder.OK
	case recorder.TextSerial:
		return "1234567890", recorder.OK
	}
	return "", recorder.NotSupported
}

func (d *fakeDevice) Fields(fs []recorder.Field) recorder.Code {
	if code := d.code("Fields"); code != recorder.OK {
		return code
	}
	for k := range fs {
		f := &fs[k]
		f.Code, f.Value = d.code(f.ID), int64(f.ID)*1000+d.tick.Load()
		switch f.ID {
		case 82:
			f.Value = 74
		case 91:
			f.Value = 18
		case 164:
			f.Value = 26562
		case 185, 186:
			f.Value = int64(f.ID) * 1000
		case 193, 194, 195, 196:
			f.Value = 194 - int64(f.ID) // may be negative
		case 230:
			f.Value = 0
		}
	}
	return recorder.OK
}

func (d *fakeDevice) Processes() ([]recorder.GPUProcess, recorder.Code) {
	return []recorder.GPUProcess{{PID: int64(4000 + d.i), Bytes: 1 << 30, Kind: 'C'}, {PID: 5000, Bytes: -1, Kind: 'G'}}, d.code("Processes")
}

func (d *fakeDevice) ProcessUse(int64) ([]recorder.GPUProcessUse, recorder.Code) {
	return []recorder.GPUProcessUse{{PID: int64(4000 + d.i), StampUs: 1, SM: 88, Mem: 33}, {SM: 12345, StampUs: 3}}, d.code("ProcessUse")
}

func (d *fakeDevice) Samples(since int64) ([]recorder.Sample, recorder.Code) {
	now := time.Now().UnixMicro()
	return []recorder.Sample{{UnixUs: now - 1000, Value: 70}, {UnixUs: now, Value: 71}}, d.code("Samples")
}

func (d *fakeDevice) GPM(ids []int, out []float64) recorder.Code {
	if code := d.code("GPM"); code != recorder.OK {
		return code
	}
	if !d.gpm {
		d.gpm = true
		return recorder.NotReady
	}
	for k, id := range ids {
		out[k] = float64(id)
	}
	return recorder.OK
}
