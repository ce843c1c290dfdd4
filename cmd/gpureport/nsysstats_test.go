package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"gpureport/fixtures/sim"
)

// Reports of nsys stats as queries of an export, with their headings.
const (
	statsGPU = `SELECT start, end - start, correlationId, gridX, gridY, gridZ, blockX, blockY, blockZ, 16, 0, 0, '', '', '', '', 'NVIDIA A100-SXM4-80GB (' || deviceId || ')', 1, '', streamId,
	(SELECT value FROM StringIds WHERE id = demangledName) FROM CUPTI_ACTIVITY_KIND_KERNEL
UNION ALL SELECT start, end - start, correlationId, '', '', '', '', '', '', '', '', '', printf('%.3f', bytes / 1e6), '', CASE srcKind WHEN 0 THEN 'Pageable' WHEN 1 THEN 'Pinned' ELSE 'Device' END,
	CASE dstKind WHEN 0 THEN 'Pageable' WHEN 1 THEN 'Pinned' ELSE 'Device' END, 'NVIDIA A100-SXM4-80GB (' || deviceId || ')', 1, '', streamId,
	CASE copyKind WHEN 1 THEN '[CUDA memcpy Host-to-Device]' WHEN 2 THEN '[CUDA memcpy Device-to-Host]' ELSE '[CUDA memcpy Device-to-Device]' END FROM CUPTI_ACTIVITY_KIND_MEMCPY ORDER BY 1`
	statsGPUHead = "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name"
	statsAPI     = `SELECT start, end - start, (SELECT value FROM StringIds WHERE id = nameId), returnValue, correlationId, (globalTid >> 24) & 0xFFFFFF, globalTid & 0xFFFFFF, 20, 'python3'
	FROM CUPTI_ACTIVITY_KIND_RUNTIME ORDER BY 1`
	statsAPIHead = "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name"
	statsNVTX    = `SELECT start, end, end - start, 0, 0, CASE WHEN domainId = 0 THEN ':' ELSE 'NCCL:' END || coalesce(text, (SELECT value FROM StringIds WHERE id = textId)),
	(globalTid >> 24) & 0xFFFFFF, globalTid & 0xFFFFFF, 0, 0, 1, '', ':1', '' FROM NVTX_EVENTS WHERE end IS NOT NULL AND eventType IN (59, 60) ORDER BY 1`
	statsNVTXHead = "Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,NumChild,RangeId,ParentId,RangeStack,NameTree"
)

// statsTables prints reports of an export as nsys stats --format csv does, one below the other.
func statsTables(t testing.TB, path string, reports ...[3]string) string {
	t.Helper()
	conn, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var b strings.Builder
	for _, r := range reports {
		b.WriteString("Processing [run.sqlite] with [/opt/nvidia/nsight-systems/2024.6.2/host-linux-x64/reports/" + r[0] + ".py]... \n" + r[1] + "\n")
		stmt, _, err := conn.Prepare(r[2])
		if err != nil {
			t.Fatalf("%s: %v", r[0], err)
		}
		w := csv.NewWriter(&b)
		for stmt.Step() {
			row := make([]string, stmt.ColumnCount())
			for i := range row {
				row[i] = stmt.ColumnText(i)
			}
			if err := w.Write(row); err != nil {
				t.Fatal(err)
			}
		}
		w.Flush()
		if err := stmt.Close(); err != nil {
			t.Fatal(err)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// What nsys stats prints of a recording has the busy time of the recording's export; with calls and ranges in the same file, its ledger.
func TestStatsTablesSayWhatTheExportSays(t *testing.T) {
	gpu, api, nvtx := [3]string{"cuda_gpu_trace", statsGPUHead, statsGPU}, [3]string{"cuda_api_trace", statsAPIHead, statsAPI}, [3]string{"nvtx_pushpop_trace", statsNVTXHead, statsNVTX}
	n := 0
	for _, in := range sim.Incidents() {
		if in.Name != "item-sync" && in.Name != "pageable" && in.Name != "loader-starved" {
			continue
		}
		n++
		files, err := in.NsysSQL(sim.NsysOptions{Sizes: true})
		if err != nil || len(files) != 1 {
			t.Fatal(len(files), err)
		}
		dir := t.TempDir()
		db := filepath.Join(dir, "run.sqlite")
		for _, sql := range files {
			database(t, db, sql)
		}
		export, _ := analyzed(t, db)
		for _, c := range []struct {
			name    string
			reports [][3]string
		}{{"gpu.csv", [][3]string{gpu}}, {"all.csv", [][3]string{gpu, api, nvtx}}} {
			p := filepath.Join(t.TempDir(), c.name)
			if err := os.WriteFile(p, []byte(statsTables(t, db, c.reports...)), 0o600); err != nil {
				t.Fatal(err)
			}
			got, _ := analyzed(t, p)
			ledgersClose(t, got)
			if len(got.Ledger) != 1 || len(export.Ledger) != 1 {
				t.Fatalf("%s, %s: %d ledgers, the export has %d", in.Name, c.name, len(got.Ledger), len(export.Ledger))
			}
			a, b := &export.Ledger[0], &got.Ledger[0]
			if len(c.reports) == 1 {
				// Other steps, or none, are found without ranges: compare what all kernels took.
				var x, y int64
				for _, k := range got.Kernels {
					y += k.DurNS
				}
				for _, k := range export.Kernels {
					x += k.DurNS
				}
				if y < x || b.Owners["unknown"] == 0 || b.Owners["host.sync"] != 0 || b.Owners["host.launch"] != 0 {
					t.Errorf("%s: kernels %d ns, the export %d ns; owners %v", in.Name, y, x, b.Owners)
				}
				continue
			}
			if a.BusyNS != b.BusyNS || a.WindowNS != b.WindowNS || a.Steps != b.Steps {
				t.Errorf("%s: busy %d of %d ns in %d steps, the export has %d of %d in %d", in.Name, b.BusyNS, b.WindowNS, b.Steps, a.BusyNS, a.WindowNS, a.Steps)
			}
			sameLedgers(t, export, got)
			if got.Verdict.Class != export.Verdict.Class {
				t.Errorf("%s: verdict %s, the export %s", in.Name, got.Verdict.Class, export.Verdict.Class)
			}
		}
	}
	if n != 3 {
		t.Fatalf("%d incidents", n)
	}
}
