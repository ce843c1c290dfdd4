package nsys

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"gpureport/ingest/timeline"
)

// seriesOf gives the one series of a metric, nil for none.
func seriesOf(t *testing.T, tl *timeline.Timeline, metric string) *timeline.Series {
	t.Helper()
	var found *timeline.Series
	for i := range tl.Series {
		if s := &tl.Series[i]; s.Metric.Name == metric {
			if found != nil {
				t.Fatalf("two series of %s", metric)
			}
			found = s
		}
	}
	return found
}

// ofCounters lists the series of GPU_METRICS.
func ofCounters(tl *timeline.Timeline) (out []timeline.Series) {
	for _, s := range tl.Series {
		if tl.Names.Get(tl.Tracks[s.Track].Table) == tMetrics {
			out = append(out, s)
		}
	}
	return out
}

const gpuType = 72057594037927936

// Metrics belong to the GPU of their number only where the file's two ways of counting agree on it, or one of them does not know all
// numbers.
func TestMetricsOfWhichGPU(t *testing.T) {
	owners := func(setup ...string) (out []string, said string) {
		tl := mustRead(t, build(t, []string{"modern.sql"}, setup...))
		for _, s := range ofCounters(tl) {
			d := tl.Devices[tl.Tracks[s.Track].Device]
			out = append(out, fmt.Sprintf("%s %s %d", s.Metric.Name, d.Bus, d.Proc))
		}
		return out, problems(tl)
	}
	for _, c := range []struct {
		name  string
		setup []string
		want  []string
		said  bool
	}{
		{"both agree", nil, []string{"sm_active_frac 0000:3b:00 0", "clock_sm_hz 0000:3b:00 0", "sm_active_frac 0000:17:00 1"}, false},
		{"swapped", []string{"UPDATE TARGET_INFO_GPU SET pwGpuId = 1 - id"}, []string{"sm_active_frac  -1", "clock_sm_hz  -1", "sm_active_frac  -1"}, true},
		{"ids that metrics do not use", []string{"UPDATE TARGET_INFO_GPU SET pwGpuId = 1 - id", "UPDATE TARGET_INFO_CUDA_DEVICE SET gpuId = gpuId + 4", "UPDATE TARGET_INFO_GPU SET id = id + 4"},
			[]string{"sm_active_frac 0000:17:00 1", "clock_sm_hz 0000:17:00 1", "sm_active_frac 0000:3b:00 0"}, false},
		{"no physical numbers", []string{"UPDATE TARGET_INFO_GPU SET pwGpuId = NULL"}, []string{"sm_active_frac 0000:3b:00 0", "clock_sm_hz 0000:3b:00 0", "sm_active_frac 0000:17:00 1"}, false},
		{"no UUIDs", []string{"UPDATE TARGET_INFO_GPU SET uuid = NULL", "UPDATE TARGET_INFO_CUDA_DEVICE SET uuid = NULL"},
			[]string{"sm_active_frac 0000:3b:00 0", "clock_sm_hz 0000:3b:00 0", "sm_active_frac 0000:17:00 1"}, false},
		{"neither UUIDs nor buses", []string{"UPDATE TARGET_INFO_GPU SET uuid = NULL, busLocation = NULL", "UPDATE TARGET_INFO_CUDA_DEVICE SET uuid = NULL"},
			[]string{"sm_active_frac  0", "clock_sm_hz  0", "sm_active_frac  1"}, false},
		{"no list of GPUs, two that ran", []string{"DROP TABLE TARGET_INFO_GPU", "DROP TABLE TARGET_INFO_CUDA_DEVICE"}, []string{"sm_active_frac  -1", "clock_sm_hz  -1", "sm_active_frac  -1"}, false},
		{"no list of GPUs, one that ran", []string{"DROP TABLE TARGET_INFO_GPU", "DROP TABLE TARGET_INFO_CUDA_DEVICE", "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE globalPid >> 24 & 16777215 = 1002",
			fmt.Sprint("DELETE FROM GPU_METRICS WHERE typeId <> ", gpuType), fmt.Sprint("DELETE FROM TARGET_INFO_GPU_METRICS WHERE typeId <> ", gpuType)},
			[]string{"sm_active_frac  0", "clock_sm_hz  0"}, false},
	} {
		got, said := owners(c.setup...)
		if strings.Join(got, "; ") != strings.Join(c.want, "; ") || strings.Contains(said, "nsys/metric-gpu") != c.said {
			t.Errorf("%s: %q, want %q\n%s", c.name, got, c.want, said)
		}
	}
}

// One name comes as a share, a count and an average; parts are added up and stay a share; read and write make the memory's activity.
func TestMetricsByName(t *testing.T) {
	names := []string{"GR Active [Workloads]", "GR Active [Throughput %]", "Tensor Pipe FP16 Active [Throughput %]", "Tensor Pipe INT8 Active [Throughput %]",
		"DRAM Read Bandwidth [Throughput %]", "DRAM Write Bandwidth [Throughput %]", "Compute Warps in Flight [Avg]", "Compute Warps in Flight [Throughput %]",
		"NVLink RX Requests User Data [Throughput %]", "NVLink RX Responses User Data [Throughput %]", "Sync Copy Engine Active [Cycles Active]", "gpc clock frequency [mhz]"}
	values := []int{3, 90, 70, 60, 40, 25, 1900, 44, 10, 11, 12345, -2000000000}
	var setup []string
	add := func(i, at, v int) {
		setup = append(setup, fmt.Sprintf("INSERT INTO GPU_METRICS VALUES (%d, %d, %d, %d)", at, gpuType, 100+i, v))
	}
	setup = append(setup, "DELETE FROM GPU_METRICS", "DELETE FROM TARGET_INFO_GPU_METRICS")
	for i, n := range names {
		setup = append(setup, fmt.Sprintf("INSERT INTO TARGET_INFO_GPU_METRICS VALUES (%d, 1, 'GPU 0', %d, '%s')", gpuType, 100+i, n))
		add(i, 1000000, values[i])
	}
	add(4, 5000000, 50) // read alone: what was written then is not known
	tl := mustRead(t, build(t, []string{"modern.sql"}, setup...))
	want := map[string][]float64{"gr_active_frac": {0.9}, "tensor_active_frac": {1}, "dram_read_frac": {0.4, 0.5}, "dram_write_frac": {0.25}, "dram_active_frac": {0.65},
		"sm_occupancy_frac": {0.44}, "nvlink_rx_frac": {0.21}, "clock_sm_hz": {2294967296}}
	for _, s := range ofCounters(tl) {
		w := want[s.Metric.Name]
		delete(want, s.Metric.Name)
		if len(s.Value) != len(w) {
			t.Errorf("%s: %v, want %v", s.Metric.Name, s.Value, w)
			continue
		}
		for i, v := range s.Value {
			if math.Abs(v-w[i]) > 1e-9*math.Abs(w[i]) {
				t.Errorf("%s: %v, want %v", s.Metric.Name, s.Value, w)
			}
		}
	}
	for name := range want {
		t.Errorf("no %s", name)
	}
	// As a whole it counts before its parts.
	setup = append(setup, fmt.Sprintf("INSERT INTO TARGET_INFO_GPU_METRICS VALUES (%d, 1, 'GPU 0', 120, 'Tensor Active / FP16 Active [Throughput %%]')", gpuType))
	add(20, 1000000, 80)
	if s := seriesOf(t, mustRead(t, build(t, []string{"modern.sql"}, setup...)), "tensor_active_frac"); s == nil || s.Value[0] != 0.8 {
		t.Errorf("tensor activity %+v, want 0.8", s)
	}
}

// Many samples get wider windows, few keep their own.
func TestMetricsWindows(t *testing.T) {
	many := mustRead(t, build(t, []string{"modern.sql"}, "DELETE FROM GPU_METRICS", fmt.Sprint("DELETE FROM TARGET_INFO_GPU_METRICS WHERE metricId <> 1 OR typeId <> ", gpuType),
		"UPDATE ANALYSIS_DETAILS SET duration = 3600000000000",
		fmt.Sprint("WITH RECURSIVE k(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM k WHERE i<299999) INSERT INTO GPU_METRICS SELECT 1000000+i*1000000, ", gpuType, ", 1, i/3000 FROM k")))
	s := seriesOf(t, many, "sm_active_frac")
	if s == nil || s.Metric.Window != 8*time.Millisecond || len(s.At) > maxReadings || len(s.At) < maxReadings/4 {
		t.Fatalf("%d readings in windows of %v", len(s.At), s.Metric.Window)
	}
	for i := range s.At { // one more every 3 s
		at := float64(s.At[i]-epoch) / 1e9
		if v := s.Value[i] * 100; math.Abs(v-math.Floor(at/3)) > 1.01 {
			t.Fatalf("%.3f s: %g %%", at, v)
		}
	}
	few := mustRead(t, build(t, []string{"modern.sql"}, "DELETE FROM GPU_METRICS",
		fmt.Sprint("INSERT INTO GPU_METRICS VALUES (10000000, ", gpuType, ", 1, 10), (110000000, ", gpuType, ", 1, 20), (210000000, ", gpuType, ", 1, 30)")))
	if s := seriesOf(t, few, "sm_active_frac"); s == nil || s.Metric.Window != 100*time.Millisecond || len(s.At) != 3 || s.At[2] != epoch+210000000 {
		t.Errorf("%+v", s)
	}
}

const nicTables = `CREATE TABLE NET_NIC_METRIC (start INTEGER, end INTEGER, globalId INTEGER, portId INTEGER, metricsListId INTEGER, metricsIdx INTEGER, value INTEGER);
CREATE TABLE TARGET_INFO_NETWORK_METRICS (metricsListId INTEGER, metricsIdx INTEGER, name TEXT, description TEXT, unit TEXT);
CREATE TABLE TARGET_INFO_NIC_INFO (GUID INTEGER, stateName TEXT, nicId INTEGER, name TEXT, deviceId INTEGER, vendorId INTEGER, linkLayer INTEGER);
CREATE TABLE NIC_ID_MAP (nicId INTEGER, globalId INTEGER);
INSERT INTO TARGET_INFO_NIC_INFO VALUES (1, 'Active', 7, 'mlx5_0', 4123, 5555, 1), (2, 'Active', 8, 'mlx5_1', 4123, 5555, 1);
INSERT INTO NIC_ID_MAP VALUES (7, 77), (8, 88);
INSERT INTO TARGET_INFO_NETWORK_METRICS VALUES (1, 0, 'IB: Bytes sent', '', 'bytes/ms'), (1, 1, 'IB: Bytes received', '', 'bytes/ms'), (1, 2, 'IB: Send waits', '', 'ticks/ms'),
 (1, 3, 'IB: Packets sent', '', 'packets/ms'), (2, 0, 'Eth: Bytes sent', '', 'bytes/ms'), (1, 4, 'IPoIB: Bytes sent', '', 'bytes/ms');
`

// Values are rates a millisecond; a port that saw no traffic has zeros, one that was not read has no series.
func TestNetwork(t *testing.T) {
	tl := mustRead(t, build(t, []string{"modern.sql"}, nicTables, `INSERT INTO NET_NIC_METRIC VALUES (0, 20000000, 77, 1, 1, 0, 5000000), (20000000, 40000000, 77, 1, 1, 0, 7000000),
 (0, 20000000, 77, 1, 1, 2, 9), (0, 20000000, 77, 1, 1, 3, 9), (0, 20000000, 77, 1, 1, 4, 11),
 (0, 20000000, 88, 1, 1, 0, 0), (0, 20000000, 88, 1, 2, 0, 42), (0, 20000000, 88, 1, 1, 1, 0),
 (0, 1000000, 99, 1, 1, 1, 100), (1000000, 2000000, 99, 1, 1, 1, 300), (2000000, 2000000, 99, 1, 1, 1, 300), (2000000, NULL, 99, 1, 1, 1, 300), (2000000, 3000000, 99, 1, 1, 1, -5)`))
	var got []string
	for _, s := range tl.Series {
		if tr := tl.Tracks[s.Track]; tr.Kind == timeline.TrackNIC {
			var at []int64
			for _, x := range s.At {
				at = append(at, int64(x-epoch))
			}
			got = append(got, fmt.Sprintf("%s %s %v %v %s %v", tr.Name, s.Metric.Name, at, s.Value, s.Metric.Window, tl.Sources[0].Ref("", s.Row[0])))
		}
	}
	want := []string{
		"mlx5_0:1 net_tx_bytes_per_s [20000000 40000000] [5e+09 7e+09] 20ms run.sqlite: NET_NIC_METRIC[1]",
		"mlx5_0:1 net_send_wait_hz [20000000] [9000] 20ms run.sqlite: NET_NIC_METRIC[3]",
		"mlx5_1:1 net_rx_bytes_per_s [20000000] [0] 20ms run.sqlite: NET_NIC_METRIC[8]",
		"mlx5_1:1 net_tx_bytes_per_s [20000000] [42000] 20ms run.sqlite: NET_NIC_METRIC[7]",
		"NIC 63:1 net_rx_bytes_per_s [2000000] [200000] 2ms run.sqlite: NET_NIC_METRIC[9]",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if p := problems(tl); !strings.Contains(p, "nsys/bad-metric data-loss 0 x4") { // three here, and one GPU reading of the file
		t.Error(p)
	}
	if h := tl.Sources[0].Host; h != "gpu-a" {
		t.Errorf("host %q", h)
	}
	none := mustRead(t, build(t, []string{"modern.sql"}, strings.Split(nicTables, "INSERT INTO TARGET_INFO_NETWORK")[0], "INSERT INTO NET_NIC_METRIC VALUES (0, 20000000, 77, 1, 1, 0, 5000000)"))
	if p := problems(none); !strings.Contains(p, "nsys/network-names") {
		t.Error(p)
	}
}
