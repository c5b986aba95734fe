package arch

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// room lists the packages of this module that the packages of one folder may import. Packages below that folder are
// always allowed.
type room struct {
	path string
	may  []string // "env" is that package alone, "env/..." includes all packages below it
	why  string
}

// rooms is the import map; the longest matching path applies. A package without a room fails the test.
var rooms = []room{
	{
		"placement",
		[]string{"internal/spelling"},
		"placement is pure arithmetic over Machine and Layout: a scheduler must be able to use it alone",
	},
	{
		"placement/sysfs",
		[]string{"placement", "placement/gpufacts"},
		"sysfs fills in a placement.Machine and knows nothing else",
	},
	{"placement/sysfs/sysfstest", []string{"placement"}, "the files of a made-up machine follow from the Machine"},
	{
		"placement/hwloc",
		[]string{"placement"},
		"a description for hwloc follows from a Topology and its Details, and from nothing else",
	},
	{
		"placement/gpufacts",
		[]string{"placement"},
		"facts of a library complete a Machine by arithmetic, whichever program asked",
	},
	{
		"placement/draw",
		[]string{"placement", "internal/printable"},
		"a picture follows from a Machine and the places on it, and from nothing else",
	},
	{"placement/nvml", []string{"placement", "placement/gpufacts"}, "nvml asks a library and knows nothing else"},
	{
		"placement/nvml/worker",
		[]string{"placement/gpufacts"},
		"a package that asks for the library in another process must not link the loader",
	},
	{"rendezvous", nil, "the store is a leaf: any program may serve or use it without the launcher"},
	{
		"rendezvous/tcpstore",
		[]string{"rendezvous", "rendezvous/internal/...", "internal/peersocket"},
		"a server of the store knows the store, not its clients",
	},
	{"rendezvous/world", nil, "who begins MPI together is plain data"},
	{
		"rendezvous/exchange",
		[]string{"rendezvous/world"},
		"what nodes say to each other is carried by whoever connects them",
	},
	{"rendezvous/internal/outbox", nil, "what is on its way to a client is bytes, whoever says them"},
	{
		"rendezvous/internal/node",
		[]string{"rendezvous/world", "rendezvous/exchange"},
		"the servers of a node share it, and not each other's protocol",
	},
	{
		"rendezvous/pmi",
		[]string{"rendezvous/world", "rendezvous/exchange", "rendezvous/internal/..."},
		"a server of MPI ranks knows their world, not who started them",
	},
	{
		"rendezvous/pmix",
		[]string{"rendezvous/world", "rendezvous/exchange", "rendezvous/internal/..."},
		"a server of MPI ranks knows their world, not who started them",
	},
	{"env", nil, "env is the contract with a rank: comm and users' programs import it without the launcher"},
	{"env/nccl", []string{"internal/spelling"}, "a database of variables needs nobody"},
	{
		"env/plan",
		[]string{"env", "env/nccl", "placement"},
		"what a rank finds in its environment follows from where it was placed, and from nothing else",
	},
	{"launcher/hosts", nil, "which nodes there are is read from text and variables that the caller passes in"},
	{
		"launcher/hosts/engine",
		[]string{"launcher/hosts", "env"},
		"what a resource manager says is read from variables and files that the caller passes in; nothing is started",
	},
	{
		"launcher/internal/spec",
		[]string{"placement", "env/nccl"},
		"a fact knows no part that speaks of it; what it says of CPUs, GPUs and NCCL is in the words of the leaves",
	},
	{
		"launcher/job",
		[]string{
			"launcher/internal/spec", "placement", "env", "env/nccl", "env/plan", "launcher/hosts", "launcher/hosts/engine",
			"rendezvous/world", "internal/printable", "launcher/doctor/signature",
		},
		"the core decides and never acts: it can be tested, printed and diffed only while it imports no machinery",
	},
	{
		"launcher/internal/munge",
		[]string{"launcher/internal/process/child", "internal/printable"},
		"authentication of users does not depend on jobs",
	},
	{
		"launcher/registry", nil,
		"the registry is files of this user, and what is said over them is plain data; it knows no job",
	},
	{"launcher/record", nil, "what a job did is kept as lines; whoever writes them knows what they say"},
	{"launcher/quarantine", nil, "the list of hosts that failed is a file of this user; it knows no job"},
	{
		"launcher/doctor",
		[]string{"launcher/hosts", "internal/shellwords", "placement", "placement/gpufacts", "env/nccl"},
		"checks judge what was found on hosts: they are plain functions, and look at nothing themselves",
	},
	{
		"launcher/internal/wire",
		[]string{
			"launcher/internal/spec", "placement", "env/nccl", "launcher/internal/probe", "rendezvous/world",
			"rendezvous/exchange",
		},
		"frames are bytes between head and agent: both ends import them, they import neither (only the types of the " +
			"facts that frames carry are others': a fact has one type)",
	},
	{
		"launcher/doctor/signature", nil,
		"what a line means follows from the line: a failure report, gorun explain and any log reader must be able to ask",
	},
	{"launcher/doctor/inspect", []string{
		"launcher/doctor",
		"launcher/internal/process/child", "launcher/internal/process/inherited", "placement", "placement/sysfs",
		"placement/gpufacts", "env",
	}, "facts are read from files and a few system calls for any caller; env names the " +
		"variable that marks processes of a job"},
	{"launcher/internal/process", []string{"env"}, "the only place that knows Linux's process rules must stay usable by " +
		"itself; env names the variables that identify processes of a job"},
	{"launcher/internal/output", []string{"launcher/internal/spec", "internal/printable"}, "lines in, lines out"},
	{
		"launcher/internal/program",
		[]string{
			"launcher/internal/spec", "launcher/internal/process/child", "internal/printable", "internal/spelling",
			"internal/shellwords",
		},
		"the kind of a program's file does not depend on a job",
	},
	{
		"launcher/internal/torchwatch",
		[]string{"internal/peersocket"},
		"whether a process holds libtorch is read from /proc, whoever started it",
	},
	{
		"launcher/internal/diagnosis",
		[]string{"launcher/doctor/signature"},
		"what a failed rank left behind is read, not judged; one database explains known lines",
	},
	{
		"launcher/internal/stacks",
		[]string{"launcher/internal/process/child"},
		"what a process is doing is asked of that process and of the kernel",
	},
	{
		"launcher/internal/ncclhost",
		[]string{"env/nccl", "launcher/doctor", "launcher/doctor/inspect"},
		"what of a host NCCL's settings depend on is read there, by inspect if doctor needs it, too; " +
			"what follows from it is decided by env/plan",
	},
	{
		"launcher/internal/nccllog",
		[]string{"launcher/internal/spec", "internal/printable"},
		"what NCCL says is read from lines, whoever printed them",
	},
	{"launcher/internal/httpserver", nil, "who is asked for what is not the server's to know"},
	{
		"launcher/internal/ras",
		[]string{"internal/printable"},
		"NCCL's own port is asked as any client would; whose ranks answer is the caller's to know",
	},
	{
		"launcher/internal/probe",
		[]string{"internal/shellwords", "launcher/doctor", "launcher/hosts"},
		"addresses in, addresses and problems out",
	},
	{
		"launcher/internal/reach",
		[]string{"launcher/internal/wire"},
		"a stream reaches an agent; what is said on it is not its business",
	},
	{
		"launcher/internal/reach/remote",
		[]string{"launcher/internal/process/child", "internal/printable"},
		"a command on another host is bytes in and bytes out, whoever carries them",
	},
	{
		"launcher/internal/reach/remote/remotetest",
		[]string{"launcher/internal/reach/remote", "internal/testneeds"},
		"the suite tests every way to a host by what they have in common",
	},
	{
		"launcher/internal/reach/ssh",
		[]string{
			"launcher/internal/process/child", "launcher/internal/reach/remote", "internal/printable",
			"internal/shellwords",
		},
		"logging in knows nothing of what is run there",
	},
	{
		"launcher/internal/reach/command",
		[]string{"launcher/internal/process/child", "launcher/internal/reach/remote", "internal/printable"},
		"a program that replaces ssh does not depend on what it runs",
	},
	{"launcher/internal/reach/bootstrap", []string{
		"launcher/internal/reach/remote", "internal/printable",
		"internal/version",
	}, "bringing a program to a host needs a way to run commands there, and nothing else"},
	{"launcher/internal/reach/join", []string{
		"launcher/internal/reach/remote", "launcher/internal/probe", "internal/peersocket",
		"internal/printable", "internal/version",
	}, "a port identifies a peer before it sends anything"},
	{
		"launcher/internal/reach/gather",
		[]string{
			"launcher/internal/process/child", "launcher/internal/reach/join", "launcher/internal/reach/remote",
			"launcher/hosts", "launcher/hosts/engine", "internal/printable", "internal/version",
		},
		"how an engine starts agents is a row of its table; here they are started and identified",
	},
	{
		"launcher/internal/forkserver",
		[]string{"launcher/internal/spec", "launcher/internal/process", "launcher/internal/process/child"},
		"how Python runs a program is known here, and nowhere in package process",
	},
	{"launcher/internal/agent", []string{
		"launcher/internal/forkserver", "launcher/internal/spec", "launcher/internal/wire", "launcher/internal/process",
		"launcher/internal/process/cgroup",
		"launcher/internal/process/child", "launcher/internal/process/inherited", "launcher/internal/output",
		"launcher/internal/program", "launcher/internal/torchwatch", "launcher/internal/diagnosis",
		"launcher/internal/stacks", "launcher/internal/probe", "launcher/internal/ncclhost", "launcher/internal/ras",
		"launcher/internal/httpserver",
		"placement", "placement/sysfs", "placement/hwloc", "placement/gpufacts", "placement/nvml/worker", "rendezvous/...",
		"launcher/doctor", "launcher/doctor/inspect", "internal/peersocket", "launcher/internal/reach", "env",
		"internal/printable",
	}, "an agent measures, opens, spawns, pumps and reports; it decides nothing about the job (env has the names of the " +
		"variables whose values are files that it makes)"},
	{"launcher/internal/agentprogram", []string{
		"launcher/internal/agent", "launcher/internal/process", "placement/nvml/worker", "internal/version",
	}, "what is copied to hosts is an agent and nothing else"},
	{"launcher", []string{
		"launcher/...", "rendezvous/...", "placement/...", "env/...", "internal/version",
		"internal/printable", "internal/shellwords",
	}, "the public face wires the parts below it"},
	{
		"comm",
		[]string{"env", "rendezvous/tcpstore", "internal/peersocket"},
		"a Go program started by torchrun or srun uses comm too: it must never need the launcher",
	},
	{"comm/internal/backend", nil, "what the front and its back ends agree on is words, not machinery"},
	{
		"comm/internal/nccl",
		[]string{"comm/internal/backend"},
		"a back end runs calls; how ranks find each other is passed to it as a function",
	},
	{"comm/internal/nccl/fake", []string{"internal/testneeds"}, "stand-ins for libraries are built for tests alone"},
	{"comm/internal/cpu", []string{"comm/internal/backend"}, "a back end runs calls; who makes them is not its business"},
	{"comm/commtest", []string{"comm", "internal/testneeds"}, "the suite tests every back end by what users call"},
	{
		"comm/bench",
		[]string{"comm/...", "env", "placement"},
		"measurements use comm as a user would; paths between GPUs are named by placement",
	},
	{"cmd/gorun", []string{
		"launcher", "launcher/job", "launcher/hosts", "launcher/doctor/...", "launcher/registry", "launcher/quarantine",
		"launcher/record", "comm/bench", "placement/...", "rendezvous/tcpstore", "env/...", "internal/version",
		"internal/printable", "internal/shellwords",
	}, "words in, words out: the command has no policy and no machinery"},
	{"cmd/gorun/internal/dialect", []string{
		"launcher/job", "launcher/hosts", "launcher/hosts/engine", "placement",
		"internal/printable", "internal/shellwords", "internal/spelling", "internal/version",
	}, "a dialect turns argv into a spec and does nothing else"},
	{
		"examples",
		[]string{"env", "rendezvous", "rendezvous/tcpstore", "launcher", "comm"},
		"an example uses what every user may use",
	},
	{
		"docs",
		[]string{"cmd/...", "launcher/...", "env/...", "rendezvous/...", "placement/..."},
		"pages are generated from the code's own tables",
	},
	{"internal/version", nil, "a version is a string"},
	{"internal/peersocket", nil, "whose a socket is, the kernel says; what follows from that is the caller's to decide"},
	{"internal/shellwords", nil, "how a shell reads a word is a question about bytes"},
	{"internal/printable", nil, "what may be printed is a question about bytes"},
	{"internal/spelling", nil, "how far two words are apart is a question about letters"},
	{
		"internal/bench",
		[]string{"internal/...", "comm", "rendezvous/tcpstore"},
		"gorun is measured from outside, comm in the Go program that makes its calls",
	},
	{
		"internal/faults",
		[]string{"internal/..."},
		"faults are done to gorun from outside, and to its peers in the same way",
	},
	{"internal", []string{"internal/..."}, "what tests and measurements need uses gorun from outside, as a user would"},
}

// exception allows one import that the map forbids.
type exception struct{ from, to, why string }

// exceptions lists imports that violate the map. Each is a debt with its reason.
var exceptions = []exception{}

// roomOf returns the row for a package folder.
func roomOf(folder string) (room, bool) {
	var best room
	for _, candidate := range rooms {
		if within(folder, candidate.path) && len(candidate.path) > len(best.path) {
			best = candidate
		}
	}
	return best, best.path != ""
}

// allows reports whether the room's packages may import the folder to.
func (r room) allows(to string) bool {
	if within(to, r.path) {
		return true
	}
	for _, may := range r.may {
		if to == may || strings.HasSuffix(may, "/...") && within(to, strings.TrimSuffix(may, "/...")) {
			return true
		}
	}
	return false
}

// wrongArrows checks the imports of all non-test sources against the map.
func wrongArrows(all []source) []string {
	var problems []string
	for _, s := range all {
		if s.test {
			continue
		}
		here, ok := roomOf(s.room)
		if !ok {
			problems = append(problems,
				fmt.Sprintf("%s: the folder %s is not on the map of rooms in internal/arch: add a row with a reason", s.file,
					s.room))
			continue
		}
		for _, imported := range s.imports() {
			to, ours := strings.CutPrefix(imported, module)
			if ours && !here.allows(to) && !excused(s.room, to) {
				problems = append(problems, fmt.Sprintf("%s imports %s: %s", s.file, to, here.why))
			}
		}
	}
	return problems
}

// excused reports whether the import is a listed exception.
func excused(from, to string) bool {
	for _, e := range exceptions {
		if e.from == from && e.to == to {
			return true
		}
	}
	return false
}

func TestArrows(t *testing.T) {
	for _, problem := range wrongArrows(sources(t)) {
		t.Error(problem)
	}
}

// An unused exception would allow a forbidden import unnoticed.
func TestExceptionsAreNeeded(t *testing.T) {
	used := map[exception]bool{}
	for _, s := range sources(t) {
		for _, imported := range s.imports() {
			for _, e := range exceptions {
				if !s.test && s.room == e.from && imported == module+e.to {
					used[e] = true
				}
			}
		}
	}
	for _, e := range exceptions {
		require.NotEmpty(t, e.why)
		require.True(t, used[e], "%s no longer imports %s: remove the exception", e.from, e.to)
	}
}

func TestArrowsCatch(t *testing.T) {
	for name, row := range map[string]struct{ file, imported, problem string }{
		"leaf imports ours":           {"placement/map.go", "gorun/env", "a scheduler"},
		"core imports machinery":      {"launcher/job/job.go", "gorun/launcher/internal/wire", "never acts"},
		"comm imports the launcher":   {"comm/group.go", "gorun/launcher", "never need the launcher"},
		"rooms of the launcher":       {"launcher/internal/ras/a.go", "gorun/launcher/internal/wire", "NCCL's own"},
		"code imports test machinery": {"launcher/run.go", "gorun/internal/testneeds", "wires"},
		"a folder without a row":      {"attic/a.go", "fmt", "not on the map"},
		"a command imports a room":    {"cmd/gorun/main.go", "gorun/launcher/internal/agent", "words in"},
	} {
		t.Run(name, func(t *testing.T) {
			problems := wrongArrows(sample(t, row.file, "package p\nimport _ \""+row.imported+"\"\n"))
			require.Len(t, problems, 1)
			require.Contains(t, problems[0], row.problem)
		})
	}
	require.Empty(t, wrongArrows(sample(t, "launcher/job/plan.go", `package job; import _ "gorun/env/plan"`)))
	require.Empty(t, wrongArrows(sample(t, "env/a_test.go", `package env; import _ "gorun/internal/testneeds"`)))
}

// TestLinkedPackages keeps expensive packages out of the program, even as indirect imports.
func TestLinkedPackages(t *testing.T) {
	forbidden := map[string]string{
		"net/http": "it adds 0.3 ms to every start",
		"testing":  "a test's package in the program registers flags and weighs on its start",
	}
	list := exec.Command("go", "list", "-deps", "-tags", "urfave_cli_no_docs", "./cmd/gorun")
	list.Dir = testneeds.Repository(t)
	listed, err := list.CombinedOutput()
	require.NoError(t, err, "%s", listed)
	packages := strings.Fields(string(listed))
	require.Contains(t, packages, module+"cmd/gorun")
	for _, linked := range packages {
		if why, bad := forbidden[linked]; bad {
			t.Errorf("cmd/gorun links %s: %s (go mod why %s)", linked, why, linked)
		}
	}
}

// A program that uses the launcher as a library must neither load a driver's library nor need cgo's linker flags
// for it.
func TestLauncherLinksNoVendorLibrary(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "./launcher", "./placement/nvml/worker")
	list.Dir, list.Env = testneeds.Repository(t), append(os.Environ(), "CGO_ENABLED=1")
	listed, err := list.CombinedOutput()
	require.NoError(t, err, "%s", listed)
	require.Contains(t, string(listed), module+"placement/nvml/worker\n")
	require.NotContains(t, string(listed), "NVIDIA/go-nvml")
}

// namesThatSayNothing are package names that fit any content.
var namesThatSayNothing = []string{
	"util", "utils", "common", "manager", "managers", "helper", "helpers", "misc",
	"shared", "base",
}

func TestPackageNamesSayWhatTheyHold(t *testing.T) {
	for _, s := range sources(t) {
		for _, bad := range namesThatSayNothing {
			if s.tree.Name.Name == bad || path.Base(s.room) == bad {
				t.Errorf("%s: a package named %s says nothing about what it holds: name it for its noun", s.file, bad)
			}
		}
	}
}
