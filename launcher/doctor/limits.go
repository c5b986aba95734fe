package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	enoughMemlock = 1 << 30 // bytes: RDMA locks what it sends and receives
	enoughFiles   = 1024    // what a login gets; gorun and comm need some for each rank
	enoughProcs   = 1024
	manyFiles     = 4096 // that ranks can have for the asking
)

func limitChecks() []Check {
	return []Check{
		{
			ID: "memlock", Group: "limits",
			What: "RLIMIT_MEMLOCK, where there are InfiniBand or RoCE adapters",
			Why: "RDMA locks the memory it transfers: with 64 KiB, the default of many systems, ibv_create_qp and ibv_reg_mr " +
				"fail.",
			Run: each(memlock),
		},
		{
			ID: "nofile", Group: "limits",
			What: "RLIMIT_NOFILE, the number of open files",
			Why:  "Each rank has sockets to many others, and data loaders pass files: 'Too many open files' comes late in a run.",
			Run:  each(nofile),
		},
		{
			ID: "nproc", Group: "limits",
			What: "RLIMIT_NPROC, the number of processes and threads of this user",
			Why: "Threads count: OpenMP and data loaders fail with 'Resource temporarily unavailable'. It does not hold for " +
				"root.",
			Run: each(func(h *Host) []Finding {
				l, ok := h.Limits["nproc"]
				if !ok || l.Soft < 0 || l.Soft >= enoughProcs || h.UID == 0 {
					return nil
				}
				return []Finding{{
					Severity: Warning, Text: fmt.Sprintf("only %d processes and threads are allowed", l.Soft),
					Evidence: "RLIMIT_NPROC", Fix: raise(h, "nproc", "65536"),
				}}
			}),
		},
		{
			ID: "stack", Group: "limits",
			What: "RLIMIT_STACK that is too small, or unlimited with NCCL before 2.28",
			Why: "With 'ulimit -s unlimited' new threads get 2 MiB of stack, and NCCL before 2.28 crashes in its " +
				"initialisation (SIGSEGV).",
			Run: each(stack),
		},
	}
}

// raise is a command that raises a limit: for a shell where that may, else for good.
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
	return choose(h, fmt.Sprintf("docker run --ulimit %s=%s ...", name, contained),
		fmt.Sprintf("echo '* - %s %s' | sudo tee /etc/security/limits.d/90-%s.conf # then log in again; systemd services "+
			"need Limit%s=", name, value, name, strings.ToUpper(name)))
}

// allows reports whether a hard limit lets everybody have a value, which for stacks counts KiB.
func allows(hard int64, name, value string) bool {
	n, err := strconv.ParseInt(value, 10, 64)
	if name == "stack" {
		n <<= 10
	}
	return hard < 0 || err == nil && n <= hard
}

func memlock(h *Host) []Finding {
	l, ok := h.Limits["memlock"]
	if !ok || l.Soft < 0 || l.Soft >= enoughMemlock || len(realPorts(h)) == 0 {
		return nil
	}
	return []Finding{{
		Severity: Error, Text: fmt.Sprintf("memlock is %s, and RDMA has to lock memory", bytes(l.Soft)),
		Evidence: "RLIMIT_MEMLOCK of the agent, which ranks inherit",
		Fix:      raise(h, "memlock", "unlimited"),
	}}
}

func nofile(h *Host) []Finding {
	l, ok := h.Limits["nofile"]
	switch {
	case !ok || l.Soft < 0:
		return nil
	case l.Soft < enoughFiles:
		return []Finding{{
			Severity: Warning, Text: fmt.Sprintf("only %d open files are allowed", l.Soft),
			Evidence: "RLIMIT_NOFILE, soft", Fix: raise(h, "nofile", "65536"),
		}}
	case l.Hard >= 0 && l.Hard < manyFiles:
		return []Finding{{
			Severity: Note, Text: fmt.Sprintf("ranks can have %d open files at most", l.Hard),
			Evidence: "RLIMIT_NOFILE, hard", Fix: raise(h, "nofile", "65536"),
		}}
	}
	return nil
}

func stack(h *Host) []Finding {
	l, ok := h.Limits["stack"]
	if !ok {
		return nil
	}
	if l.Soft >= 0 && l.Soft < 1<<20 {
		return []Finding{{
			Severity: Warning, Text: "a stack may have " + bytes(l.Soft) + " only", Evidence: "RLIMIT_STACK",
			Fix: raise(h, "stack", "8192"),
		}}
	}
	if l.Soft >= 0 || len(h.Machine.GPUs) == 0 {
		return nil
	}
	if v := ncclVersion(h); v != "" && before(v, 2, 28) {
		return []Finding{{
			Severity: Warning, Text: "stacks are unlimited, with which NCCL " + v + " crashes: new threads get 2 MiB",
			Evidence: "RLIMIT_STACK", Fix: "ulimit -s 8192 # in the shell that starts gorun, and ~/.bashrc",
		}}
	}
	return nil
}
