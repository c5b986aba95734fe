package testslurm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxDir is the maximum length of the folder, so that paths of sockets fit into 108 bytes:
// "/spool/n1000/n1000_12345.4294967291".
const maxDir = 60

// makeDir makes the cluster's folder, in /tmp if the temporary folder has too long a name.
func makeDir() (string, error) {
	parent := os.TempDir()
	if len(parent) > maxDir-len("/gorun-slurm-1234567890") {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, "gorun-slurm-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755) // jobs of other users read slurm.conf
}

// path returns the path of a file of the cluster.
func (c *Cluster) path(name ...string) string {
	return filepath.Join(append([]string{c.dir}, name...)...)
}

// writeFiles makes the files and folders of the daemons.
func (c *Cluster) writeFiles() error {
	var problems []error
	folders := []string{"munge", "state", "spool", "log", "gpu", "out"}
	for _, node := range c.Nodes() {
		folders = append(folders, filepath.Join("spool", node), filepath.Join("tmp", node))
	}
	for _, folder := range folders {
		problems = append(problems, os.MkdirAll(c.path(folder), 0o755))
	}
	key := make([]byte, 128)
	_, _ = rand.Read(key) // never fails
	for i := range c.config.GPUs {
		problems = append(problems, os.Symlink(os.DevNull, c.path("gpu", strconv.Itoa(i)))) // any device will do
	}
	text, err := c.slurmConf()
	problems = append(problems, err, os.WriteFile(c.path("munge", "key"), key, 0o600),
		os.WriteFile(c.ConfigFile(), []byte(text), 0o644))
	if c.config.GPUs > 0 {
		gres := fmt.Sprintf("NodeName=n[1-%d] Name=gpu File=%s\n", c.config.Nodes,
			c.path("gpu", fmt.Sprintf("[0-%d]", c.config.GPUs-1)))
		problems = append(problems, os.WriteFile(c.path("gres.conf"), []byte(gres), 0o644))
	}
	return errors.Join(problems...)
}

// slurmConf returns the text of slurm.conf(5). %n separates the daemons' files, also in TmpFS, where the PMIx plugin
// has a
// socket. config_overrides lets a node have more CPUs than the host; linuxproc and task/none need no cgroups. A
// batch job
// waits up to batch_sched_delay seconds for the scheduler.
func (c *Cluster) slurmConf() (string, error) {
	name, err := os.Hostname()
	if err != nil {
		return "", err
	}
	name, _, _ = strings.Cut(name, ".")
	ports, err := freePorts(c.config.Nodes + 1)
	if err != nil {
		return "", err
	}
	words := strings.NewReplacer("DIR", c.dir, "HOST", name, "PORT", ports[0], "KILLWAIT", strconv.Itoa(c.config.KillWait))
	lines := strings.Split(words.Replace(`ClusterName=one
SlurmctldHost=HOST(127.0.0.1)
SlurmctldPort=PORT
AuthType=auth/munge
AuthInfo=socket=DIR/munge/socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=DIR/state
SlurmdSpoolDir=DIR/spool/%n
SlurmctldPidFile=DIR/slurmctld.pid
SlurmdPidFile=DIR/slurmd-%n.pid
SlurmctldLogFile=DIR/log/slurmctld
SlurmdLogFile=DIR/log/%n
TmpFS=DIR/tmp/%n
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
InactiveLimit=0
KillWait=KILLWAIT
SlurmctldTimeout=60
SlurmdTimeout=60
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4`), "\n")
	gres := ""
	if c.config.GPUs > 0 {
		lines = append(lines, "GresTypes=gpu")
		gres = fmt.Sprintf(" Gres=gpu:%d", c.config.GPUs)
	}
	for i, node := range c.Nodes() {
		lines = append(lines,
			fmt.Sprintf("NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%s CPUs=%d RealMemory=1000%s State=UNKNOWN",
				node, name, ports[i+1], c.config.CPUs, gres))
	}
	return strings.Join(append(replaced(lines, c.config.Lines), c.config.Lines...), "\n") + "\n", nil
}

// replaced drops lines with the same key as a newer one.
func replaced(lines, newer []string) []string {
	key := func(line string) string {
		name, _, _ := strings.Cut(line, "=")
		return strings.ToLower(name)
	}
	return slices.DeleteFunc(lines, func(line string) bool {
		return slices.ContainsFunc(newer, func(other string) bool {
			return key(other) == key(line) && !strings.HasPrefix(key(line), "nodename")
		})
	})
}

// freePorts finds free TCP ports below the kernel's range for clients (32768 on), so that a daemon's port is still free
// after a restart.
func freePorts(n int) ([]string, error) {
	var (
		ports []string
		held  []net.Listener
	)
	defer func() {
		for _, l := range held {
			_ = l.Close()
		}
	}()
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		offset, err := rand.Int(rand.Reader, big.NewInt(20000))
		if err != nil {
			return nil, err
		}
		port := strconv.FormatInt(10000+offset.Int64(), 10)
		if l, err := net.Listen("tcp", ":"+port); err == nil {
			ports, held = append(ports, port), append(held, l)
		}
	}
	return nil, fmt.Errorf("find %d free TCP ports between 10000 and 30000: found %d", n, len(ports))
}
