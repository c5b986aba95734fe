package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// mcaParameters returns Open MPI's parameters (MCA) that are its launcher's business. --mca and --prtemca take them
// under every name; under mpirun's name, so do their variables. Names are those of Open MPI 4.1 and PRRTE 3.
func (p *Line) mcaParameters() []Option {
	if p.parameters == nil {
		p.parameters = slices.Concat(p.placeParameters(), p.launchParameters())
	}
	return p.parameters
}

// parameter makes a row of parameters that stand for an option.
func (p *Line) parameter(written, value, names string) Option {
	option, _, _ := strings.Cut(written, " ")
	set := p.as(written, value)
	if value == "BOOL" {
		set = mcaSwitch(set)
	}
	return Option{Names: names, Value: value, Family: p.option(option).Family, Help: written, Set: set}
}

// placeParameters are about hosts, and where ranks are on them.
func (p *Line) placeParameters() []Option {
	return []Option{
		p.parameter("--bind-to", "OBJECT", "hwloc_base_binding_policy hwloc_default_binding_policy"),
		p.parameter("--map-by", "OBJECT",
			"rmaps_base_mapping_policy rmaps_base_schedule_policy rmaps_default_mapping_policy"),
		p.parameter("--rank-by", "OBJECT", "rmaps_base_ranking_policy rmaps_default_ranking_policy"),
		p.parameter("--map-by ppr:N:OBJECT", "N:OBJECT", "rmaps_base_pattern"),
		p.parameter("--map-by ppr:N:socket", "N", "rmaps_base_n_persocket rmaps_ppr_n_persocket"),
		{
			Names: "rmaps_base_n_pernode rmaps_ppr_n_pernode", Value: "N", Family: familyPerHost,
			Help: "-npernode", Set: p.setPerHost,
		},
		{
			Names: "rmaps_base_pernode rmaps_ppr_pernode", Value: "BOOL", Family: familyPerHost,
			Help: "-pernode", Set: mcaSwitch(one(p.setPerHost)),
		},
		p.parameter("--map-by node", "BOOL", "rmaps_base_bynode"),
		p.parameter("--map-by slot", "BOOL", "rmaps_base_byslot"),
		p.parameter("--map-by core", "BOOL", "rmaps_base_bycore"),
		p.parameter("--bind-to core", "BOOL", "hwloc_base_bind_to_core"),
		p.parameter("--bind-to socket", "BOOL", "hwloc_base_bind_to_socket"),
		p.parameter("--cpu-list", "LIST", "hwloc_base_cpu_list hwloc_base_cpu_set hwloc_base_slot_list"),
		{
			Names: "rmaps_base_cpus_per_rank rmaps_base_cpus_per_proc", Value: "N", Family: familyPE,
			Help: "--map-by :pe=N", Set: p.setPE,
		},
		{
			Names: "rmaps_dist_device", Value: "DEVICE", Help: "what --map-by dist measures from",
			Set: Text(&p.distDevice),
		},
		p.parameter("--rankfile", "FILE", "orte_rankfile rmaps_rank_file_path"),
		p.parameter("--oversubscribe", "BOOL", "rmaps_base_oversubscribe"),
		p.parameter("--nooversubscribe", "BOOL", "rmaps_base_no_oversubscribe"),
		p.parameter("-nolocal", "BOOL", "rmaps_base_no_schedule_local"),
		p.parameter("--use-hwthread-cpus", "BOOL", "hwloc_base_use_hwthreads_as_cpus"),
		{
			Names: "orte_default_hostfile prte_default_hostfile", Value: "FILE", Family: familyDefaultHosts,
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
			Names: "plm_rsh_agent plm_ssh_agent pls_rsh_agent orte_rsh_agent", Value: "'CMD ...'",
			Family: familySSH, Help: "--ssh; `ssh` alone is what gorun does", Set: p.setRSHAgent,
		},
		{
			Names: "plm_rsh_args plm_ssh_args", Value: "'ARGS'", Family: familySSHArgs,
			Help: "arguments behind that command, or of an `ssh` in place of gorun's own", Set: p.setSSHArgs,
		},
		{
			Names: "orte_abort_on_non_zero_status prte_abort_on_non_zero_status", Value: "BOOL",
			Family: familyFailure, Help: "`0` is --on-failure continue",
			Set: mcaSwitch(func(a Arg) error { p.Spec.Policy.Continue = !a.On; return nil }),
		},
		{
			Names: "orte_enable_recovery prte_enable_recovery", Value: "BOOL", Family: familyFailure,
			Help: "--on-failure continue", Set: mcaSwitch(Switch(&p.Spec.Policy.Continue)),
		},
		p.parameter("--report-bindings", "BOOL", "hwloc_base_report_bindings orte_report_bindings"),
		p.parameter("--display-map", "BOOL",
			"rmaps_base_display_map rmaps_base_display_devel_map rmaps_base_display_diffable_map"),
		p.parameter("--display-allocation", "BOOL", "orte_display_alloc orte_display_devel_alloc ras_base_display_alloc "+
			"ras_base_display_devel_alloc"),
		p.parameter("--tag-output", "BOOL", "orte_tag_output"),
		p.parameter("--timestamp-output", "BOOL", "orte_timestamp_output"),
		{
			Names: "orte_xml_output", Value: "BOOL", Family: familyLabel, Help: "--xml, which is refused",
			Set: mcaSwitch(refuseXML),
		},
		{
			Names: "orte_output_filename", Value: "DIR", Family: familyFiles,
			Help: "--output-filename", Set: p.setOutputParameter,
		},
		{
			Names: "mca_base_env_list", Value: "NAME[=VALUE];...", Help: "-x of each", Set: p.setEnvMCAList,
		},
		{
			Names: "mca_base_env_list_delimiter", Value: "C", Help: "the separator of those",
			Set: p.setEnvDelimiter,
		},
	}
}

func refuseXML(a Arg) error {
	if a.On {
		return errors.New(noXML)
	}
	return nil
}

// launcherFrameworks begin the names of parameters that only Open MPI's launcher and daemons read.
var launcherFrameworks = []string{
	"orte_", "prte_", "plm_", "pls_", "oob_", "routed_", "grpcomm_", "ras_", "rmaps_", "odls_", "iof_", "filem_",
	"rml_", "errmgr_", "state_", "schizo_", "rtc_", "snapc_", "sstore_", "dfs_", "prtereachable_",
}

// pmixPrefix begins the variables of PMIx's parameters. The launcher reads none of them.
const pmixPrefix = "PMIX_MCA_"

// setParameter returns a setter that exports a parameter to ranks, and applies what concerns the launcher.
func (p *Line) setParameter(prefix string) func(Arg) error {
	return func(a Arg) error {
		key, value, given := strings.Cut(a.Value, "=")
		switch {
		case key == "" || strings.ContainsAny(a.Value, "\x00") || strings.ContainsAny(key, " \t"):
			return errors.New("the name of a parameter is missing")
		case !given:
			return errors.New("a parameter and its value are needed: --mca KEY VALUE")
		}
		p.export(a, true, prefix+key, value)
		if prefix == pmixPrefix {
			return nil
		}
		if row := withName(slices.Values(pointers(p.mcaParameters())), key); row != nil {
			p.now = append(p.now, row)
			return p.call(row, Arg{Value: value, From: a.From})
		}
		if slices.ContainsFunc(launcherFrameworks, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			p.idle = append(p.idle,
				a.From+" has no effect: gorun has no Open MPI daemons")
		}
		return nil
	}
}

// mcaSwitch reads a switch in Open MPI's words.
func mcaSwitch(set func(Arg) error) func(Arg) error {
	return func(a Arg) (err error) {
		switch value := strings.ToLower(strings.TrimSpace(a.Value)); value {
		case "enabled":
			a.On = true
		case "disabled":
			a.On = false
		default:
			if a.On, err = parseSwitch(value); err != nil {
				return err
			}
		}
		return set(a)
	}
}

// setOutputParameter sets the directory of output files. A variable is ignored beside torchrun's options on the
// command line.
func (p *Line) setOutputParameter(a Arg) error {
	logs := p.output.logs
	typed := slices.ContainsFunc(logs, func(log logOption) bool { return log.level == levelFlags })
	if p.FromVariable() && typed {
		p.verbose("%s is ignored beside %s", a.From, logs[0].from)
		return nil
	}
	return p.setOutputDir(a, a.Value)
}

// setDefaultHosts also takes Open MPI's word for no such file.
func (p *Line) setDefaultHosts(a Arg) error {
	if a.Value == "none" {
		return nil
	}
	return keep(&p.defaultHostFile)(a)
}

// setTune reads files of parameters, or a word of gorun's --tune.
func (p *Line) setTune(a Arg) error {
	if p.tuned(a) {
		return nil
	}
	if err := notEmpty(a); err != nil {
		return err
	}
	for _, name := range strings.Split(a.Value, ",") {
		content, err := p.around.ReadFile(name)
		if err != nil {
			return err
		}
		number := 0
		for line := range strings.Lines(string(content)) {
			number++
			line, _, _ = strings.Cut(line, "#")
			if err := p.tuneLine(strings.TrimSpace(line), fmt.Sprintf("%s (%s:%d)", a.From, name, number)); err != nil {
				return fmt.Errorf("%s:%d: %w", name, number, err)
			}
		}
	}
	return nil
}

// tuneLine reads KEY = VALUE, or options -mca KEY VALUE and -x NAME=VALUE.
func (p *Line) tuneLine(line, from string) error {
	words, setMCA := strings.Fields(line), p.setParameter("OMPI_MCA_")
	if len(words) > 0 && words[0][0] != '-' {
		key, value, found := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); !found || strings.ContainsAny(key, " \t") {
			return errors.New("not KEY = VALUE, nor -mca KEY VALUE and -x NAME=VALUE")
		}
		return setMCA(Arg{Value: key + "=" + strings.TrimSpace(value), From: from})
	}
	for len(words) > 0 {
		var err error
		switch option := strings.TrimLeft(words[0], "-"); {
		case option == "x" && len(words) > 1:
			err, words = p.setExport(Arg{Value: words[1], From: from}), words[2:]
		case (option == "mca" || option == "omca" || option == "gmca") && len(words) > 2:
			err, words = setMCA(Arg{Value: words[1] + "=" + words[2], From: from}), words[3:]
		default:
			return fmt.Errorf("%s: not -mca KEY VALUE, nor -x NAME=VALUE", words[0])
		}
		if err != nil {
			return err
		}
	}
	return nil
}
