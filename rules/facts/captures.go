package facts

// Recipe is a command that records what a fact needs.
type Recipe struct {
	ID      string // C1 to C18
	Command string
	Where   string // on which machines or ranks it runs
	Title   string // what it records, in a few words
	Note    string // what else to mind; "" nothing
}

// Recipes are the capture commands in the order of the plan.
var Recipes = []Recipe{
	{"C1", "nvidia-smi dmon -s pucvmet -d 1 -o DT -f dmon.log",
		"on every host, while the job runs", "GPU samples once a second", ""},
	{"C2", "nvidia-smi --query-gpu=timestamp,index,uuid,pci.bus_id,name,pstate,utilization.gpu,utilization.memory,power.draw,enforced.power.limit," +
		"power.default_limit,clocks.sm,clocks.max.sm,clocks.mem,temperature.gpu,temperature.memory,clocks_event_reasons.active," +
		"pcie.link.gen.gpucurrent,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max,memory.used --format=csv,nounits -lms 500 -f query.csv",
		"on every host, while the job runs", "GPU samples with clocks, throttle reasons and link state",
		"on older drivers write clocks_throttle_reasons.active and pcie.link.gen.current; where supported add " +
			"clocks_event_reasons_counters.sw_power_cap, .hw_thermal_slowdown, .sw_thermal_slowdown, .hw_power_brake_slowdown"},
	{"C3", "nvidia-smi -q > smi-q.txt; nvidia-smi topo -m > topo.txt; nvidia-smi nvlink -s > nvlink.txt; nvidia-smi nvlink -e > nvlink-err.txt; " +
		`dmesg -T | grep -iE "xid|nvrm" > xid.txt; lscpu > lscpu.txt; numactl -H > numa.txt`,
		"on every host, under load", "the state of the machine", "take it twice, some minutes apart, in two folders: counters of replays and links are compared; dmesg wants root on many hosts, without it Xids stay unknown"},
	{"C4", "prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA], " +
		"schedule=torch.profiler.schedule(wait=10, warmup=3, active=24, repeat=1), record_shapes=True, " +
		`on_trace_ready=torch.profiler.tensorboard_trace_handler("trace"), ` +
		"experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)); prof.start()",
		"in the training script, on every rank", "a PyTorch trace of every rank",
		"call prof.step() after each step and prof.stop() at the end, and wrap save, eval and log in record_function(NAME) with NAME one of checkpoint, validation, logging"},
	{"C5", "nsys profile -t cuda,nvtx,osrt,cudnn,cublas --cuda-memory-usage=true --gpu-metrics-devices=all --cuda-graph-trace=node " +
		"--sample=process-tree --cpuctxsw=process-tree --capture-range=cudaProfilerApi --capture-range-end=stop -o run CMD; " +
		"nsys export --type sqlite -o run.sqlite run.nsys-rep",
		"in place of the start command CMD", "an Nsight Systems export",
		"call torch.cuda.cudart().cudaProfilerStart() after some warm steps and cudaProfilerStop() about 20 steps later, else nothing is recorded, with each step in a " +
			"torch.cuda.nvtx.range(f\"step {i}\"); leave --gpu-metrics-devices out where nsys may not read counters, and on older nsys write --gpu-metrics-device; " +
			"add --nic-metrics=true for InfiniBand or RoCE"},
	{"C6", "mpstat -P ALL 1 60 > mpstat.txt & iostat -xmt 1 60 > iostat.txt & pidstat -tud -h 1 60 > pidstat.txt & vmstat -t 1 60 > vmstat.txt; wait",
		"on every host, while the job runs", "CPU, disks and memory of the host", "also keep the cgroup's cpu.max and cpu.stat from before and after"},
	{"C7", "py-spy dump --pid PID > stacks.txt; py-spy record -d 60 --gil -o gil.svg --pid PID",
		"on the slow rank's process PID", "Python stacks", "take the dump five times during a dip, each to a file of its own; it wants root, or SYS_PTRACE in a container"},
	{"C8", "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH,P2P,NET,TUNING ./all_reduce_perf -b 8 -e 4G -f 2 -g NGPU > nccl.log 2>&1",
		"with the job's rank layout", "which ways NCCL takes, and its speed by size",
		"the same variables and NCCL_DEBUG_FILE=nccl.%h.%p.log before the job's own command log the ways that the job takes"},
	{"C9", "nvbandwidth -t host_to_device_memcpy_ce; nvbandwidth -t device_to_host_memcpy_ce",
		"on the idle host", "copy speed of each GPU", ""},
	{"C10", "stdbuf -oL dcgmi dmon -e 1001,1002,1003,1004,1005,1009,1010,1011,1012 -d 1000 | " +
		`while IFS= read -r line; do echo "$(date +%FT%T.%3N%:z) $line"; done > dcgm.txt`,
		"on every host, while the job runs", "SM, tensor, memory and link activity",
		"dcgmi prints no times, so each line gets its own; a profiler that holds the counters makes all of it N/A; nsys profile --gpu-metrics-devices=all samples the same beside a trace, gpureport record does on Hopper and later"},
	{"C11", "ncu --set full --csv --log-file ncu.csv --kernel-name regex:NAME --launch-count 3 CMD",
		"on one rank, for the kernel NAME", "one kernel's counters", "NAME is the kernel's from the table of kernels, without its arguments; the kernel runs many times over, so its speed in that run means nothing; " +
			"of a report that is there already: ncu --import run.ncu-rep --csv --page details > ncu.csv"},
	{"C12", "time each in turn: the loader alone without a model; the model on one batch kept on the GPU; the loader with its data in the page cache",
		"on one rank", "loader against model speed", "report steps per second of each"},
	{"C13", "ibstat; perfquery -x; ib_write_bw",
		"on both ends, before and after", "fabric counters", "ib_write_bw pairwise between suspect nodes: start it on one, and ib_write_bw NODE on the other"},
	{"C14", `TORCH_LOGS=recompiles,graph_breaks; torch.cuda.set_sync_debug_mode("warn"); print(torch.cuda.memory_stats()["num_alloc_retries"], ` +
		`torch.cuda.memory_stats()["num_ooms"])`,
		"in the training script, TORCH_LOGS before its start command", "recompiles, syncs and allocator retries", "print every 100 steps"},
	{"C15", "nsys export --type sqlite -o run.sqlite run.nsys-rep",
		"where the recording run.nsys-rep lies that the tables were made of", "the recording behind the tables as a database", "nothing has to run again; if the recording is gone, make one with ranges named step N"},
	{"C16", "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_NCCL_DEBUG_INFO_TEMP_FILE=nccl_trace_rank_ CMD",
		"before the start command CMD of every rank", "the last collectives of every rank when one does not end",
		`the dumps are pickles; python3 -c "import json,pickle,sys; json.dump(pickle.load(open(sys.argv[1],'rb')), open(sys.argv[1]+'.json','w'), default=str)" FILE turns one into what is read`},
	{"C17", `print(f"{__import__('datetime').datetime.now().astimezone().isoformat()} step={step} epoch={epoch} time={seconds:.4f} tokens={tokens}", ` +
		`file=open("steps.log", "a"))`,
		"in the training script, after each step, on one rank", "step times of the whole run",
		"seconds is the step's wall time and tokens the number of them in the step's batch; leave out what the loop does not know"},
	{"C18", "gpureport record --duration 30m -o host.gpurec.jsonl.zst",
		"on every host, while the job runs", "GPUs, CPUs and the processes of the job, by gpureport itself",
		"from the middle of one epoch to that of the next at least; the training loop's log must state time and epoch (C17)"},
}

// RecipeOf gives the recipe of an id.
func RecipeOf(id string) (Recipe, bool) {
	for _, r := range Recipes {
		if r.ID == id {
			return r, true
		}
	}
	return Recipe{}, false
}
