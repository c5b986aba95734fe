package engine

import (
	"slices"
	"strconv"
	"strings"

	"gorun/launcher/hosts"
)

// findPBS finds a job of OpenPBS, PBS Professional or Torque.
//
// The node file has a line for each slot; in OpenPBS for each of a chunk's mpiprocs, 1 by default, whatever ncpus is
// (pbs_resources(7B)). Only the first host has the file.
func findPBS(r *reader) *Found {
	if !r.set("PBS_JOBID", "PBS_NODEFILE") {
		return nil
	}
	// OpenPBS sets none of these.
	title, torque := "PBS", strings.HasPrefix(r.get("PBS_VERSION"), "TORQUE") || r.set("PBS_NUM_PPN") || r.set("PBS_NP")
	if torque {
		title = "Torque"
	}
	// The job's script is task 1; pbsdsh, or an mpiexec with PBS's task manager, starts others.
	if task := r.get("PBS_TASKNUM"); task != "" && task != "1" {
		return r.fail("PBS_TASKNUM=%s: pbsdsh started this gorun and does not tell its tasks how "+
			"many they are: start gorun once, in the job's script, and it starts the others", task)
	}
	all, lines := r.hostPerLine("PBS_NODEFILE")
	total := hosts.TotalSlots(all)
	if !torque && haveOneSlot(all) && r.set("NCPUS") && r.get("NCPUS") != "1" {
		all = withoutSlots(all)
	}
	f := &Found{
		Job: title + " job " + r.get("PBS_JOBID"), JobID: r.get("PBS_JOBID"),
		Why:   r.from("PBS_JOBID") + " and PBS_NODEFILE",
		Hosts: all, From: r.from("PBS_NODEFILE"),
	}
	if torque {
		r.compare(f, "PBS_NP", total, "PBS_NODEFILE has %d lines: gorun uses the file")
	}
	if !r.set("PBS_ENVIRONMENT") && !r.alone(f.Hosts) { // pbsdsh needs it
		f.Notes = append(f.Notes, "PBS_ENVIRONMENT is not set, which pbsdsh needs: gorun reaches hosts over SSH")
	} else if path := r.command(f, "pbsdsh"); path != "" {
		f.start = func(wanted []hosts.Host) Start {
			return Start{Once: pbsdsh(path, torque, all, wanted, lines, total), ByFile: true}
		}
	}
	return f
}

// pbsdsh runs a command once on each wanted host. Without options it does so for each line of the node file, with
// Torque's -u for each host, with -n for one line (pbsdsh(1B) of OpenPBS 20 and Torque 2.4). OpenPBS needs `--`.
func pbsdsh(path string, torque bool, all, wanted []hosts.Host, lines map[string]int, total int) []string {
	everywhere := len(wanted) == len(all)
	switch {
	case everywhere && total == len(all):
		return []string{path, "--"}
	case everywhere && torque:
		return []string{path, "-u", "--"}
	}
	at := make([]int, len(wanted))
	for i, h := range wanted {
		at[i] = lines[h.Name]
	}
	slices.Sort(at)
	var indices strings.Builder
	for _, line := range at {
		indices.WriteString(" " + strconv.Itoa(line))
	}
	return []string{"sh", "-c", "pbsdsh=$0; for i in" + indices.String() + pbsdshEach, path}
}

// pbsdshEach runs one pbsdsh for each index, all at once. Its exit code is the last one that is not 0.
const pbsdshEach = `; do "$pbsdsh" -n $i -- "$@" & all="$all $!"; done; for p in $all; do wait $p || code=$?; ` +
	`done; exit ${code:-0}`
