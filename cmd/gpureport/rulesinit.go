package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// initRules writes a folder for a site's own rules: one example with its cases, one table, a README. Files that are there are kept, and
// then nothing is written at all.
func initRules(dir string) ([]string, error) {
	var names []string
	for _, f := range example {
		path := filepath.Join(dir, filepath.FromSlash(f.path))
		if _, err := os.Lstat(path); err == nil {
			return nil, fmt.Errorf("%s: already there: name another folder", path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		names = append(names, path)
	}
	for i, f := range example {
		if err := os.MkdirAll(filepath.Dir(names[i]), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(names[i], []byte(f.text), 0o644); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// example is what a site starts from.
var example = []struct{ path, text string }{
	{"README.md", `# Rules of this site

Each file <stage>/<name>.yaml is one rule; stages are step, idle, data, kernel, comm, shape, hw. Nothing has to be compiled.

| to | run here |
| --- | --- |
| find every error, with line and column | gpureport rules check . |
| run the cases inside the rules | gpureport rules test . |
| see the facts a rule may ask | gpureport rules facts |
| see a shipped rule as a pattern | gpureport rules show idle.dataloader-wait |
| give an editor the form of a rule | gpureport rules schema > rule.schema.json |
| use them | gpureport analyze --rules . -o report INPUT... |

A rule with the id of a shipped one replaces it whole; another one follows the rules of its stage. A file in tables/ is laid over the
shipped table of its name.
`},
	{"data/night-loader.yaml", `# An example: change it, or delete it. The path says the id: data/night-loader.yaml is data.night-loader.
id: data.night-loader
title: The loader is slower than this site allows
per: gpu                       # asked once of each: run, host, rank or gpu
class: data-pipeline           # the verdict class its saving counts for; leave it out for none
# A condition over facts (gpureport rules facts) and the limits below. A missing fact makes the answer unknown, never a pass.
finding_if: gpu.host_dataloader_frac >= wait
limits:                        # every number has a name, a unit and a source
  wait: {value: 10, unit: "%", source: "judgement: what we tell users to stay below"}
saving: gpu.save_dataloader_frac   # the most a fix can return, as a share of the step; the severity follows from it
severity: medium               # where no saving can be computed
confidence: measured           # measured, inferred or hint; a hint asks for a capture and nothing else
says: "{gpu} waited {gpu.host_dataloader_frac} of the window for its next batch, above our {wait}"
looks_like: "A long next() under a busy GPU is no wait; only time with the GPU empty counts here."
do:
  - "Read from the local copy of the data set, not over the network"
  # G1 opens where the wait is measured, cores are idle and storage is not saturated; until then the advice is withheld with the reason.
  - {say: "More DataLoader workers, up to the free cores", gates: [G1]}
  - {say: "Record CPU and disk beside the run", capture: C6}
dont: ["More prefetching alone: it smooths the wait, it does not shorten it"]
overlaps: [idle.dataloader-wait]   # claims the same time as this rule: counted once
cases:                         # a finding, a pass, an unknown; near the limit on both sides
  - {facts: {gpu.host_dataloader_frac: 0.3, gpu.save_dataloader_frac: 0.25}, want: finding, saving: 0.25, severity: high}
  - {facts: {gpu.host_dataloader_frac: 0.105}, want: finding, severity: medium}
  - {facts: {gpu.host_dataloader_frac: 0.095}, want: pass}
  - {facts: {}, want: unknown}
`},
	{"tables/gpus.yaml", `# An example: a card the shipped table lacks. Change it, or delete it. TFLOPS are dense and per GPU; bw is memory, nvlink both directions,
# in GB/s. names are as nvidia-smi prints them; boost_mhz is the clock behind the TFLOPS. conf C: not checked against the maker.
gpus:
  - {id: EXAMPLE-1, names: ["ACME Example 1"], sms: 100, cc: "9.9", fp32: 60, tf32: 400, half: 800, gb: [64], bw: 3000, tdp: 500, boost_mhz: 1500, pcie: 5, conf: C}
`},
}
