package engine

import (
	"gorun/launcher/hosts"
)

// findLoadLeveler knows IBM's LoadLeveler. The file and the variable have a name for
// each task; the variable is not there in jobs of more than 128 tasks.
func findLoadLeveler(w World) (*Found, error) {
	r := reader{w}
	list := r.given("LOADL_HOSTFILE", "LOADL_PROCESSOR_LIST")
	if !r.set("LOADL_STEP_ID") || list == "" {
		return nil, nil
	}
	var (
		all []hosts.Host
		err error
	)
	if list == "LOADL_HOSTFILE" {
		all, _, err = r.oneALine(list)
	} else {
		all, err = r.names(list)
	}
	if err != nil {
		return nil, err
	}
	return &Found{
		Job: "LoadLeveler step " + r.get("LOADL_STEP_ID"), JobID: r.get("LOADL_STEP_ID"),
		Why:   r.from("LOADL_STEP_ID") + " and " + list,
		Hosts: all, From: r.from(list),
	}, nil
}
