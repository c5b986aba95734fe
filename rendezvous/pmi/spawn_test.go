package pmi

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

// twoPrograms is a spawn of two programs in the format of MPICH 4.0, with preput in each block.
const twoPrograms = `mcmd=spawn
nprocs=2
execname=./child
totspawns=2
spawnssofar=1
arg1=a b=c
arg2=
argcnt=2
preput_num=1
preput_key_0=PARENT_ROOT_PORT_NAME
preput_val_0=tag#0$x y$
info_num=6
info_key_0=wdir
info_val_0=/a dir
info_key_1=hosts
info_val_1=n1:2,n2
info_key_2=path
info_val_2=/opt/bin:/bin
info_key_3=hostfile
info_val_3=/etc/hosts
info_key_4=env
info_val_4=A=b=c
info_key_5=soft
info_val_5=1:2
endcmd
mcmd=spawn
nprocs=1
execname=other
totspawns=2
spawnssofar=2
argcnt=0
preput_num=1
preput_key_0=PARENT_ROOT_PORT_NAME
preput_val_0=tag#0$x y$
info_num=0
endcmd
`

// wanted is the spawn in twoPrograms.
func wanted(by world.Proc) world.Spawn {
	return world.Spawn{
		By: by, Preput: []world.Pair{{Key: "PARENT_ROOT_PORT_NAME", Value: "tag#0$x y$"}},
		Apps: []world.SpawnApp{
			{
				Program: "./child", Path: "/opt/bin:/bin", Args: []string{"a b=c", ""}, NumRanks: 2, Dir: "/a dir",
				Env:   []string{"A=b=c"},
				Hosts: "n1:2,n2", HostFile: "/etc/hosts", Info: []world.Pair{{Key: "soft", Value: "1:2"}},
			},
			{Program: "other", Args: []string{}, NumRanks: 1},
		},
	}
}

func TestSpawnIsRead(t *testing.T) {
	by := world.Proc{World: "w", Rank: 3}
	list, _ := requests(twoPrograms, false)
	require.Len(t, list, 1)
	got, err := spawnOf(by, list[0])
	require.NoError(t, err)
	require.Equal(t, wanted(by), got)

	f, err := parseFrame("cmd=spawn;ncmds=2;preputcount=1;ppkey0=PARENT_ROOT_PORT_NAME;ppval0=tag#0$x y$;" +
		"subcmd=./child;maxprocs=2;argc=2;argv0=a b=c;argv1=;infokeycount=6;infokey0=wdir;infoval0=/a " +
		"dir;infokey1=host;infoval1=n1:2,n2;" +
		"infokey2=path;infoval2=/opt/bin:/bin;infokey3=hostfile;infoval3=/etc/hosts;infokey4=env;infoval4=A=b=c;infoke" +
		"y5=soft;infoval5=1:2;" +
		"subcmd=other;maxprocs=1;argc=0;")
	require.NoError(t, err)
	got, err = spawnOf(by, request{fields: f, framed: true})
	require.NoError(t, err)
	require.Equal(t, wanted(by), got)
}

func TestSpawnThatNoClientSends(t *testing.T) {
	for replace, want := range map[string]string{
		"nprocs=2 > nprocs=-1":     "nprocs=",
		"nprocs=2 > nprocs=65536":  "nprocs=", // too many together with those of the other program
		"nprocs=2 > nprocs=x":      "nprocs=",
		"execname=./child > a=":    "without the name of a program",
		"argcnt=2 > argcnt=9":      "argcnt=9 and without arg3",
		"argcnt=2 > argcnt=999":    "argcnt=",
		"arg2= > nprocs=":          `with "nprocs" twice`,
		"info_num=6 > info_num=7":  "info_num=7 and without info_key_6",
		"preput_val_0= > nothing=": "preput_num=1 and without preput_val_0",
	} {
		old, new, _ := strings.Cut(replace, " > ")
		list, _ := requests(strings.Replace(twoPrograms, old, new, 1), false)
		require.Len(t, list, 1, replace)
		_, err := spawnOf(world.Proc{}, list[0])
		var bad *malformedError
		require.ErrorAs(t, err, &bad, replace)
		require.ErrorContains(t, err, want, replace)
	}
	for _, body := range []string{
		"cmd=spawn;", "cmd=spawn;ncmds=2;subcmd=a;maxprocs=1;",
		"cmd=spawn;ncmds=1;subcmd=a;maxprocs=1;argc=1;",
	} {
		f, err := parseFrame(body)
		require.NoError(t, err)
		_, err = spawnOf(world.Proc{}, request{fields: f, framed: true})
		require.Error(t, err, body)
	}
}

func TestSpawn(t *testing.T) {
	c := newCluster(t, 2, 0)
	w := c.add(newWorld("w", 0, 1))
	child := newWorld("w-child", 1, 1, 1)
	c.log.spawn = func(s world.Spawn) (string, error) {
		child.Parent, child.Preput = s.By, s.Preput
		return c.add(child).Name, nil
	}
	parent, other := c.begun(w, 0), c.begun(w, 1)
	parent.send(twoPrograms)
	parent.receives("cmd=spawn_result rc=0 errcodes=0,0,0")
	require.Equal(t, []world.Spawn{wanted(parent.p)}, c.log.spawns)

	first := c.begun(child, 0)
	first.asks("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=w-child rc=0")
	first.asks("cmd=get kvsname=w-child key=PARENT_ROOT_PORT_NAME", "cmd=get_result rc=0 msg=success value=tag#0$x y$")
	// Each world can read the other's keys. A node without ranks of that world requests them.
	first.asks("cmd=put kvsname=w-child key=card value=of-child", "cmd=put_result rc=0 msg=success")
	parent.asks("cmd=get kvsname=w-child key=card", "cmd=get_result rc=0 msg=success value=of-child")
	other.asks("cmd=get kvsname=w-child key=card", "cmd=get_result rc=0 msg=success value=of-child")
	parent.asks("cmd=get kvsname=w-child key=none", "cmd=get_result rc=-1 msg=key_none_not_found value=unknown")
	parent.asks("cmd=get kvsname=nobody key=none", "cmd=get_result rc=-1 msg=key_none_not_found value=unknown")
	parent.asks("cmd=get kvsname=w-child key=PMI_process_mapping",
		"cmd=get_result rc=0 msg=success value=(vector,(1,1,3))")

	c.log.answerSpawns(func(world.Spawn) (string, error) { return "", errors.New("exec ./child: no such file") })
	parent.send(twoPrograms)
	parent.receives("cmd=spawn_result rc=-1 msg=exec_./child:_no_such_file")
	c.log.await(t, "say w.0: MPI_Comm_spawn: exec ./child: no such file")
}

// Lines of env that are not variables are skipped.
func TestTheEnvironmentOfASpawn(t *testing.T) {
	var app world.SpawnApp
	applyInfo(&app, world.Pair{Key: "env", Value: "A=b\n=no name\nno value\n\nB=\nC=a\x00b"})
	require.Equal(t, []string{"A=b", "B="}, app.Env)
}

func TestSpawnResultFitsOldLines(t *testing.T) {
	for _, n := range []int{1, 400, 600} {
		text := request{reply: "spawn_result"}.text(append([]string{"rc", "0"}, errorCodes(n)...)...)
		require.Less(t, len(text), replyMax+1)
		require.Equal(t, n < 500, strings.Contains(text, "errcodes=0"))
	}
}
