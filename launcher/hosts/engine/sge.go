package engine

import (
	"fmt"
	"strings"

	"gorun/launcher/hosts"
)

// findSGE knows Sun's Grid Engine and what came of it: Univa's, Altair's, Open Cluster
// Scheduler, Son of Grid Engine. Only jobs of a parallel environment have a host file;
// SGE_ROOT and ARC alone are what every submitting shell has.
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
	r.compare(f, "NSLOTS", hosts.TotalSlots(f.Hosts), "PE_HOSTFILE has %d slots: gorun goes by the file")
	// With -inherit qrsh starts a task within the job, whose command the user's login shell reads. Without
	// -nostdin it passes standard input on, which gorun needs there.
	look := []string{"qrsh"}
	if r.set("ARC") {
		look = []string{r.get("SGE_ROOT") + "/bin/" + r.get("ARC") + "/qrsh", "qrsh"}
	}
	r.perHost(f, look, "-inherit", "{host}", "{command}")
	return f
}

// queueOf reads one queue's part of a host: `host slots queue@host processors`. A host
// comes once for each queue. Both last words may be missing; slots may be 0 for the
// host of the script (sge_pe(5)).
func queueOf(words []string) (h hosts.Host, err error) {
	if len(words) < 2 {
		return h, fmt.Errorf("%q is not a host, its slots, a queue and processors", strings.Join(words, " "))
	}
	if err := checkHost(words[0]); err != nil {
		return h, err
	}
	h.Name = words[0]
	h.Slots, err = parseCount(words[1], 0)
	return h, err
}
