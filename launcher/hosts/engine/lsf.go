package engine

import (
	"slices"
	"strconv"
	"strings"

	"gorun/launcher/hosts"
)

// findLSF finds a job of IBM Spectrum LSF, or a task of jsrun (JSM) on CSM systems.
func findLSF(r *reader) *Found {
	list, value := r.first("LSB_DJOB_HOSTFILE", "LSB_MCPU_HOSTS", "LSB_HOSTS")
	if !r.set("LSB_JOBID") || value == "" {
		return nil
	}
	if _, err := r.ReadFile(value); err != nil && list == "LSB_DJOB_HOSTFILE" && r.set("LSB_MCPU_HOSTS") {
		list = "LSB_MCPU_HOSTS"
	}
	all := r.lsfHosts(list)
	f := &Found{Job: "LSF job " + r.get("LSB_JOBID"), JobID: r.get("LSB_JOBID"), Why: r.from("LSB_JOBID") + " and " +
		list, From: r.from(list)}
	if index := r.get("LSB_JOBINDEX"); index != "" && index != "0" {
		f.Job, f.JobID = f.Job+"["+index+"]", f.JobID+"."+index
	}
	r.compare(f, "LSB_DJOB_NUMPROC", hosts.TotalSlots(all), list+" has %d slots: gorun uses the list")
	_, csm := r.first("CSM_ALLOCATION_ID", "JSM_JSRUN_NUM_RESOURCE_SETS", "JSM_NAMESPACE_RANK")
	jsrun, _ := r.LookPath("jsrun")
	f.Hosts = withoutLaunchNode(all, csm != "" || jsrun != "")
	if r.set("JSM_NAMESPACE_RANK") {
		return r.jsmTask(f)
	}
	if jsrun == "" || len(f.Hosts) == len(all) {
		// blaunch starts tasks within the job, passes the command to a shell, and forwards standard input (LSF 10.1).
		r.perHost(f, []string{"blaunch"}, "{host}", "{command}")
		return f
	}
	// One resource set for each host, with all of it; only the first gets standard input. These options follow jsrun's
	// documentation and are not tested with jsrun.
	f.start = func(wanted []hosts.Host) Start {
		if len(wanted) < len(f.Hosts) {
			return Start{} // jsrun cannot choose hosts
		}
		return Start{Once: []string{
			jsrun, "-n", strconv.Itoa(len(wanted)), "-r", "1", "-a", "1", "-c", "ALL_CPUS", "-g", "ALL_GPUS", "-b", "none",
		}, ByFile: true}
	}
	return f
}

// lsfHosts parses one of the lists. LSB_MCPU_HOSTS has pairs of a host and its slots: "a 4 b 4".
func (r *reader) lsfHosts(list string) (all []hosts.Host) {
	words, each := strings.Fields(r.get(list)), 1
	switch list {
	case "LSB_DJOB_HOSTFILE":
		all, _ = r.hostPerLine(list)
		return all
	case "LSB_MCPU_HOSTS":
		if each = 2; len(words) == 0 || len(words)%each != 0 {
			r.fail("%s: not pairs of a host and a number", r.from(list))
			return nil
		}
	}
	for pair := range slices.Chunk(words, each) {
		slots := 1
		err := checkHost(pair[0])
		switch {
		case err != nil && each == 1:
			r.fail("%s: %w", list, err)
		case err != nil:
			r.fail("%s: %w", r.from(list), err)
		case each == 2:
			if slots, err = parseCount(pair[1], 1, maxCount); err != nil {
				r.fail("%s: %s: %w", r.from(list), pair[0], err)
			}
		}
		all = append(all, hosts.Host{Name: pair[0], Slots: slots, From: list})
	}
	if len(all) == 0 {
		r.fail("%s names no host", list)
	}
	return hosts.Merge(all)
}

// withoutLaunchNode drops the launch node of CSM systems: it comes first and has one slot, compute nodes one for each
// core.
func withoutLaunchNode(all []hosts.Host, csm bool) []hosts.Host {
	if csm && len(all) > 1 && all[0].Slots == 1 && !haveOneSlot(all[1:]) {
		return all[1:]
	}
	return all
}

// jsmTask reads a task of jsrun. JSM does not name a task's node, so it assumes jsrun's default: one host after the
// other.
func (r *reader) jsmTask(f *Found) *Found {
	t := &Task{
		Rank: r.number("JSM_NAMESPACE_RANK", 0), NumTasks: r.number("JSM_NAMESPACE_SIZE", 1),
		LocalRank: r.number("JSM_NAMESPACE_LOCAL_RANK", 0), LocalTasks: r.number("JSM_NAMESPACE_LOCAL_SIZE", 1),
		Step: f.JobID,
	}
	t.NumNodes = (t.NumTasks + t.LocalTasks - 1) / t.LocalTasks
	t.Node = t.Rank / t.LocalTasks
	if r.get("JSM_NAMESPACE_ID") != "" {
		t.Step += "." + r.get("JSM_NAMESPACE_ID")
	}
	if t.NumTasks%t.LocalTasks != 0 || t.Rank%t.LocalTasks != t.LocalRank {
		return r.fail("JSM_NAMESPACE_RANK=%d is number %d of %d on its node, of %d tasks in all: which node it is on "+
			"is unknown if nodes have different numbers of tasks, or take them in turns", t.Rank, t.LocalRank,
			t.LocalTasks, t.NumTasks)
	}
	if len(f.Hosts) > 0 {
		t.Addr = f.Hosts[0].Name
	}
	if t.Node < len(f.Hosts) {
		t.NodeID = f.Hosts[t.Node].Name
	}
	f.Task = t
	return r.check(f)
}
