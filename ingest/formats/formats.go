// Package formats is the list of input formats: one line each. Those that are read have a package of their own; the others are
// recognised, named, and answered with the one command that records what is read.
package formats

import (
	"gpureport/ingest"
	"gpureport/ingest/bugreport"
	"gpureport/ingest/dcgm"
	"gpureport/ingest/dmon"
	"gpureport/ingest/flightrec"
	"gpureport/ingest/kernlog"
	"gpureport/ingest/lscpu"
	"gpureport/ingest/nccllog"
	"gpureport/ingest/ncu"
	"gpureport/ingest/nsys"
	"gpureport/ingest/nsysstats"
	"gpureport/ingest/nvml"
	"gpureport/ingest/pmon"
	"gpureport/ingest/promtext"
	"gpureport/ingest/smiapps"
	"gpureport/ingest/smilist"
	"gpureport/ingest/sminvlink"
	"gpureport/ingest/smiq"
	"gpureport/ingest/smiquery"
	"gpureport/ingest/smitable"
	"gpureport/ingest/smitopo"
	"gpureport/ingest/steplog"
	"gpureport/ingest/sysstat"
	"gpureport/ingest/torchprof"
)

// List is every format that is recognised. No two may say yes to one file.
var List = []ingest.Format{
	torchprof.Format,
	dmon.Format,
	smiquery.Format,
	nsys.Format,
	nvprof,
	sqlite,
	nsysRep,
	nsysJSON,
	nsysstats.Format,
	ncu.Format,
	ncuRep,
	hdf5,
	parquet,
	arrow,
	memorySnapshot,
	executionTrace,
	ascendTrace,
	tensorflowTrace,
	nvml.Format,
	ownReport,
	pmon.Format,
	otherDmon,
	dcgm.Format,
	dcgmReport,
	smiapps.Format,
	smiq.Format,
	smiq.XML,
	smitable.Format,
	smitopo.Format,
	sminvlink.Format,
	smilist.Format,
	smiStats,
	smiDaemon,
	bugreport.Format,
	bugreport.Capture,
	smiNoHeader,
	promtext.Format,
	kernlog.Format,
	nccllog.Format,
	flightrec.Format,
	flightrec.Pickle,
	steplog.Format,
	sysstat.Format,
	lscpu.Format,
	lscpu.NUMA,
	rocmSMI,
	packed,
}
