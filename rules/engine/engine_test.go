package engine

import (
	"testing"

	"gpureport/rules/facts"
)

func TestExampleRule(t *testing.T) {
	rs := mustLoad(t, folder(gateG9, "data.h2d-pageable", pageable))
	for _, f := range Test(rs) {
		t.Error(f)
	}
	set := machine(2)
	set.Put(4, "gpu.h2d_pageable_frac", val(0.9))
	set.Put(4, "gpu.copy_h2d_frac", facts.Value{Num: 0.08, Conf: confInferred, Refs: []facts.Ref{{Path: "a.json", Row: 7}}, NRefs: 40})
	set.Put(5, "gpu.h2d_pageable_frac", val(0.1))
	cs := rs.Evaluate(set)
	if len(cs) != 2 {
		t.Fatalf("got %d checks, want one a GPU", len(cs))
	}
	c := cs[0]
	if c.Outcome != Finding || c.Severity != Medium || c.Confidence != confInferred || *c.Saving != 0.08 || c.NRefs != 40 || len(c.Refs) != 1 {
		t.Errorf("gpu0: %+v", c)
	}
	if want := "GPU 0 waited 8.0\u00a0% of the window for copies, 90\u00a0% of their bytes from pageable memory"; c.Says != want {
		t.Errorf("says %q, want %q", c.Says, want)
	}
	if len(c.Do) != 0 || len(c.Withheld) != 1 || c.Withheld[0].Gate != "G9" || c.Withheld[0].Capture != "C4" {
		t.Errorf("advice of a gate that is not known: do %v withheld %+v", c.Do, c.Withheld)
	}
	c = cs[1]
	if want := "10\u00a0% (share of host-to-device bytes from pageable memory), limit 50\u00a0%"; c.Outcome != Pass || c.Says != want {
		t.Errorf("gpu1: %v %q, want %q", c.Outcome, c.Says, want)
	}
}
