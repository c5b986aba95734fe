package pmix

import (
	"slices"
	"strconv"
	"strings"

	"gorun/rendezvous/world"
)

// SPAWN is MPI_Comm_spawn and MPI_Comm_spawn_multiple.
//
//	infos group{size n} group{n × app}
//
// app is string command, int argc, argc × string, int32 number of variables, those as string NAME=VALUE, string
// directory, int processes, size n, n × info, without groups of its own. The infos before the apps apply to all of
// them. The reply is a status and, if it is success, group{string namespace}; the job-level data that may follow is
// left out, and clients request it. It is the same in PMIx 3.2 to 6.1.
//
// argv[0] is the command. Open MPI passes OMPI_PARENT_PORT and all its OMPI_MCA_ variables as variables, and translates
// the keys of MPI_Info: host, hostfile, add-host, add-hostfile, wdir (always set by Open MPI 4; 5 leaves it to the
// directory), env (further variables), map_by, rank_by, bind_to, ppr, npernode, mapper, ompi_prefix, personality,
// ompi_non_mpi, ompi_stdin_target, ….

// Attributes of a program. Any other is passed on to the launcher (world.SpawnApp.Info).
const (
	keyWorkDir     = "pmix.wdir"
	keyHosts       = "pmix.host"
	keyHostFile    = "pmix.hostfile"
	keyAddHosts    = "pmix.addhost"
	keyAddHostFile = "pmix.addhostfile"
	keySetVariable = "pmix.envar.set"
	keyAddVariable = "pmix.envar.add"
)

// spawn serves SPAWN. A status is all that the program gets if it fails; the launcher tells the user why.
func (s *Server) spawn(q *request, d *decoder) func() status {
	common, apps := d.infoList(), listed(d, d.app)
	return func() status {
		spawn, ok := readSpawn(q.proc, common, apps)
		if !ok {
			return statusBadParameter
		}
		s.node.Spawn(spawn, func(name string, err error) {
			if err != nil {
				q.status(statusJobNotLaunched)
				return
			}
			var e encoder
			e.oneStatus(statusSuccess)
			e.oneString(name)
			q.reply(e.b)
		})
		return replied
	}
}

// readSpawn converts a request for the launcher. It reports false if that is invalid.
func readSpawn(by world.Proc, common []info, apps []app) (world.Spawn, bool) {
	spawn := world.Spawn{By: by}
	left := world.MaxSpawn
	for _, a := range apps {
		if a.maxProcs < 0 || a.maxProcs > left || a.command == "" && len(a.argv) == 0 {
			return spawn, false
		}
		left -= a.maxProcs
		spawn.Apps = append(spawn.Apps, readApp(common, a))
	}
	return spawn, len(apps) > 0 && left < world.MaxSpawn
}

func readApp(common []info, a app) world.SpawnApp {
	p := world.SpawnApp{Program: a.command, NumRanks: a.maxProcs, Dir: a.dir, Env: withoutIdentity(a.env)}
	if len(a.argv) > 0 {
		p.Args = a.argv[1:]
		if p.Program == "" {
			p.Program = a.argv[0]
		}
	}
	for _, i := range slices.Concat(common, a.infos) {
		readAppInfo(&p, i)
	}
	return p
}

// identityPrefixes are the prefixes of variables that describe the spawning rank itself. Open MPI sets them while it
// begins, and sends them with its other OMPI_MCA_ variables.
var identityPrefixes = []string{"OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix"}

// withoutIdentity drops those variables.
func withoutIdentity(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		return slices.ContainsFunc(identityPrefixes, func(p string) bool { return strings.HasPrefix(entry, p) })
	})
}

// readAppInfo applies an attribute. The last list of hosts counts, and adding hosts to the job is requesting them.
func readAppInfo(p *world.SpawnApp, i info) {
	text, _ := i.value.string()
	switch i.key {
	case keyWorkDir:
		if text != "" {
			p.Dir = text
		}
	case keyHosts, keyAddHosts:
		p.Hosts = text
	case keyHostFile, keyAddHostFile:
		p.HostFile = text
	case keySetVariable, keyAddVariable:
		if name, val, _, ok := i.value.envar(); ok && validVariable(name) {
			p.Env = append(p.Env, name+"="+val)
		}
	default:
		if text, ok := i.value.text(); ok {
			p.Info = append(p.Info, world.Pair{Key: i.key, Value: text})
		}
	}
}

func validVariable(name string) bool { return name != "" && !strings.ContainsAny(name, "=\x00") }

// text returns a string, flag or number as text.
func (v value) text() (string, bool) {
	if s, ok := v.string(); ok {
		return s, true
	}
	if v.typ == typeBool || v.typ == typeUndef {
		return strconv.FormatBool(v.isTrue()), true
	}
	n, ok := v.integer()
	return strconv.FormatInt(n, 10), ok
}
