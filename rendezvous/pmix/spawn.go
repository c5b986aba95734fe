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
// app is string command, int argc, argc × string, int32 number of variables, those as
// string NAME=VALUE, string directory, int processes, size n, n × info; without groups of
// its own. The infos before the apps hold for all of them. The answer is a status, and if
// that is success group{string namespace}; what may follow is its job-level data, which
// clients otherwise ask for. The same in PMIx 3.2 to 6.1.
//
// The client sees to it that argv[0] is the command. Open MPI passes OMPI_PARENT_PORT and
// all its OMPI_MCA_ variables as variables, and makes of the keys of MPI_Info: host,
// hostfile, add-host, add-hostfile, wdir (which it always sets, Open MPI 4; 5 leaves it to
// the directory), env (further variables), map_by, rank_by, bind_to, ppr, npernode, mapper,
// ompi_prefix, personality, ompi_non_mpi, ompi_stdin_target, ….

// Attributes of a program that is to be spawned. What is not here is handed to the launcher
// as it is (world.SpawnApp.Info).
const (
	keyWorkDir     = "pmix.wdir"
	keyHosts       = "pmix.host"
	keyHostFile    = "pmix.hostfile"
	keyAddHosts    = "pmix.addhost"
	keyAddHostFile = "pmix.addhostfile"
	keySetVariable = "pmix.envar.set"
	keyAddVariable = "pmix.envar.add"
)

// maxSpawn is how many processes or programs one request may ask for.
const maxSpawn = world.MaxSpawn

// spawn serves SPAWN.
func (s *Server) spawn(q *request, d *decoder) func() status {
	forAll, apps := d.infoList(), listed(d, d.app)
	return func() status {
		wish, ok := readSpawn(q.who, forAll, apps)
		if !ok {
			return statusBadParameter
		}
		s.afterUnlock(func() { s.cfg.Launcher.Spawn(wish, func(name string, err error) { s.spawned(q, name, err) }) })
		return replied
	}
}

// spawned answers a SPAWN. A status is all that the program hears where it fails; the user is to read why.
func (s *Server) spawned(q *request, name string, err error) {
	if err != nil {
		s.cfg.Launcher.Say(q.who, "MPI_Comm_spawn: "+err.Error()+"\n")
		q.status(statusJobNotLaunched)
		return
	}
	var e encoder
	e.oneStatus(statusSuccess)
	e.oneString(name)
	q.reply(e.b)
}

// readSpawn puts a request in the launcher's terms. false: nobody can do that.
func readSpawn(by world.Proc, forAll []info, apps []app) (world.Spawn, bool) {
	wish := world.Spawn{By: by}
	left := maxSpawn
	for _, a := range apps {
		if a.maxProcs < 0 || a.maxProcs > left || a.command == "" && len(a.argv) == 0 {
			return wish, false
		}
		left -= a.maxProcs
		wish.Apps = append(wish.Apps, readApp(forAll, a))
	}
	return wish, len(apps) > 0 && left < maxSpawn
}

func readApp(forAll []info, a app) world.SpawnApp {
	p := world.SpawnApp{Program: a.command, NumRanks: a.maxProcs, Dir: a.dir, Env: withoutPlace(a.env)}
	if len(a.argv) > 0 {
		p.Args = a.argv[1:]
		if p.Program == "" {
			p.Program = a.argv[0]
		}
	}
	for _, list := range [][]info{forAll, a.infos} {
		for _, i := range list {
			readAppInfo(&p, i)
		}
	}
	return p
}

// placeVariables is how variables begin that say where the rank is which spawns. Open MPI
// sends them with all its OMPI_MCA_ ones, those among them that it sets for itself while it
// begins; the new ranks have places of their own.
var placeVariables = []string{"OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix"}

// withoutPlace is an environment without them.
func withoutPlace(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		return slices.ContainsFunc(placeVariables, func(p string) bool { return strings.HasPrefix(entry, p) })
	})
}

// readAppInfo adds what an attribute says. Of several that name hosts the last counts, and
// one that adds hosts to those of the job is a wish for these.
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

// text is what a string, a flag or a number says, in words.
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
