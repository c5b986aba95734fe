package engine

import (
	"fmt"
	"strconv"
	"strings"

	"gorun/launcher/hosts"
)

// findLSF knows IBM Spectrum LSF, and JSM, which is jsrun's side of it on CSM systems.
func findLSF(r World) (*Found, error) {
	list := r.given("LSB_DJOB_HOSTFILE", "LSB_MCPU_HOSTS", "LSB_HOSTS")
	if !r.set("LSB_JOBID") || list == "" {
		return nil, nil
	}
	all, list, err := r.lsfHosts(list)
	if err != nil {
		return nil, err
	}
	f := &Found{Job: "LSF job " + r.get("LSB_JOBID"), JobID: r.get("LSB_JOBID"), Why: r.from("LSB_JOBID") + " and " +
		list, From: r.from(list)}
	if index := r.get("LSB_JOBINDEX"); index != "" && index != "0" {
		f.Job, f.JobID = f.Job+"["+index+"]", f.JobID+"."+index
	}
	total := strconv.Itoa(hosts.TotalSlots(all))
	if r.set("LSB_DJOB_NUMPROC") && r.get("LSB_DJOB_NUMPROC") != total {
		f.Notes = append(f.Notes, r.from("LSB_DJOB_NUMPROC")+", and "+list+" has "+total+" slots: gorun goes by the list")
	}
	csm := r.given("CSM_ALLOCATION_ID", "JSM_JSRUN_NUM_RESOURCE_SETS", "JSM_NAMESPACE_RANK") != "" || r.jsrun() != ""
	f.Hosts = withoutLaunchNode(all, csm)
	if r.set("JSM_NAMESPACE_RANK") {
		return f, r.jsmTask(f)
	}
	r.lsfStart(f, len(f.Hosts) < len(all))
	return f, nil
}

// lsfHosts reads the list that is complete: LSB_HOSTS is cut off, or missing, in large
// jobs, and the file may be out of sight, in a container.
func (r World) lsfHosts(list string) (all []hosts.Host, from string, err error) {
	switch list {
	case "LSB_DJOB_HOSTFILE":
		all, _, err = r.oneALine(list)
		if err != nil && r.set("LSB_MCPU_HOSTS") {
			if _, missing := r.read(list); missing != nil {
				return r.lsfHosts("LSB_MCPU_HOSTS")
			}
		}
	case "LSB_MCPU_HOSTS":
		all, err = r.pairs(list)
	default:
		all, err = r.names(list)
	}
	return all, list, err
}

// pairs reads a variable with the number of slots behind each name: "a 4 b 4".
func (r World) pairs(variable string) ([]hosts.Host, error) {
	words := strings.Fields(r.get(variable))
	if len(words) == 0 || len(words)%2 != 0 {
		return nil, fmt.Errorf("%s: it is not pairs of a host and a number", r.from(variable))
	}
	var all []hosts.Host
	for i := 0; i < len(words); i += 2 {
		if err := checkHost(words[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", r.from(variable), err)
		}
		slots, err := parseCount(words[i+1], 1)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", r.from(variable), words[i], err)
		}
		all = append(all, hosts.Host{Name: words[i], Slots: slots, From: variable})
	}
	return hosts.Merge(all), nil
}

// withoutLaunchNode drops the node on which scripts run on CSM systems: it comes first,
// has one slot, where compute nodes have as many as cores, and takes no ranks.
func withoutLaunchNode(all []hosts.Host, csm bool) []hosts.Host {
	if csm && len(all) > 1 && all[0].Slots == 1 && !once(all[1:]) {
		return all[1:]
	}
	return all
}

func (r World) jsrun() string {
	path, err := r.LookPath("jsrun")
	if err != nil {
		return ""
	}
	return path
}

// lsfStart has blaunch stand for ssh: it starts tasks within the job, has a shell
// read what follows the host, and passes standard input on unless -n says no
// (blaunch of LSF 10.1). Behind a launch node it is jsrun: one set of resources with
// all of a host for each, standard input goes to the first alone. jsrun's options
// could be compared with its documentation only.
func (r World) lsfStart(f *Found, launchNode bool) {
	if path := r.jsrun(); launchNode && path != "" {
		f.start = func(wanted []hosts.Host) Start {
			if len(wanted) < len(f.Hosts) {
				return Start{} // jsrun chooses the hosts itself
			}
			n := strconv.Itoa(len(wanted))
			return Start{Once: []string{
				path, "-n", n, "-r", "1", "-a", "1", "-c", "ALL_CPUS", "-g", "ALL_GPUS", "-b",
				"none",
			}, ByFile: true}
		}
		return
	}
	if path := r.command(f, "blaunch"); path != "" {
		f.start = func([]hosts.Host) Start { return Start{PerHost: []string{path, "{host}", "{command}"}} }
	}
}

// jsmTask is one of jsrun's tasks. JSM does not say which node a task is on, and LSF's
// list is of the whole job: what it leaves open is taken as jsrun fills hosts by
// default, one after the other.
func (r World) jsmTask(f *Found) error {
	t := &Task{Step: f.JobID}
	err := r.numbers(
		numberWish{&t.Rank, "JSM_NAMESPACE_RANK", 0}, numberWish{&t.NumTasks, "JSM_NAMESPACE_SIZE", 1},
		numberWish{&t.LocalRank, "JSM_NAMESPACE_LOCAL_RANK", 0}, numberWish{&t.LocalTasks, "JSM_NAMESPACE_LOCAL_SIZE", 1},
	)
	if err != nil {
		return err
	}
	t.NumNodes = (t.NumTasks + t.LocalTasks - 1) / t.LocalTasks
	t.Node = t.Rank / t.LocalTasks
	if r.get("JSM_NAMESPACE_ID") != "" {
		t.Step += "." + r.get("JSM_NAMESPACE_ID")
	}
	if t.NumTasks%t.LocalTasks != 0 || t.Rank%t.LocalTasks != t.LocalRank {
		return fmt.Errorf("JSM_NAMESPACE_RANK=%d is number %d of %d on its node, of %d tasks in all: which node it is on "+
			"cannot be told where nodes have different numbers of tasks, or take them in turns", t.Rank, t.LocalRank,
			t.LocalTasks, t.NumTasks)
	}
	if len(f.Hosts) > 0 {
		t.Addr = f.Hosts[0].Name
	}
	if t.Node < len(f.Hosts) {
		t.NodeID = f.Hosts[t.Node].Name
	}
	f.Task = t
	return f.check()
}
