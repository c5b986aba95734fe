package engine

import (
	"fmt"
	"strings"

	"gorun/launcher/hosts"
)

// findSGE finds a job of Grid Engine or its successors in a parallel environment; only those have a host file.
func findSGE(r *reader) *Found {
	if !r.set("SGE_ROOT", "JOB_ID", "PE_HOSTFILE") {
		return nil
	}
	var all []hosts.Host
	r.lines("PE_HOSTFILE", func(at string, _ int, words []string) error {
		h, err := queueOf(words)
		h.From = at
		if h.Slots > 0 {
			all = append(all, h)
		}
		return err
	})
	if len(all) == 0 {
		return r.fail("%s: no host has a slot", r.from("PE_HOSTFILE"))
	}
	f := &Found{
		Job: "Grid Engine job " + r.get("JOB_ID"), JobID: r.get("JOB_ID"),
		Why:   r.from("JOB_ID") + ", SGE_ROOT and PE_HOSTFILE",
		Hosts: hosts.Merge(all), From: r.from("PE_HOSTFILE"),
	}
	if task := r.get("SGE_TASK_ID"); task != "" && task != "undefined" {
		f.Job, f.JobID = f.Job+"."+task, f.JobID+"."+task
	}
	r.compare(f, "NSLOTS", hosts.TotalSlots(f.Hosts), "PE_HOSTFILE has %d slots: gorun uses the file")
	// qrsh -inherit starts a task within the job, passes the command to the login shell, and forwards standard input.
	look := []string{"qrsh"}
	if r.set("ARC") {
		look = []string{r.get("SGE_ROOT") + "/bin/" + r.get("ARC") + "/qrsh", "qrsh"}
	}
	r.perHost(f, look, "-inherit", "{host}", "{command}")
	return f
}

// queueOf parses the slots of a host in one queue: `host slots [queue@host [processors]]`. Slots may be 0 for the
// script's host (sge_pe(5)).
func queueOf(words []string) (h hosts.Host, err error) {
	if len(words) < 2 {
		return h, fmt.Errorf("%q is not a host, its slots, a queue and processors", strings.Join(words, " "))
	}
	if err := checkHost(words[0]); err != nil {
		return h, err
	}
	h.Name = words[0]
	h.Slots, err = parseCount(words[1], 0, maxCount)
	return h, err
}
