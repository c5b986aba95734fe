package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	enoughMemlock = 1 << 30 // bytes; RDMA locks its send and receive buffers
	enoughFiles   = 1024    // the default of a login; gorun and comm need some for each rank
	enoughProcs   = 1024
	manyFiles     = 4096 // of the hard limit, up to which ranks can raise their own
)

func limitChecks() []Check {
	return []Check{
		{
			"memlock", "limits",
			"RLIMIT_MEMLOCK, where there are InfiniBand or RoCE adapters",
			"RDMA locks the memory it transfers: with 64 KiB, the default of many systems, ibv_create_qp and ibv_reg_mr " +
				"fail.",
			each(memlock),
		},
		{
			"nofile", "limits",
			"RLIMIT_NOFILE, the number of open files",
			"Each rank has sockets to many others, and data loaders pass files: 'Too many open files' appears late in a run.",
			each(nofile),
		},
		{
			"nproc", "limits",
			"RLIMIT_NPROC, the number of processes and threads of this user",
			"Threads count: OpenMP and data loaders fail with 'Resource temporarily unavailable'. It does not apply to root.",
			each(func(h *Host, r report) {
				l, ok := h.Limits["nproc"]
				if ok && l.Soft >= 0 && l.Soft < enoughProcs && h.UID != 0 {
					r.warn(fmt.Sprintf("only %d processes and threads are allowed", l.Soft), "RLIMIT_NPROC",
						raise(h, "nproc", "65536"))
				}
			}),
		},
		{
			"stack", "limits",
			"RLIMIT_STACK that is too small, or unlimited with NCCL before 2.28",
			"With 'ulimit -s unlimited' new threads get 2 MiB of stack, and NCCL before 2.28 crashes in its " +
				"initialization (SIGSEGV).",
			each(stack),
		},
	}
}

// raise returns a command that raises a limit: in the shell if that is allowed, or else permanently.
func raise(h *Host, name, value string) string {
	letter := map[string]string{"memlock": "l", "nofile": "n", "nproc": "u", "stack": "s"}[name]
	if hard := h.Limits[name].Hard; h.Here && letter != "" && allows(hard, name, value) {
		return "ulimit -" + letter + " " + value + " # in the shell that starts gorun"
	}
	contained := value
	switch { // Docker counts bytes
	case value == "unlimited":
		contained = "-1"
	case name == "stack":
		contained = "8388608"
	}
	who := "*"
	if h.UID == 0 { // * excepts root
		who = "root"
	}
	return choose(h, fmt.Sprintf("docker run --ulimit %s=%s ...", name, contained),
		fmt.Sprintf("echo '%s - %s %s' | sudo tee /etc/security/limits.d/90-%s.conf # then log in again; systemd services "+
			"need Limit%s=", who, name, value, name, strings.ToUpper(name)))
}

// allows reports whether any user may raise a limit to a value, which for stacks is in KiB.
func allows(hard int64, name, value string) bool {
	n, err := strconv.ParseInt(value, 10, 64)
	if name == "stack" {
		n <<= 10
	}
	return hard < 0 || err == nil && n <= hard
}

func memlock(h *Host, r report) {
	l, ok := h.Limits["memlock"]
	if ok && l.Soft >= 0 && l.Soft < enoughMemlock && len(realPorts(h)) > 0 {
		r.fail("memlock is "+Size(l.Soft)+", but RDMA must lock memory",
			"RLIMIT_MEMLOCK of the agent, which ranks inherit", raise(h, "memlock", "unlimited"))
	}
}

func nofile(h *Host, r report) {
	l, ok := h.Limits["nofile"]
	switch fix := raise(h, "nofile", "65536"); {
	case !ok || l.Soft < 0:
	case l.Soft < enoughFiles:
		r.warn(fmt.Sprintf("only %d open files are allowed", l.Soft), "RLIMIT_NOFILE, soft", fix)
	case l.Hard >= 0 && l.Hard < manyFiles:
		r.note(fmt.Sprintf("ranks can have %d open files at most", l.Hard), "RLIMIT_NOFILE, hard", fix)
	}
}

func stack(h *Host, r report) {
	const limit = "RLIMIT_STACK"
	l, ok := h.Limits["stack"]
	switch v := h.Python.loadedNCCL(); {
	case !ok:
	case l.Soft >= 0 && l.Soft < 1<<20:
		r.warn("the stack is limited to "+Size(l.Soft), limit, raise(h, "stack", "8192"))
	case l.Soft < 0 && len(h.Machine.GPUs) > 0 && v != "" && before(v, 2, 28):
		r.warn("stacks are unlimited, which crashes NCCL "+v+": new threads get 2 MiB", limit,
			"ulimit -s 8192 # in the shell that starts gorun, and ~/.bashrc")
	}
}
