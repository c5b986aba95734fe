package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/launcher/hosts"
)

// world has some variables, of a file that a real Slurm wrote and of changes to it; an
// empty one takes a variable away.
func world(t testing.TB, file string, changes ...string) World {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", file+".env"))
	require.NoError(t, err)
	return worldWith(append(strings.Split(strings.TrimSpace(string(content)), "\n"), changes...)...)
}

func worldWith(entries ...string) World {
	variables := map[string]string{}
	for _, e := range entries {
		name, value, _ := strings.Cut(e, "=")
		variables[name] = value
	}
	return World{
		Lookup:     func(name string) (string, bool) { v, found := variables[name]; return v, found },
		ReadFile:   os.ReadFile,
		IsThisHost: func(name string) bool { return name == "here" },
		LookPath: func(name string) (string, error) {
			if _, found := variables["NO_"+name]; found {
				return "", errors.New("not there")
			}
			return "/usr/bin/" + name, nil
		},
	}
}

// slots writes hosts as -H has them.
func slots(all []hosts.Host) string {
	var words []string
	for _, h := range all {
		word := h.Name
		if h.Slots > 0 {
			word += ":" + string(rune('0'+h.Slots))
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

const version = "slurm-22.05/"

// Slurm's default InteractiveStepOptions have --preserve-env: the numbers are the job's.
func TestSlurmInteractiveStepWithTheJobsNumbers(t *testing.T) {
	found, err := Find(world(t, version+"interactive-n5-0", "SLURM_TASKS_PER_NODE=3,2", "SLURM_NTASKS=5",
		"SLURM_NPROCS=5"), "")
	require.NoError(t, err)
	require.Equal(t, "n1:3 n2:2", slots(found.Hosts))
}

// What a real Slurm sets in salloc, in batch scripts and in the interactive step.
func TestSlurmAllocations(t *testing.T) {
	for name, want := range map[string]struct {
		job, hosts string
		start      string // the words of srun that differ
	}{
		"salloc-n3x2":          {"Slurm job 12", "n1:2 n2:2 n3:2", "--nodes=3 --ntasks=3 --nodelist=n[1-3]"},
		"salloc-no-tasks":      {"Slurm job 13", "n1 n2", "--nodes=2 --ntasks=2 --nodelist=n[1-2]"},
		"salloc-exclusive":     {"Slurm job 14", "n1 n2", "--nodes=2 --ntasks=2 --nodelist=n[1-2]"},
		"salloc-uneven":        {"Slurm job 15", "n1:3 n2:1 n3:1", "--nodes=3 --ntasks=3 --nodelist=n[1-3]"},
		"salloc-cpus-per-task": {"Slurm job 16", "n1:1 n2:1", "--nodes=2 --ntasks=2 --nodelist=n[1-2]"},
		"salloc-exclusive-c2":  {"Slurm job 17", "n1:2 n2:2", "--nodes=2 --ntasks=2 --nodelist=n[1-2]"},
		"salloc-exclusive-n3":  {"Slurm job 53", "n1:2 n2:1", "--nodes=2 --ntasks=2 --nodelist=n[1-2]"},
		"salloc-gpus-per-node": {"Slurm job 18", "n1 n2", "--nodes=2 --ntasks=2 --nodelist=n[1-2]"},
		"salloc-gpus-per-task": {"Slurm job 19", "n1:2 n2:2", "--nodes=2 --ntasks=2 --nodelist=n[1-2] --gres=gpu:2"},
		"salloc-gres":          {"Slurm job 20", "n1 n2", "--nodes=2 --ntasks=2 --nodelist=n[1-2]"},
		"salloc-gpus":          {"Slurm job 21", "n1 n2", "--nodes=2 --ntasks=2 --nodelist=n[1-2]"},
		"salloc-het":           {"Slurm job 22", "n1:4 n2:1", "--het-group=0,1"},
		"sbatch-n3n5":          {"Slurm job 24", "n1:3 n2:1 n3:1", "--nodes=3 --ntasks=3 --nodelist=n[1-3]"},
		"sbatch-gpus":          {"Slurm job 25", "n1 n2", "--nodes=2 --ntasks=2 --nodelist=n[1-2]"},
		"sbatch-array":         {"Slurm job 26_3", "n1 n2", "--nodes=2 --ntasks=2 --nodelist=n[1-2]"},
		"sbatch-het":           {"Slurm job 50", "n1:2 n2:1 n3:2", "--het-group=0,1"},
		"sbatch-from-step":     {"Slurm job 57", "n1", "--nodes=1 --ntasks=1 --nodelist=n1"},
		"salloc-from-step":     {"Slurm job 59", "n1 n2 n3", "--nodes=3 --ntasks=3 --nodelist=n[1-3]"},
		"interactive-0":        {"Slurm job 36", "n1 n2", "--nodes=2 --ntasks=2 --nodelist=n[1-2]"},
		"interactive-n5-0":     {"Slurm job 52", "n1 n2", "--nodes=2 --ntasks=2 --nodelist=n[1-2]"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Find(world(t, version+name), "")
			require.NoError(t, err)
			require.Equal(t, "slurm", f.Engine)
			require.Equal(t, want.job, f.Job)
			require.Nil(t, f.Task)
			require.Equal(t, want.hosts, slots(f.Hosts), f.Why)
			require.Contains(t, f.From, "SLURM_JOB_NODELIST")
			require.Contains(t, f.Why, "SLURM_JOB_ID="+f.JobID)
			start := f.Start(f.Hosts)
			require.Equal(t, want.start, strings.Join(start.Once[len(srunWords):], " "))
			require.Equal(t, want.job, start.Job)
			require.Equal(t, strings.Contains(want.start, "het"), start.ByFile, "srun's input reaches one component")
		})
	}
}

// A task of an array is requeued alone. The time that a job has left is that of this run.
func TestSlurmScheduler(t *testing.T) {
	found, err := Find(world(t, version+"sbatch-array"), "")
	require.NoError(t, err)
	require.Equal(t, []string{"scontrol", "requeue", "26_3"}, found.Scheduler.Requeue)
	require.Equal(t, []string{"scontrol", "show", "job", "--oneliner", "26_3"}, found.Scheduler.Limits[0])

	now := time.Date(2026, 11, 28, 22, 0, 0, 0, time.UTC)
	for state, want := range map[string]time.Duration{"RUNNING": 88 * time.Second, "PENDING": 28 * time.Second} {
		left, ok := TimeLeft("JobId=26 JobState="+state+" EndTime=2026-11-28T22:01:00 KillWait = 30 sec", now)
		require.True(t, ok)
		require.Equal(t, want, left, state)
	}
	for _, end := range []string{"Unknown", "2027-11-28T22:00:00"} {
		_, ok := TimeLeft("JobState=RUNNING EndTime="+end+" KillWait = 30 sec", now)
		require.False(t, ok)
	}
}

func TestMungeSocketOfSlurm(t *testing.T) {
	for text, want := range map[string]string{
		"AuthType=auth/munge\nAuthInfo=ttl=60,socket=/run/m/sock # here\n": "/run/m/sock",
		"authinfo = socket=/a\n": "/a",
		"#AuthInfo=socket=/b\n":  "",
		"":                       "",
	} {
		file := filepath.Join(t.TempDir(), "slurm.conf")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		f, err := Find(world(t, version+"step-n2-1", "SLURM_CONF="+file), "")
		require.NoError(t, err)
		require.Equal(t, want, f.Task.MungeSocket, text)
	}
}

// What a real Slurm sets in the tasks of a step.
func TestSlurmSteps(t *testing.T) {
	for name, want := range map[string]Task{
		"step-n2-1": {
			Rank: 1, NumTasks: 2, LocalTasks: 1, Node: 1, NumNodes: 2, NodeID: "n2", Addr: "n1", Step: "27.0", Signals: true,
			Munge: true,
		},
		"step-one-0": {
			NumTasks: 1, LocalTasks: 1, NumNodes: 1, NodeID: "n1", Addr: "n1", Step: "28.0", Signals: true, Munge: true,
		},
		"step-n2x2-3": {
			Rank: 3, NumTasks: 4, LocalRank: 1, LocalTasks: 2, Node: 1, NumNodes: 2, NodeID: "n2", Addr: "n1", Step: "29.0",
			Signals: true, Munge: true,
		},
		"step-uneven-4": {
			Rank: 4, NumTasks: 5, LocalTasks: 1, Node: 2, NumNodes: 3, NodeID: "n3", Addr: "n1", Step: "30.0", Signals: true,
			Munge: true,
		},
		"step-het-3": {
			Rank: 3, NumTasks: 4, LocalTasks: 1, Node: 1, NumNodes: 2, NodeID: "n4", Addr: "n3", Step: "32.0", Signals: true,
			Munge: true,
		},
		"step-array-1": {
			Rank: 1, NumTasks: 2, LocalTasks: 1, Node: 1, NumNodes: 2, NodeID: "n2", Addr: "n1", Step: "35.0", Signals: true,
			Munge: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Find(world(t, version+name), "slurm")
			require.NoError(t, err)
			require.Equal(t, &want, f.Task)
			require.Len(t, f.Hosts, want.NumNodes)
			require.Nil(t, f.Start(f.Hosts).Once, "all nodes have one already")
		})
	}
}

// srun numbers the nodes of a step that spans components in their order, while lists of
// nodes and of their tasks are sorted by name: so measured with Slurm 22.05.
func TestSlurmStepOfComponents(t *testing.T) {
	in := func(changes ...string) (*Found, error) {
		return Find(world(t, version+"step-het-3", append([]string{
			"SLURM_JOB_NODELIST_HET_GROUP_0=n4", "SLURM_JOB_NODELIST_HET_GROUP_1=n[1-2,5]", "SLURM_STEP_NODELIST=n[1-2,4]",
			"SLURM_NODEID=1",
			"SLURMD_NODENAME=n1", "SLURM_STEP_TASKS_PER_NODE=3,2,1", "SLURM_TASKS_PER_NODE=3,2,1", "SLURM_STEP_NUM_NODES=3",
			"SLURM_NNODES=3",
			"SLURM_STEP_NUM_TASKS=6", "SLURM_NTASKS=6", "SLURM_NPROCS=6", "SLURM_PROCID=3", "SLURM_LOCALID=2",
		}, changes...)...), "")
	}
	f, err := in()
	require.NoError(t, err)
	require.Equal(t, "n4:1 n1:3 n2:2", slots(f.Hosts))
	require.Equal(t, 3, f.Task.LocalTasks)
	require.Equal(t, "n4", f.Task.Addr)

	_, err = in("SLURMD_NODENAME=n2")
	require.EqualError(t, err, "SLURM_NODEID=1 is n2, and by its heterogeneous job's components n1: start gorun "+
		"in the allocation without srun to use the nodes of all components; --engine none does without Slurm")
	_, err = in("SLURM_JOB_NODELIST_HET_GROUP_0=n3")
	require.ErrorContains(t, err, "SLURM_STEP_NODELIST=n[1-2,4]: these are not nodes that "+
		"SLURM_JOB_NODELIST_HET_GROUP_0 and the others name, each once: start gorun in the allocation without srun")
}

// Nodes of clouds have addresses that their names do not lead to.
func TestSlurmNodeAliases(t *testing.T) {
	for aliases, want := range map[string]string{
		"n1:10.0.0.7:ec1,n2:10.0.0.8:ec2": "10.0.0.7",
		"n2:10.0.0.8:ec2,n1:[fd00::1]:h":  "fd00::1", "(null)": "n1",
	} {
		f, err := Find(world(t, version+"step-n2-1", "SLURM_NODE_ALIASES="+aliases), "")
		require.NoError(t, err)
		require.Equal(t, want, f.Task.Addr)
	}
}

// A file deals tasks to nodes in any order: task 0 is where its first line says.
func TestSlurmArbitraryDistribution(t *testing.T) {
	for content, want := range map[string]string{
		"n3\nn1\nn3\n": "n3", "# first\n n2*2,n1\n": "n2", "n9\n": "", "": "",
		"n[\n": "",
	} {
		w := world(t, version+"step-uneven-4", "SLURM_DISTRIBUTION=arbitrary", "SLURM_HOSTFILE=f")
		w.ReadFile = func(string) ([]byte, error) { return []byte(content), nil }
		f, err := Find(w, "")
		require.NoError(t, err)
		require.Equal(t, want, f.Task.Addr, content)
	}
	f, err := Find(world(t, version+"step-uneven-4", "SLURM_DISTRIBUTION=arbitrary"), "")
	require.NoError(t, err)
	require.Empty(t, f.Task.Addr)
}

// Some of the nodes: what the step may ask for changes with them.
func TestSlurmStartsOnSomeNodes(t *testing.T) {
	for _, c := range []struct {
		file    string
		changes []string
		wanted  []int
		words   string
	}{
		{"salloc-n3x2", nil, []int{2, 0}, "--nodes=2 --ntasks=2 --nodelist=n[1,3]"},
		{
			"salloc-uneven",
			[]string{"SLURM_GPUS_PER_TASK=a100:2"},
			[]int{0},
			"--nodes=1 --ntasks=1 --nodelist=n1 --gres=gpu:a100:6",
		},
		{
			"salloc-uneven",
			[]string{"SLURM_GPUS_PER_TASK=1"},
			[]int{0, 1},
			"--nodes=2 --ntasks=2 --nodelist=n[1-2] --gres=gpu:1",
		},
		{
			"salloc-uneven",
			[]string{"SLURM_TRES_PER_TASK=cpu=1,gres/gpu:h100=1"},
			[]int{0},
			"--nodes=1 --ntasks=1 --nodelist=n1 --gres=gpu:h100:3",
		},
		{
			"salloc-uneven",
			[]string{"SLURM_TRES_PER_TASK=cpu:1,gres/gpu:2"},
			[]int{1},
			"--nodes=1 --ntasks=1 --nodelist=n2 --gres=gpu:2",
		},
		{"salloc-gpus", nil, []int{1}, "--nodes=1 --ntasks=1 --nodelist=n2 --gres=gpu:1"},
		{"salloc-gpus", []string{"SLURM_GPUS_ON_NODE=2"}, []int{1}, "--nodes=1 --ntasks=1 --nodelist=n2 --gres=gpu:2"},
		{"salloc-gpus", []string{"SLURM_GPUS_PER_NODE=2"}, []int{1}, "--nodes=1 --ntasks=1 --nodelist=n2"},
		{"sbatch-het", nil, []int{1}, "--het-group=0 --nodes=1 --ntasks=1 --nodelist=n2"},
		{"sbatch-het", nil, []int{2}, "--het-group=1 --nodes=1 --ntasks=1 --nodelist=n3"},
		{"sbatch-het", nil, []int{1, 2}, ""}, // srun takes several components as a whole only
	} {
		f, err := Find(world(t, version+c.file, c.changes...), "")
		require.NoError(t, err)
		var wanted []hosts.Host
		for _, i := range c.wanted {
			wanted = append(wanted, f.Hosts[i])
		}
		once := f.Start(wanted).Once
		require.Equal(t, c.words, strings.Join(once[min(len(srunWords), len(once)):], " "), c.file)
	}
}

// Where numbers of GPUs are not known the user learns of it.
func TestSlurmNotesGPUs(t *testing.T) {
	for file, want := range map[string]int{
		"salloc-gpus": 1, "salloc-gpus-per-task": 0, "salloc-gpus-per-node": 0,
		"sbatch-gpus": 0, "salloc-n3x2": 0,
	} {
		f, err := Find(world(t, version+file), "")
		require.NoError(t, err)
		require.Len(t, f.Notes, want, file)
	}
	f, err := Find(world(t, version+"salloc-uneven", "SLURM_GPUS_PER_TASK=1"), "")
	require.NoError(t, err)
	require.Len(t, f.Notes, 1)
}

// A node that is in two components has the tasks of both.
func TestSlurmNodeInTwoComponents(t *testing.T) {
	f, err := Find(world(t, version+"sbatch-het", "SLURM_JOB_NODELIST_HET_GROUP_1=n2"), "")
	require.NoError(t, err)
	require.Equal(t, "n1:2 n2:3", slots(f.Hosts))
}

// Without srun a job on this host alone runs, and others need SSH.
func TestNoSrun(t *testing.T) {
	f, err := Find(world(t, version+"sbatch-from-step", "NO_srun=1"), "")
	require.NoError(t, err)
	require.True(t, f.Hosts[0].Here, "SLURMD_NODENAME says so")
	require.Nil(t, f.Start(f.Hosts).Once)
	require.Contains(t, f.Notes[0], "srun is not in PATH; the job has only this node")

	f, err = Find(world(t, version+"salloc-n3x2", "NO_srun=1"), "")
	require.NoError(t, err)
	require.Nil(t, f.Start(f.Hosts).Once)
	require.Contains(t, f.Notes[0], "srun is not in PATH, so gorun reaches the job's nodes over SSH")
}

// What cannot be understood is named, with a way to do without.
func TestSlurmBrokenValues(t *testing.T) {
	for _, c := range []struct{ file, change, want string }{
		{"salloc-n3x2", "SLURM_JOB_ID=x", "SLURM_JOB_ID=x: not the number of a job"},
		{"salloc-n3x2", "SLURM_JOB_NODELIST=n[1-", `SLURM_JOB_NODELIST=n[1-: "n[1-": missing ]`},
		{
			"salloc-n3x2", "SLURM_TASKS_PER_NODE=2(x9",
			`SLURM_TASKS_PER_NODE=2(x9: "2(x9" is not a number with a repeat count, as in 2(x3)`,
		},
		{
			"salloc-n3x2", "SLURM_TASKS_PER_NODE=2(x2)",
			"SLURM_TASKS_PER_NODE=2(x2): these are numbers of 2 nodes, and the list of nodes has 3",
		},
		{"salloc-n3x2", "SLURM_NTASKS=-1", `SLURM_NTASKS=-1: "-1" is not a number from 0 to 1048576`},
		{
			"salloc-cpus-per-task", "SLURM_JOB_CPUS_PER_NODE=a",
			`SLURM_JOB_CPUS_PER_NODE=a: "a" is neither a number nor one with a repeat count, as in 2(x3)`,
		},
		{"step-n2-1", "SLURM_NODEID=2", "SLURM_NODEID=2: there are 2 nodes in the step, numbered from 0"},
		{"step-n2-1", "SLURM_PROCID=", "SLURM_PROCID is not set, and SLURM_STEP_ID is"},
		{"step-n2-1", "SLURM_LOCALID=1", "SLURM_LOCALID=1: there are 1 tasks of the step on this node, numbered from 0"},
		{"step-n2-1", "SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_TASKS_PER_NODE=1(x2) contradicts SLURM_STEP_NUM_TASKS=3"},
	} {
		_, err := Find(world(t, version+c.file, c.change), "")
		require.EqualError(t, err, c.want+"; --engine none does without Slurm", c.change)
	}
	_, err := Find(worldWith("SLURM_JOB_ID=1"), "")
	require.EqualError(t, err, "SLURM_JOB_NODELIST is not set, and SLURM_JOB_ID is; --engine none does without Slurm")
}

func TestFind(t *testing.T) {
	in := world(t, version+"salloc-n3x2")
	found, err := Find(in, None)
	require.NoError(t, err)
	require.Nil(t, found)
	found, err = Find(worldWith(), "")
	require.NoError(t, err)
	require.Nil(t, found)
	_, err = Find(worldWith("SLURM_JOB_ID="), "slurm")
	require.EqualError(t, err, "this process is not in a job of Slurm: SLURM_JOB_ID is not set")
	_, err = Find(in, "magic")
	require.ErrorContains(t, err, `unknown engine "magic": use one of `)

	id, _ := in.Lookup("SLURM_JOB_ID")
	rank := world(t, version+"salloc-n3x2", "GORUN_JOB=1", "GORUN_JOB_ENGINE=slurm:"+id)
	found, err = Find(rank, "")
	require.NoError(t, err)
	require.Nil(t, found, "the hosts are the outer job's")
	_, err = Find(rank, "slurm")
	require.ErrorContains(t, err, "this is a rank of another gorun (GORUN_JOB is set)")
	for _, engine := range []string{"GORUN_JOB_ENGINE=", "GORUN_JOB_ENGINE=slurm:1"} { // the rank submitted a batch job
		found, err = Find(world(t, version+"salloc-n3x2", "GORUN_JOB=1", engine), "")
		require.NoError(t, err)
		require.NotNil(t, found, engine)
	}
}

// --ntasks-per-node may be more than the tasks need, and Slurm then counts too many.
func TestSlurmMoreRoomThanTasks(t *testing.T) {
	for tasks, want := range map[string]string{"6": "n1:2 n2:2 n3:2", "5": "n1:2 n2:2 n3:1", "4": "n1:2 n2:1 n3:1"} {
		f, err := Find(world(t, version+"salloc-n3x2", "SLURM_NTASKS="+tasks, "SLURM_NPROCS="+tasks), "")
		require.NoError(t, err)
		require.Equal(t, want, slots(f.Hosts))
	}
}

func TestExpandCounts(t *testing.T) {
	for list, want := range map[string][]int{"2(x3),1": {2, 2, 2, 1}, "3,1(x2)": {3, 1, 1}, "4": {4}, "0": {0}} {
		got, err := expandCounts(list)
		require.NoError(t, err)
		require.Equal(t, want, got, list)
	}
	for _, list := range []string{
		"", ",", "2(x0)", "2(x3)4", "2x3", "(x3)", "2(x)", "1(x65537)", "1(x65536),1", "+1",
		"99999999999", "1048577",
	} {
		_, err := expandCounts(list)
		require.Error(t, err, "%q", list)
	}
}

// Whatever comes, there are as many numbers as the list adds up to.
func FuzzExpandCounts(f *testing.F) {
	for _, seed := range []string{"2(x3),1", "3,1(x2)", "1(x65536)", "1(x", ",,"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		counts, err := expandCounts(list)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(counts), maxNodes)
		require.GreaterOrEqual(t, len(counts), strings.Count(list, ",")+1)
		for _, n := range counts {
			require.True(t, n >= 0 && n <= maxCount)
		}
	})
}

// A node's name need not be resolved on others: Slurm has its address.
func TestStepWhoseNamesAreUnknown(t *testing.T) {
	addr := func(rank, said string, unknown bool) string {
		t.Helper()
		w := world(t, version+"step-n2-1", "SLURM_NODEID="+rank, "SLURM_PROCID="+rank)
		w.IsUnknown = func(name string) bool { return unknown }
		w.LookPath = func(name string) (string, error) { return "/usr/bin/" + name, nil }
		w.Output = func(argv ...string) ([]byte, error) {
			require.Equal(t, []string{"scontrol", "show", "node", "--oneliner", "n1"}, argv)
			if said == "" {
				return nil, errors.New("slurm_load_node error: Unable to contact slurm controller")
			}
			return []byte(said), nil
		}
		found, err := Find(w, "")
		require.NoError(t, err)
		return found.Task.Addr
	}
	const node = "NodeName=n1 Arch=x86_64 Gres=gpu:2 NodeAddr=10.0.0.7 NodeHostName=vm Port=17002 OS=Linux 6.18 #1 SMP \n"
	require.Equal(t, "10.0.0.7", addr("1", node, true))
	require.Equal(t, "n1", addr("1", node, false))
	require.Equal(t, "n1", addr("0", node, true), "node 0 need not know")
	require.Equal(t, "n1", addr("1", "", true))
	require.Equal(t, "n1", addr("1", strings.ReplaceAll(node, "10.0.0.7", "n1"), true))
	require.Equal(t, "n1", addr("1", "Node n1 not found\n", true))
}
