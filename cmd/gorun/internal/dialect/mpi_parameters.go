package dialect

import (
	"errors"
	"slices"
	"strings"

	"gorun/launcher/job"
)

// parameters are those of Open MPI (MCA) that are its launcher's business: by
// --mca and --prtemca under every name, and called mpirun by their variables, too. The names
// are those of 4.1 and of PRRTE 3, which has taken over some.
func (p *Line) parameters() []Option {
	if p.mpi.parameters == nil {
		p.mpi.parameters = slices.Concat(p.placeParameters(), p.launchParameters())
	}
	return p.mpi.parameters
}

// parameter is a row of parameters that stand for an option.
func (p *Line) parameter(written, value string, names ...string) Option {
	option, _, _ := strings.Cut(written, " ")
	set := p.as(written, value)
	if value == "BOOL" {
		set = switched(set)
	}
	return Option{Names: names, Value: value, Family: p.option(option).Family, Help: written, Set: set}
}

// placeParameters are about hosts, and where ranks are on them.
func (p *Line) placeParameters() []Option {
	return []Option{
		p.parameter("--bind-to", "OBJECT", "hwloc_base_binding_policy", "hwloc_default_binding_policy"),
		p.parameter("--map-by", "OBJECT", "rmaps_base_mapping_policy", "rmaps_base_schedule_policy",
			"rmaps_default_mapping_policy"),
		p.parameter("--rank-by", "OBJECT", "rmaps_base_ranking_policy", "rmaps_default_ranking_policy"),
		p.parameter("--map-by ppr:N:OBJECT", "N:OBJECT", "rmaps_base_pattern"),
		p.parameter("--map-by ppr:N:socket", "N", "rmaps_base_n_persocket", "rmaps_ppr_n_persocket"),
		{
			Names: []string{"rmaps_base_n_pernode", "rmaps_ppr_n_pernode"}, Value: "N", Family: familyPerHost,
			Help: "-npernode", Set: p.setPerHost,
		},
		{
			Names: []string{"rmaps_base_pernode", "rmaps_ppr_pernode"}, Value: "BOOL", Family: familyPerHost,
			Help: "-pernode", Set: switched(p.setPerHostOne),
		},
		p.parameter("--map-by node", "BOOL", "rmaps_base_bynode"),
		p.parameter("--map-by slot", "BOOL", "rmaps_base_byslot"),
		p.parameter("--map-by core", "BOOL", "rmaps_base_bycore"),
		p.parameter("--bind-to core", "BOOL", "hwloc_base_bind_to_core"),
		p.parameter("--bind-to socket", "BOOL", "hwloc_base_bind_to_socket"),
		p.parameter("--cpu-list", "LIST", "hwloc_base_cpu_list", "hwloc_base_cpu_set", "hwloc_base_slot_list"),
		{
			Names: []string{"rmaps_base_cpus_per_rank", "rmaps_base_cpus_per_proc"}, Value: "N", Family: familyPE,
			Help: "--map-by :pe=N", Set: p.setPE,
		},
		{
			Names: []string{"rmaps_dist_device"}, Value: "DEVICE", Help: "what --map-by dist measures from",
			Set: Text(&p.mpi.distDevice),
		},
		p.parameter("--rankfile", "FILE", "orte_rankfile", "rmaps_rank_file_path"),
		p.parameter("--oversubscribe", "BOOL", "rmaps_base_oversubscribe"),
		p.parameter("--nooversubscribe", "BOOL", "rmaps_base_no_oversubscribe"),
		p.parameter("-nolocal", "BOOL", "rmaps_base_no_schedule_local"),
		p.parameter("--use-hwthread-cpus", "BOOL", "hwloc_base_use_hwthreads_as_cpus"),
		{
			Names: []string{"orte_default_hostfile", "prte_default_hostfile"}, Value: "FILE", Family: familyDefaultHosts,
			Help: "--default-hostfile", Set: p.setDefaultHosts,
		},
		p.parameter("-H", "HOST,...", "orte_default_dash_host"),
	}
}

// launchParameters are about how the job is started, printed and ended.
func (p *Line) launchParameters() []Option {
	return []Option{
		p.parameter("--dry-run", "BOOL", "orte_do_not_launch"),
		{
			Names: []string{"plm_rsh_agent", "plm_ssh_agent", "pls_rsh_agent", "orte_rsh_agent"}, Value: "'CMD ...'",
			Family: familySSH, Help: "--ssh; `ssh` alone is what gorun does", Set: p.setRSHAgent,
		},
		{
			Names: []string{"plm_rsh_args", "plm_ssh_args"}, Value: "'ARGS'", Family: familySSHArgs,
			Help: "arguments behind that command, or of an `ssh` in place of gorun's own", Set: p.setSSHArgs,
		},
		{
			Names: []string{"orte_abort_on_non_zero_status", "prte_abort_on_non_zero_status"}, Value: "BOOL",
			Family: familyFailure, Help: "`0` is --on-failure continue",
			Set: switched(func(a Arg) error { p.Spec.Policy.Continue = !a.On; return nil }),
		},
		{
			Names: []string{"orte_enable_recovery", "prte_enable_recovery"}, Value: "BOOL", Family: familyFailure,
			Help: "--on-failure continue", Set: switched(Switch(&p.Spec.Policy.Continue)),
		},
		p.parameter("--report-bindings", "BOOL", "hwloc_base_report_bindings", "orte_report_bindings"),
		p.parameter("--display-map", "BOOL", "rmaps_base_display_map", "rmaps_base_display_devel_map",
			"rmaps_base_display_diffable_map"),
		p.parameter("--display-allocation", "BOOL", "orte_display_alloc", "orte_display_devel_alloc",
			"ras_base_display_alloc", "ras_base_display_devel_alloc"),
		p.parameter("--tag-output", "BOOL", "orte_tag_output"),
		p.parameter("--timestamp-output", "BOOL", "orte_timestamp_output"),
		{
			Names: []string{"orte_xml_output"}, Value: "BOOL", Family: familyLabel, Help: "--xml, which is refused",
			Set: switched(refuseXML),
		},
		{
			Names: []string{"orte_output_filename"}, Value: "DIR", Family: familyFiles,
			Help: "--output-filename", Set: p.setOutputParameter,
		},
		{
			Names: []string{"mca_base_env_list"}, Value: "NAME[=VALUE];...", Help: "-x of each", Set: p.setEnvironmentList,
		},
		{
			Names: []string{"mca_base_env_list_delimiter"}, Value: "C", Help: "what stands between those",
			Set: p.setEnvironmentDelimiter,
		},
	}
}

func refuseXML(a Arg) error {
	if a.On {
		return errors.New(noXML)
	}
	return nil
}

// launcherFrameworks begin the names of all other parameters that are read by Open MPI's
// launcher and its daemons alone.
var launcherFrameworks = []string{
	"orte_", "prte_", "plm_", "pls_", "oob_", "routed_", "grpcomm_", "ras_", "rmaps_", "odls_", "iof_", "filem_",
	"rml_", "errmgr_", "state_", "schizo_", "rtc_", "snapc_", "sstore_", "dfs_", "prtereachable_",
}

// launcherParameter does what a parameter asks of the launcher; all others are a rank's
// library's.
func (p *Line) launcherParameter(key string, a Arg) error {
	if row := withName(slices.Values(pointers(p.parameters())), key); row != nil {
		p.now = append(p.now, row)
		return p.call(row, a)
	}
	if slices.ContainsFunc(launcherFrameworks, func(begin string) bool { return strings.HasPrefix(key, begin) }) {
		p.mpi.idle = append(p.mpi.idle,
			a.From+" has nothing to do: it is for the launcher and the daemons of Open MPI, and there are none")
	}
	return nil
}

// switched reads a parameter that is a switch, in Open MPI's words.
func switched(set func(Arg) error) func(Arg) error {
	return func(a Arg) (err error) {
		switch strings.ToLower(strings.TrimSpace(a.Value)) {
		case "t", "y", "enabled":
			a.On = true
		case "f", "n", "disabled":
			a.On = false
		default:
			if a.On, err = parseSwitch(strings.TrimSpace(a.Value)); err != nil {
				return err
			}
		}
		return set(a)
	}
}

// setRSHAgent takes Open MPI's list of programs that reach other hosts, the first that is
// there; ssh alone is what gorun does by itself.
func (p *Line) setRSHAgent(a Arg) error {
	for _, command := range strings.Split(a.Value, ":") {
		words, err := splitCommand(command)
		if err != nil {
			return err
		}
		if words[0] == "ssh" && len(words) == 1 {
			return nil
		}
		if _, err := p.around.LookPath(words[0]); err == nil || !strings.Contains(a.Value, ":") {
			return p.setSSH(Arg{Value: command, From: a.From})
		}
	}
	return errors.New("none of these programs is here")
}

// setPerHostOne is one rank per node.
func (p *Line) setPerHostOne(a Arg) error {
	if !a.On {
		return nil
	}
	a.Value = "1"
	return p.setPerHost(a)
}

// setOutputParameter takes the folder of files. A variable makes no files beside those that
// were typed in torchrun's way.
func (p *Line) setOutputParameter(a Arg) error {
	if p.level != levelFlags && slices.ContainsFunc(p.print.logs, func(log logGiven) bool {
		return log.level == levelFlags
	}) {
		p.remark(a.From + " does not count beside " + p.print.logs[0].from)
		return nil
	}
	return p.setOutputDir(a, a.Value)
}

// setDefaultHosts takes Open MPI's word for no such file, too.
func (p *Line) setDefaultHosts(a Arg) error {
	if a.Value == "none" {
		return nil
	}
	p.mpi.defaultHosts = a
	return text(new(string), a)
}

// setSSHArgs takes arguments of the program that reaches other hosts.
func (p *Line) setSSHArgs(a Arg) (err error) {
	if strings.TrimSpace(a.Value) == "" {
		return nil
	}
	p.mpi.sshArgs.from = a.From
	p.mpi.sshArgs.words, err = splitCommand(a.Value)
	return err
}

// environmentList is a list of variables as one parameter or variable has it.
type environmentList struct {
	Arg
	weak bool // what is typed counts more
}

// setEnvironmentList takes mpirun's other form of -x.
func (p *Line) setEnvironmentList(a Arg) error {
	p.mpi.envLists = append(p.mpi.envLists, environmentList{a, p.level != levelFlags})
	return nil
}

func (p *Line) setEnvironmentDelimiter(a Arg) error {
	if len(a.Value) != 1 {
		return errors.New("not one character")
	}
	p.mpi.envDelimiter = a.Value
	return nil
}

// finishEnvironmentLists reads the lists, whose delimiter may stand behind them.
func (p *Line) finishEnvironmentLists() {
	delimiter := p.mpi.envDelimiter
	if delimiter == "" {
		delimiter = ";"
	}
	var weak []job.Export
	for _, list := range p.mpi.envLists {
		for _, entry := range strings.Split(list.Value, delimiter) {
			if entry = strings.TrimSpace(entry); entry == "" {
				continue
			}
			e, err := exportOf(entry)
			if e.From = list.From; err != nil {
				p.problem("%s: %s: %w", list.From, entry, err)
				continue
			}
			if list.weak {
				weak = append(weak, e)
			} else {
				p.Spec.Exports = append(p.Spec.Exports, e)
			}
		}
	}
	p.Spec.Exports = append(weak, p.Spec.Exports...)
}
