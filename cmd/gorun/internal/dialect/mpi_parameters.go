package dialect

import (
	"errors"
	"slices"
	"strings"

	"gorun/launcher/job"
)

// parameterTable holds the parameters of Open MPI (MCA) that are its launcher's business: by
// --mca and --prtemca under every name, and called mpirun by their variables, too. The names
// are those of 4.1 and of PRRTE 3, which has taken over some.
var parameterTable = []Option{
	{
		Names: []string{"hwloc_base_binding_policy", "hwloc_default_binding_policy"}, Value: "OBJECT", family: familyBind,
		Help: "--bind-to", set: (*parser).setBindTo,
	},
	{
		Names: []string{"rmaps_base_mapping_policy", "rmaps_base_schedule_policy", "rmaps_default_mapping_policy"},
		Value: "OBJECT", family: familyMap,
		Help: "--map-by", set: func(p *parser, a arg) error { return p.setMapBy(a, a.value) },
	},
	{
		Names: []string{"rmaps_base_ranking_policy", "rmaps_default_ranking_policy"}, Value: "OBJECT", family: familyRank,
		Help: "--rank-by", set: (*parser).setRankBy,
	},
	{
		Names: []string{"rmaps_base_pattern"}, Value: "N:OBJECT", family: familyMap,
		Help: "--map-by ppr:N:OBJECT", set: func(p *parser, a arg) error { return p.setMapBy(a, "ppr:"+a.value) },
	},
	{
		Names: []string{"rmaps_base_n_persocket", "rmaps_ppr_n_persocket"}, Value: "N", family: familyMap,
		Help: "--map-by ppr:N:socket", set: func(p *parser, a arg) error { return p.setMapBy(a, "ppr:"+a.value+":socket") },
	},
	{
		Names: []string{"rmaps_base_n_pernode", "rmaps_ppr_n_pernode"}, Value: "N", family: familyPerHost,
		Help: "-npernode", set: (*parser).setPerHost,
	},
	{
		Names: []string{"rmaps_base_pernode", "rmaps_ppr_pernode"}, Value: "BOOL", family: familyPerHost,
		Help: "-pernode", set: switched(func(p *parser, a arg) error { return p.setPerHostOne(a) }),
	},
	{
		Names: []string{"rmaps_base_bynode"}, Value: "BOOL", family: familyMap,
		Help: "--map-by node", set: switched(func(p *parser, a arg) error { return p.setMapWord(a, "node") }),
	},
	{
		Names: []string{"rmaps_base_byslot"}, Value: "BOOL", family: familyMap,
		Help: "--map-by slot", set: switched(func(p *parser, a arg) error { return p.setMapWord(a, "slot") }),
	},
	{
		Names: []string{"rmaps_base_bycore"}, Value: "BOOL", family: familyMap,
		Help: "--map-by core", set: switched(func(p *parser, a arg) error { return p.setMapWord(a, "core") }),
	},
	{
		Names: []string{"hwloc_base_bind_to_core"}, Value: "BOOL", family: familyBind,
		Help: "--bind-to core", set: switched(func(p *parser, a arg) error { return p.setBindWord(a, "core") }),
	},
	{
		Names: []string{"hwloc_base_bind_to_socket"}, Value: "BOOL", family: familyBind,
		Help: "--bind-to socket", set: switched(func(p *parser, a arg) error { return p.setBindWord(a, "socket") }),
	},
	{
		Names: []string{"hwloc_base_cpu_list", "hwloc_base_cpu_set", "hwloc_base_slot_list"},
		Value: "LIST", family: familyBind, Help: "--cpu-list", set: (*parser).setCPUList,
	},
	{
		Names: []string{"rmaps_base_cpus_per_rank", "rmaps_base_cpus_per_proc"}, Value: "N", family: familyPE,
		Help: "--map-by :pe=N", set: (*parser).setPE,
	},
	{
		Names: []string{"rmaps_dist_device"}, Value: "DEVICE",
		Help: "what --map-by dist measures from", set: func(p *parser, a arg) error { return text(&p.mpi.distDevice, a) },
	},
	{
		Names: []string{"orte_rankfile", "rmaps_rank_file_path"}, Value: "FILE", family: familyRankFile,
		Help: "--rankfile", set: (*parser).setRankFile,
	},
	{
		Names: []string{"rmaps_base_oversubscribe"}, Value: "BOOL", family: familyOversubscribe,
		Help: "--oversubscribe", set: switched(func(p *parser, a arg) error { return p.setOversubscribe(a, true) }),
	},
	{
		Names: []string{"rmaps_base_no_oversubscribe"}, Value: "BOOL", family: familyOversubscribe,
		Help: "--nooversubscribe", set: switched(func(p *parser, a arg) error { return p.setOversubscribe(a, false) }),
	},
	{
		Names: []string{"rmaps_base_no_schedule_local"}, Value: "BOOL", family: familyNoLocal,
		Help: "-nolocal", set: switched(func(p *parser, a arg) error { return keep(&p.mpi.nolocal, a) }),
	},
	{
		Names: []string{"hwloc_base_use_hwthreads_as_cpus"}, Value: "BOOL", family: familyThreads,
		Help: "--use-hwthread-cpus", set: switched((*parser).setThreads),
	},
	{
		Names: []string{"orte_default_hostfile", "prte_default_hostfile"}, Value: "FILE", family: familyDefaultHosts,
		Help: "--default-hostfile", set: (*parser).setDefaultHosts,
	},
	{
		Names: []string{"orte_default_dash_host"}, Value: "HOST,...", family: familyHosts,
		Help: "-H", set: (*parser).setHosts,
	},
	{
		Names: []string{"orte_do_not_launch"}, Value: "BOOL", family: familyDryRun,
		Help: "--dry-run", set: switched(func(p *parser, a arg) error { p.dryRun = p.dryRun || a.on; return nil }),
	},
	{
		Names: []string{"plm_rsh_agent", "plm_ssh_agent", "pls_rsh_agent", "orte_rsh_agent"}, Value: "'CMD ...'",
		family: familySSH,
		Help:   "--ssh; `ssh` alone is what gorun does", set: (*parser).setRSHAgent,
	},
	{
		Names: []string{"plm_rsh_args", "plm_ssh_args"}, Value: "'ARGS'", family: familySSHArgs,
		Help: "arguments behind that command, or of an `ssh` in place of gorun's own", set: (*parser).setSSHArgs,
	},
	{
		Names: []string{"orte_abort_on_non_zero_status", "prte_abort_on_non_zero_status"}, Value: "BOOL",
		family: familyFailure,
		Help:   "`0` is --on-failure continue",
		set:    switched(func(p *parser, a arg) error { p.inv.Spec.Policy.Continue = !a.on; return nil }),
	},
	{
		Names: []string{"orte_enable_recovery", "prte_enable_recovery"}, Value: "BOOL", family: familyFailure,
		Help: "--on-failure continue",
		set:  switched(func(p *parser, a arg) error { p.inv.Spec.Policy.Continue = a.on; return nil }),
	},
	{
		Names: []string{"hwloc_base_report_bindings", "orte_report_bindings"}, Value: "BOOL",
		Help: "--report-bindings", set: switched((*parser).setReportBindings),
	},
	{
		Names: []string{"rmaps_base_display_map", "rmaps_base_display_devel_map", "rmaps_base_display_diffable_map"},
		Value: "BOOL",
		Help:  "--display-map", set: switched(func(p *parser, a arg) error {
			p.inv.Display.Map = p.inv.Display.Map || a.on
			return nil
		}),
	},
	{
		Names: []string{
			"orte_display_alloc", "orte_display_devel_alloc", "ras_base_display_alloc",
			"ras_base_display_devel_alloc",
		}, Value: "BOOL",
		Help: "--display-allocation", set: switched(func(p *parser, a arg) error {
			p.inv.Display.Hosts = p.inv.Display.Hosts || a.on
			return nil
		}),
	},
	{
		Names: []string{"orte_tag_output"}, Value: "BOOL", family: familyLabel,
		Help: "--tag-output", set: switched(func(p *parser, a arg) error { return p.setLabel(a, tagLabel) }),
	},
	{
		Names: []string{"orte_timestamp_output"}, Value: "BOOL", family: familyLabel,
		Help: "--timestamp-output", set: switched(func(p *parser, a arg) error { return keep(&p.print.stamp, a) }),
	},
	{
		Names: []string{"orte_xml_output"}, Value: "BOOL", family: familyLabel,
		Help: "--xml", set: switched(func(p *parser, a arg) error { return keep(&p.print.xml, a) }),
	},
	{
		Names: []string{"orte_output_filename"}, Value: "DIR", family: familyFiles,
		Help: "--output-filename", set: (*parser).setOutputParameter,
	},
	{
		Names: []string{"mca_base_env_list"}, Value: "NAME[=VALUE];...",
		Help: "-x of each", set: (*parser).setEnvironmentList,
	},
	{
		Names: []string{"mca_base_env_list_delimiter"}, Value: "C",
		Help: "what stands between those", set: (*parser).setEnvironmentDelimiter,
	},
}

// launcherFrameworks begin the names of all other parameters that are read by Open MPI's
// launcher and its daemons alone.
var launcherFrameworks = []string{
	"orte_", "prte_", "plm_", "pls_", "oob_", "routed_", "grpcomm_", "ras_", "rmaps_", "odls_", "iof_", "filem_",
	"rml_", "errmgr_", "state_", "schizo_", "rtc_", "snapc_", "sstore_", "dfs_", "prtereachable_",
}

// parameterVariables are the variables of [parameterTable], those of Open MPI 4's prefix
// first.
func parameterVariables() (all []fallback) {
	for _, prefix := range []string{"OMPI_MCA_", "PRTE_MCA_"} {
		for i := range parameterTable {
			for _, name := range parameterTable[i].Names {
				all = append(all, fallback{row: &parameterTable[i], variable: prefix + name})
			}
		}
	}
	return all
}

// launcherParameter does what a parameter asks of the launcher; all others are a rank's
// library's.
func (p *parser) launcherParameter(key string, a arg) error {
	for i := range parameterTable {
		if row := &parameterTable[i]; slices.Contains(row.Names, key) {
			p.now = append(p.now, row)
			return p.call(row, a)
		}
	}
	if slices.ContainsFunc(launcherFrameworks, func(begin string) bool { return strings.HasPrefix(key, begin) }) {
		p.mpi.idle = append(p.mpi.idle,
			a.from+" has nothing to do: it is for the launcher and the daemons of Open MPI, and there are none")
	}
	return nil
}

// switched reads a parameter that is a switch, in Open MPI's words.
func switched(set func(*parser, arg) error) func(*parser, arg) error {
	return func(p *parser, a arg) (err error) {
		switch strings.ToLower(strings.TrimSpace(a.value)) {
		case "t", "y", "enabled":
			a.on = true
		case "f", "n", "disabled":
			a.on = false
		default:
			if a.on, err = parseSwitch(strings.TrimSpace(a.value)); err != nil {
				return err
			}
		}
		return set(p, a)
	}
}

// setRSHAgent takes Open MPI's list of programs that reach other hosts, the first that is
// there; ssh alone is what gorun does by itself.
func (p *parser) setRSHAgent(a arg) error {
	for _, command := range strings.Split(a.value, ":") {
		words, err := splitCommand(command)
		if err != nil {
			return err
		}
		if words[0] == "ssh" && len(words) == 1 {
			return nil
		}
		if _, err := p.around.LookPath(words[0]); err == nil || !strings.Contains(a.value, ":") {
			return p.setSSH(arg{value: command, from: a.from})
		}
	}
	return errors.New("none of these programs is here")
}

// setPerHostOne is one rank per node.
func (p *parser) setPerHostOne(a arg) error {
	if !a.on {
		return nil
	}
	a.value = "1"
	return p.setPerHost(a)
}

// setOutputParameter takes the folder of files. A variable makes no files beside those that
// were typed in torchrun's way.
func (p *parser) setOutputParameter(a arg) error {
	if p.level != levelFlags && slices.ContainsFunc(p.print.logs, func(log logGiven) bool {
		return log.level == levelFlags
	}) {
		p.remark(a.from + " does not count beside " + p.print.logs[0].from)
		return nil
	}
	return p.setOutputDir(a, a.value)
}

// setDefaultHosts takes Open MPI's word for no such file, too.
func (p *parser) setDefaultHosts(a arg) error {
	if a.value == "none" {
		return nil
	}
	p.mpi.defaultHosts = a
	return text(new(string), a)
}

// setSSHArgs takes arguments of the program that reaches other hosts.
func (p *parser) setSSHArgs(a arg) (err error) {
	if strings.TrimSpace(a.value) == "" {
		return nil
	}
	p.mpi.sshArgs.from = a.from
	p.mpi.sshArgs.words, err = splitCommand(a.value)
	return err
}

// environmentList is a list of variables as one parameter or variable has it.
type environmentList struct {
	arg
	weak bool // what is typed counts more
}

// setEnvironmentList takes mpirun's other form of -x.
func (p *parser) setEnvironmentList(a arg) error {
	p.mpi.envLists = append(p.mpi.envLists, environmentList{a, p.level != levelFlags})
	return nil
}

func (p *parser) setEnvironmentDelimiter(a arg) error {
	if len(a.value) != 1 {
		return errors.New("not one character")
	}
	p.mpi.envDelimiter = a.value
	return nil
}

// finishEnvironmentLists reads the lists, whose delimiter may stand behind them.
func (p *parser) finishEnvironmentLists() {
	delimiter := p.mpi.envDelimiter
	if delimiter == "" {
		delimiter = ";"
	}
	var weak []job.Export
	for _, list := range p.mpi.envLists {
		for _, entry := range strings.Split(list.value, delimiter) {
			if entry = strings.TrimSpace(entry); entry == "" {
				continue
			}
			e, err := exportOf(entry)
			if e.From = list.from; err != nil {
				p.problem(errors.New(list.from + ": " + entry + ": " + err.Error()))
				continue
			}
			if list.weak {
				weak = append(weak, e)
			} else {
				p.inv.Spec.Exports = append(p.inv.Spec.Exports, e)
			}
		}
	}
	p.inv.Spec.Exports = append(weak, p.inv.Spec.Exports...)
}
