package diagnosis

import "strings"

// Hint returns something to try that is known to help with what the last lines of a
// rank say, or "". Of several the last complaint counts: what ended the rank stands at
// the end. A command in a hint works as it is.
func Hint(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		line := clean(lines[i])
		for _, known := range signatures {
			if hint := known(line); hint != "" {
				return hint
			}
		}
	}
	return ""
}

// signatures know one complaint each; they return "" for all others.
var signatures = [...]func(line string) string{
	missingLibrary, newerLibrary, missingModule, portTaken, gpuMemory, gpuOrdinal, gpuShared,
	localRankOption, openFiles, processes, sharedMemory, ncclSilent, closedPMI,
}

// has reports whether a line contains one of the texts.
func has(line string, texts ...string) bool {
	for _, text := range texts {
		if strings.Contains(line, text) {
			return true
		}
	}
	return false
}

// between is what stands between two texts, "" if they do not.
func between(line, before, after string) string {
	_, rest, ok := strings.Cut(line, before)
	if !ok {
		return ""
	}
	text, _, ok := strings.Cut(rest, after)
	if !ok {
		return ""
	}
	return text
}

// missingLibrary: the dynamic loader's words, or those of dlopen by way of Python.
func missingLibrary(line string) string {
	before, _, ok := strings.Cut(line, ": cannot open shared object file")
	if !ok {
		return ""
	}
	library := before[strings.LastIndexByte(before, ' ')+1:]
	if library == "" {
		return ""
	}
	return "-x LD_LIBRARY_PATH=DIR, with the directory of " + library + ", lets the ranks find it"
}

// newerLibrary: a program that was linked on a newer system.
func newerLibrary(line string) string {
	version := between(line, "version `", "' not found")
	if !strings.HasPrefix(version, "GLIBC") {
		return ""
	}
	return "the program needs " + version + ", newer than this host's: build it here, or statically (Go: CGO_ENABLED=0)"
}

func missingModule(line string) string {
	module := between(line, "ModuleNotFoundError: No module named '", "'")
	if module == "" {
		return ""
	}
	return "this Python has no module " + module + ": activate the environment that has it, or name its interpreter in GORUN_PYTHON"
}

// portTaken: PyTorch, Python and C say it in their own ways.
func portTaken(line string) string {
	if !has(line, "EADDRINUSE", "Address already in use", "address already in use") {
		return ""
	}
	free := "a program that leaves MASTER_PORT alone gets a free one; one that listens there itself needs --store rank0"
	port := between(line+",", "port: ", ",")
	if port == "" || strings.Trim(port, "0123456789") != "" {
		return free
	}
	return "ss -ltnp 'sport = :" + port + "' shows who has port " + port + "; " + free
}

func gpuMemory(line string) string {
	switch {
	case has(line, "CUDA out of memory", "Cuda failure 2 'out of memory'"):
		return "nvidia-smi --query-compute-apps=pid,used_memory,gpu_bus_id --format=csv shows who holds the GPUs' memory"
	case has(line, "HIP out of memory"):
		return "rocm-smi --showpids shows who holds the GPUs' memory"
	}
	return ""
}

func gpuOrdinal(line string) string {
	if !has(line, "invalid device ordinal") {
		return ""
	}
	return "more ranks than visible GPUs? --nproc-per-node gpu starts one for each"
}

func gpuShared(line string) string {
	if !has(line, "Duplicate GPU detected", "Multiple Ranks are using the same GPU") {
		return ""
	}
	return `every rank has to take its own GPU: torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`
}

// localRankOption: torch.distributed.launch adds an option that newer scripts lack.
func localRankOption(line string) string {
	if !has(line, "unrecognized arguments: --local-rank=", "unrecognized arguments: --local_rank=") {
		return ""
	}
	return "--use-env leaves --local-rank out: the script finds LOCAL_RANK in its environment"
}

func openFiles(line string) string {
	if !has(line, "Too many open files") {
		return ""
	}
	return "ulimit -Sn $(ulimit -Hn) before gorun raises the limit of open files"
}

func processes(line string) string {
	if !has(line, "pthread_create failed", "Thread creation failed", "can't start new thread", "fork: Resource temporarily unavailable", "fork: retry: Resource temporarily unavailable") {
		return ""
	}
	return "ulimit -Su $(ulimit -Hu) before gorun raises the limit of threads; -x OMP_NUM_THREADS=1 needs fewer"
}

// sharedMemory: a full tmpfs, which kills by SIGBUS.
func sharedMemory(line string) string {
	bus := has(line, "DataLoader worker") && has(line, "Bus error")
	full := has(line, "No space left on device") && has(line, "/dev/shm", "/torch_")
	if !bus && !full {
		return ""
	}
	return "df -h /dev/shm shows whether shared memory is full (docker run --shm-size=8g gives a container more)"
}

// ncclSilent: NCCL's wrapper of an error whose reason it prints only when asked.
func ncclSilent(line string) string {
	if !has(line, "ncclSystemError", "ncclUnhandledCudaError", "ncclInternalError") {
		return ""
	}
	return "-x NCCL_DEBUG=WARN has NCCL say what failed"
}

// closedPMI: the descriptor by which a program of MPICH's family reaches its launcher is not open. Python's
// subprocess closes those that its own program inherited.
func closedPMI(line string) string {
	if !has(line, "system msg for write_line failure : Bad file descriptor") {
		return ""
	}
	return "what started the MPI program in its rank has closed PMI_FD, which it inherits: --pmi-port does without it; subprocess.run(..., close_fds=False) leaves it open"
}
