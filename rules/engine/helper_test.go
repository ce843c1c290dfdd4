package engine

import (
	"sort"
	"testing"
	"testing/fstest"

	"gpureport/ingest/unit"
	"gpureport/rules/facts"
)

// decls are the facts of the tests here; they are not the catalogue's.
func decls() []*facts.Decl {
	d := func(id facts.ID, u unit.Unit, per facts.SubjectKind, doc string, max float64) *facts.Decl {
		return &facts.Decl{ID: id, Doc: doc, Unit: u, Per: per, Max: max, Capture: "C4"}
	}
	out := []*facts.Decl{
		d("gpu.h2d_pageable_frac", unit.Frac, facts.GPU, "Share of host-to-device bytes from pageable memory.", 1),
		d("gpu.copy_h2d_frac", unit.Frac, facts.GPU, "Share of the window held by host-to-device copies.", 1),
		d("gpu.host_dataloader_frac", unit.Frac, facts.GPU, "Share of the window held by the loader.", 1),
		d("gpu.host_sync_frac", unit.Frac, facts.GPU, "Share of the window held by syncs.", 1),
		d("gpu.host_launch_frac", unit.Frac, facts.GPU, "Share of the window held by launching.", 1),
		d("gpu.comm_transfer_frac", unit.Frac, facts.GPU, "Share of the window held by transfer.", 1),
		d("gpu.comm_peer_wait_frac", unit.Frac, facts.GPU, "Share of the window waiting for peers.", 1),
		d("gpu.compute_frac", unit.Frac, facts.GPU, "Share of the window computing.", 1),
		d("gpu.unknown_frac", unit.Frac, facts.GPU, "Share of the window nobody owns.", 1),
		d("gpu.busy_frac", unit.Frac, facts.GPU, "Share of the window busy.", 1),
		d("gpu.temp_max_c", unit.Celsius, facts.GPU, "Highest temperature of the GPU.", 200),
		d("gpu.clock_hz", unit.Hertz, facts.GPU, "SM clock under load.", 1e10),
		d("gpu.mig_flag", unit.Flag, facts.GPU, "Whether MIG is on.", 1),
		d("gpu.name", unit.Text, facts.GPU, "Name of the GPU.", 0),
		d("rank.step_p50_s", unit.Second, facts.Rank, "Median step time.", 1e7),
		d("rank.host_busy_frac", unit.Frac, facts.Rank, "Host busy share.", 1),
		d("rank.next_frac", unit.Frac, facts.Rank, "Share of the step inside the loader's next().", 1),
		d("gpu.host_python_frac", unit.Frac, facts.GPU, "Share of the window held by Python.", 1),
		d("host.cores_count", unit.Count, facts.Host, "CPU cores.", 1e6),
		d("host.threads_count", unit.Count, facts.Host, "Runnable threads.", 1e6),
		d("run.gpus_count", unit.Count, facts.Run, "GPUs of the run.", 1e6),
		d("run.culprit_rank_count", unit.Count, facts.Run, "Number of the late rank.", 1e6),
		d("run.culprit_cause", unit.Text, facts.Run, "What held it.", 0),
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out
}

// pageable is the example of the house rules.
const pageable = `id: data.h2d-pageable                # stage.name, as the path says
title: Copies to the GPU start in pageable memory
per: gpu
class: transfer                      # the verdict class its saving counts for; absent: none
finding_if: gpu.h2d_pageable_frac > pageable and gpu.copy_h2d_frac > exposed
limits:
  pageable: {value: 50, unit: "%", source: "judgement: more than half of the bytes, so it is the main path"}
  exposed:  {value: 3, unit: "%", source: "TF input-pipeline analyzer: below 3 % of the step, nothing"}
saving: gpu.copy_h2d_frac            # the most a fix can return; the severity band follows from it
confidence: measured
says: "{gpu} waited {gpu.copy_h2d_frac} of the window for copies, {gpu.h2d_pageable_frac} of their bytes from pageable memory"
do: ["pin_memory=True in the loader, then non_blocking=True"]
dont: ["tensor.pin_memory() inline: it can be slower than the plain copy"]
gates: [G9]                          # the do-not rules that must allow the advice
cases:                               # at least one of each outcome, or the rule does not load in tests
  - {facts: {gpu.h2d_pageable_frac: 0.9, gpu.copy_h2d_frac: 0.08}, want: finding}
  - {facts: {gpu.h2d_pageable_frac: 0.1}, want: pass}
  - {facts: {gpu.h2d_pageable_frac: 0.9}, want: unknown}
`

const gateG9 = `- id: G9
  title: Removing syncs
  allow_if: min(gpu.host_sync_frac, step - max(gpu.busy_frac, rank.host_busy_frac)) > worth
  limits:
    step: {value: 100, unit: "%", source: "definition"}
    worth: {value: 3, unit: "%", source: "TF"}
  why: "removing the wait only moves it"
  capture: C4
`

// folder makes a checklist of files, in the order of the ids given.
func folder(gates string, idsAndFiles ...string) fstest.MapFS {
	fs := fstest.MapFS{"gates.yaml": {Data: []byte(gates)}}
	order := ""
	for i := 0; i+1 < len(idsAndFiles); i += 2 {
		id, file := idsAndFiles[i], idsAndFiles[i+1]
		stage, name := id, ""
		for j := range id {
			if id[j] == '.' {
				stage, name = id[:j], id[j+1:]
				break
			}
		}
		order += "- " + id + "\n"
		fs["checklist/"+stage+"/"+name+".yaml"] = &fstest.MapFile{Data: []byte(file)}
	}
	fs["checklist.yaml"] = &fstest.MapFile{Data: []byte(order)}
	return fs
}

func mustLoad(t testing.TB, fs fstest.MapFS, site ...Source) *Rules {
	t.Helper()
	rs, err := Load(fs, site, decls())
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// machine is a run of one host with n ranks of one GPU each; subject of gpu i is 2+n+i.
func machine(n int) *facts.Set {
	subs := []facts.Subject{{Kind: facts.Run, ID: "run", Rank: -1, Up: -1}, {Kind: facts.Host, ID: "node1", Rank: -1, Up: 0}}
	for i := range n {
		subs = append(subs, facts.Subject{Kind: facts.Rank, ID: "rank" + string(rune('0'+i)), Rank: i, Up: 1})
	}
	for i := range n {
		subs = append(subs, facts.Subject{Kind: facts.GPU, ID: "gpu" + string(rune('0'+i)), Rank: i, Up: 2 + i})
	}
	return facts.NewSet(subs, decls())
}

func val(x float64) facts.Value { return facts.Value{Num: x, Cover: 1, Conf: confMeasured} }
