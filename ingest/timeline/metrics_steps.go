package timeline

import "gpureport/ingest/unit"

// The metrics of a training loop's own log, one reading a logged line, on a track of kind TrackSteps. Readings of one line have one stamp.
var (
	StepTime   = Metric{"step_s", unit.Second, WindowBefore, 0}      // a step; where only every n-th is logged, the mean of those since the line before
	StepNumber = Metric{"step_number_count", unit.Count, Instant, 0} // as the log numbers it
	StepEpoch  = Metric{"epoch_count", unit.Count, Instant, 0}       // whole epochs done before it
	StepTokens = Metric{"step_tokens_count", unit.Count, Instant, 0} // of one step
	StepData   = Metric{"step_data_s", unit.Second, WindowBefore, 0} // of it, waiting for data, as the loop measures it
)

// AttrStepEvery is how many steps one line of a step log stands for.
const AttrStepEvery = "step_log_every"
