package testhosts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/internal/testneeds"
)

// ssh runs a command on a host through the client, from the head.
func ssh(t *testing.T, set *Set, args ...string) (string, error) {
	t.Helper()
	out, err := set.Command(Head, append([]string{"ssh", "-F", set.SSHConfig()}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func requireSSH(t *testing.T, set *Set, want string, args ...string) {
	t.Helper()
	out, err := ssh(t, set, args...)
	require.NoError(t, err, out)
	require.Equal(t, want, out)
}

// unreachable asks a host once, with a deadline that only a host that is there keeps.
func unreachable(t *testing.T, set *Set, host string) {
	t.Helper()
	out, err := ssh(t, set, "-o", "ConnectTimeout=1", host, "true")
	require.Error(t, err, out)
}

func TestEveryHostAnswers(t *testing.T) {
	t.Parallel()
	set := Up(t, Config{Hosts: 4, PrivateHome: true})
	require.Equal(t, []string{"h1", "h2", "h3", "h4"}, set.Hosts())
	for _, host := range append(set.Hosts(), Head) {
		requireSSH(t, set, host, host, "hostname")
		requireSSH(t, set, host, host+".alias", "-o", "HostName="+set.Address(host), "-o", "HostKeyAlias="+host, "hostname")
	}
	names, err := os.ReadFile(set.HostFile())
	require.NoError(t, err)
	require.Equal(t, "h1\nh2\nh3\nh4\n", string(names))
}

func TestHostsDiffer(t *testing.T) {
	t.Parallel()
	set := Up(t, Config{Hosts: 2, PrivateHome: true})
	for _, what := range []string{
		"cat /proc/sys/kernel/random/boot_id", "cat /etc/machine-id",
		"readlink /proc/self/ns/ipc", "ls -di /dev/shm /run", "hostname",
	} {
		one, err := ssh(t, set, "h1", what)
		require.NoError(t, err, one)
		two, err := ssh(t, set, "h2", what)
		require.NoError(t, err, two)
		if strings.HasPrefix(what, "ls") {
			continue // numbers of inodes may agree; that the files differ is seen below
		}
		require.NotEqual(t, one, two, what)
	}
	requireSSH(t, set, "", "h1", "touch /dev/shm/mine /run/mine")
	requireSSH(t, set, "", "h2", "test ! -e /dev/shm/mine && test ! -e /run/mine")
	requireSSH(t, set, "eth0\nlo", "h1", "ls /sys/class/net")
	requireSSH(t, set, "cat", "h1", "cat /proc/1/comm")
	requireSSH(t, set, set.Address("h2")+" h2", "h1", "getent hosts h2 | tr -s ' '")
	require.NoFileExists(t, "/dev/shm/mine")
}

func TestCommandOnTheHeadIsTheProcess(t *testing.T) {
	t.Parallel()
	set := Up(t, Config{Hosts: 1, PrivateHome: true})
	cmd := set.Command(Head, "sh", "-c", "echo $$; pwd; exec cat")
	cmd.Dir = t.TempDir()
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.NoError(t, stdin.Close())
	var said strings.Builder
	buffer := make([]byte, 4096)
	for {
		n, err := stdout.Read(buffer)
		said.Write(buffer[:n])
		if err != nil {
			break
		}
	}
	require.NoError(t, cmd.Wait())
	lines := strings.Fields(said.String())
	require.Len(t, lines, 2)
	require.Equal(t, []string{strconv.Itoa(cmd.Process.Pid), cmd.Dir}, lines)

	cmd = set.Command(Head, "cat")
	stdin, err = cmd.StdinPipe()
	require.NoError(t, err)
	defer stdin.Close()
	require.NoError(t, cmd.Start())
	waitForProcess(t, set, Head, "cat")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, cmd.Wait())
	require.Equal(t, syscall.SIGTERM, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
}

// waitForProcess returns the only process of a host whose argv is that.
func waitForProcess(t *testing.T, set *Set, host, args string) Process {
	t.Helper()
	var match Process
	require.NoError(t, until("see "+args, func() (bool, error) {
		all, err := set.Processes(host)
		for _, p := range all {
			if strings.Join(p.Args, " ") == args {
				match = p
			}
		}
		return match.PID != 0, err
	}))
	return match
}

func TestWhatAJobLeftBehindIsListed(t *testing.T) {
	t.Parallel()
	set := Up(t, Config{Hosts: 2, PrivateHome: true})
	requireSSH(t, set, "", "h1", "setsid sleep 4242 </dev/null >/dev/null 2>&1 &")
	left := waitForProcess(t, set, "h1", "sleep 4242")
	require.NotEqual(t, left.PID, left.HostPID)
	for _, host := range []string{Head, "h2"} {
		others, err := set.Processes(host)
		require.NoError(t, err)
		require.Empty(t, others, host)
	}
	require.NoError(t, set.Signal("h1", left, syscall.SIGKILL))
	require.NoError(t, until("end it", func() (bool, error) {
		all, err := set.Processes("h1")
		return len(all) == 0, err
	}))
}

func TestCutAndHeal(t *testing.T) {
	t.Parallel()
	set := Up(t, Config{Hosts: 2, PrivateHome: true})
	require.NoError(t, set.Cut("h1"))
	carrier, err := set.Command("h1", "cat", "/sys/class/net/eth0/carrier").Output()
	require.NoError(t, err)
	require.Equal(t, "0\n", string(carrier))
	unreachable(t, set, "h1")
	requireSSH(t, set, "h2", "h2", "hostname")
	require.NoError(t, set.Heal("h1"))
	requireSSH(t, set, "h1", "-o", "ConnectionAttempts=20", "h1", "hostname") // the kernel sees the carrier later
}

func TestBlackhole(t *testing.T) {
	t.Parallel()
	set := Up(t, Config{Hosts: 1, PrivateHome: true})
	require.NoError(t, set.Blackhole("h1"))
	carrier, err := set.Command("h1", "cat", "/sys/class/net/eth0/carrier").Output()
	require.NoError(t, err)
	require.Equal(t, "1\n", string(carrier))
	unreachable(t, set, "h1")
	require.NoError(t, set.Heal("h1"))
	requireSSH(t, set, "h1", "h1", "hostname")
}

func TestCrashAndBoot(t *testing.T) {
	t.Parallel()
	set := Up(t, Config{Hosts: 2, PrivateHome: true})
	requireSSH(t, set, "", "h1", "setsid sleep 4242 </dev/null >/dev/null 2>&1 &")
	require.NoError(t, set.Crash("h1"))
	left, err := within(set.hosts["h1"].space)
	require.NoError(t, err)
	require.Empty(t, left)
	unreachable(t, set, "h1")
	require.ErrorContains(t, set.Crash(Head), "the head")
	require.ErrorContains(t, set.Boot("h2"), "it runs")
	require.NoError(t, set.Boot("h1"))
	requireSSH(t, set, "h1", "h1", "hostname")
}

func TestFreezeAndThaw(t *testing.T) {
	t.Parallel()
	set := Up(t, Config{Hosts: 1, PrivateHome: true})
	require.NoError(t, set.Freeze("h1"))
	unreachable(t, set, "h1")
	require.NoError(t, set.Thaw("h1"))
	requireSSH(t, set, "h1", "h1", "hostname")
}

func TestDownLeavesNothing(t *testing.T) {
	t.Parallel()
	testneeds.Hosts(t)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	set, err := Start(Config{Hosts: 2, PrivateTmp: true, PrivateHome: true})
	require.NoError(t, err)
	requireSSH(t, set, "", "h1", "setsid sleep 4242 </dev/null >/dev/null 2>&1 &")
	onHead := set.Command(Head, "sleep", "4242")
	require.NoError(t, onHead.Start())
	var networks []*space
	for _, one := range set.spaces() { // Down closes what it knows them by
		copied := &space{pid: one.pid}
		require.NoError(t, copied.identify())
		networks = append(networks, copied)
	}
	require.NoError(t, set.Down())
	require.Error(t, onHead.Wait())
	left, err := within(networks...)
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoDirExists(t, set.Dir())
	require.NotContains(t, string(mounts), set.Dir())
	require.NoError(t, set.Down(), "again")
}

// holderVariable makes TestHolder the process that has a set and is killed.
const holderVariable = "TESTHOSTS_HOLDER"

func TestHolder(t *testing.T) {
	if os.Getenv(holderVariable) == "" {
		return
	}
	set, err := Start(Config{Hosts: 2, PrivateHome: true})
	require.NoError(t, err)
	require.NoError(t, set.Command("h1", "setsid", "-f", "sleep", "4242").Run())
	require.NoError(t, set.Command(Head, "setsid", "-f", "sleep", "4242").Run())
	text := "dir=" + set.Dir()
	for _, one := range set.spaces() {
		text += fmt.Sprint(" ", one.pid)
	}
	_, err = os.Stdout.WriteString(text + "\n")
	require.NoError(t, err)
	select {}
}

func TestHostsGoWithTheProcessThatMadeThem(t *testing.T) {
	t.Parallel()
	testneeds.Hosts(t)
	holder := exec.Command(os.Args[0], "-test.run=^TestHolder$", "-test.v")
	holder.Env = append(os.Environ(), holderVariable+"=1")
	stdout, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	said, buffer := "", make([]byte, 4096)
	for !strings.Contains(said, "dir=") || !strings.HasSuffix(said, "\n") {
		n, err := stdout.Read(buffer)
		require.NoError(t, err, said)
		said += string(buffer[:n])
	}
	_, said, _ = strings.Cut(strings.TrimSpace(said), "dir=")
	dir, pids, _ := strings.Cut(said, " ")
	var spaces []*space
	for _, text := range strings.Fields(pids) {
		pid, err := strconv.Atoi(text)
		require.NoError(t, err)
		spaces = append(spaces, &space{pid: pid})
		require.NoError(t, spaces[len(spaces)-1].identify())
	}
	require.NoError(t, holder.Process.Kill())
	require.Error(t, holder.Wait())
	require.NoError(t, until("end the hosts", func() (bool, error) {
		left, err := within(spaces...)
		_, gone := os.Stat(dir)
		return len(left) == 0 && gone != nil, err
	}))
}

func TestTwoSetsDoNotMeet(t *testing.T) {
	t.Parallel()
	one, two := Up(t, Config{Hosts: 2, PrivateHome: true}), Up(t, Config{Hosts: 2, PrivateHome: true})
	requireSSH(t, one, "", "h1", "touch /run/first")
	requireSSH(t, two, "", "h1", "test ! -e /run/first")
	out, err := one.Command(Head, "ssh", "-F", two.SSHConfig(), "h1", "true").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "Host key verification failed")
}

func TestSixteenHosts(t *testing.T) {
	begun := time.Now()
	set := Up(t, Config{Hosts: 16, PrivateHome: true})
	t.Logf("16 hosts in %v", time.Since(begun))
	for _, host := range set.Hosts() {
		requireSSH(t, set, host, host, "hostname")
	}
}

func TestPrivateFolders(t *testing.T) {
	t.Parallel()
	set := Up(t, Config{Hosts: 1, PrivateTmp: true, PrivateHome: true})
	require.NoError(t, os.WriteFile(filepath.Join(set.Home("h1"), ".hushlogin"), nil, 0o644))
	requireSSH(t, set, ".hushlogin", "h1", "ls -A ~")
	here, err := os.Getwd()
	require.NoError(t, err)
	requireSSH(t, set, "", "h1", fmt.Sprintf("test -e %q/set_test.go && test -e %q && test -r %q", here, os.Args[0],
		set.Key()))
	other := t.TempDir() // in /tmp, as a rule
	if strings.HasPrefix(other, "/tmp/") {
		requireSSH(t, set, "", "h1", "test ! -e "+other)
	}
}

func TestNoNames(t *testing.T) {
	t.Parallel()
	set := Up(t, Config{Hosts: 1, NoNames: true})
	out, err := ssh(t, set, "h1", "getent hosts h1")
	require.Error(t, err, out)
}

func TestUnknownHost(t *testing.T) {
	set := &Set{names: []string{Head, "h1"}, hosts: map[string]*host{}}
	require.ErrorContains(t, set.Cut("h9"), `no host "h9": there are head, h1`)
	require.ErrorContains(t, set.Command("h9", "true").Run(), `no host "h9"`)
	require.Panics(t, func() { set.Address("h9") })
	_, err := Start(Config{})
	require.ErrorContains(t, err, "1 to 1000")
}

func TestAnotherPort(t *testing.T) {
	t.Parallel()
	set := Up(t, Config{Hosts: 2, PrivateHome: true, SSHD: []string{"MaxStartups 3"}})
	require.NoError(t, set.SSHD("h1").Start("Port 2222", "Banner "+set.HostFile()))
	out, err := ssh(t, set, "h1", "hostname")
	require.NoError(t, err, out)
	require.Equal(t, "h1\nh2\nh1", out)
	out, err = ssh(t, set, "-p", "22", "h1", "true")
	require.Error(t, err)
	require.Contains(t, out, "Connection refused")
	requireSSH(t, set, "h2", "h2", "hostname")
	require.ErrorContains(t, set.SSHD("h2").Start("Nonsense yes"), "Nonsense")
}

func TestSSHDStopsAndStarts(t *testing.T) {
	t.Parallel()
	set := Up(t, Config{Hosts: 1, PrivateHome: true})
	session := set.Command(Head, "ssh", "-F", set.SSHConfig(), "h1", "exec sleep 4242")
	require.NoError(t, session.Start())
	waitForProcess(t, set, "h1", "sleep 4242")
	serving, err := set.Sessions("h1")
	require.NoError(t, err)
	require.NotEmpty(t, serving)
	require.NoError(t, set.SSHD("h1").Stop())
	out, err := ssh(t, set, "h1", "true")
	require.Error(t, err)
	require.Contains(t, out, "Connection refused")
	waitForProcess(t, set, "h1", "sleep 4242")
	require.NoError(t, set.SSHD("h1").Start())
	requireSSH(t, set, "h1", "h1", "hostname")
	require.NoError(t, set.SSHD("h1").Freeze())
	unreachable(t, set, "h1")
	require.NoError(t, set.SSHD("h1").Thaw())
	requireSSH(t, set, "h1", "h1", "hostname")
	require.NoError(t, set.SSHD("h1").Kill())
	require.Error(t, session.Wait())
	serving, err = set.Sessions("h1")
	require.NoError(t, err)
	require.Empty(t, serving)
}

func TestUsersAndShells(t *testing.T) {
	t.Parallel()
	machine, err := os.ReadFile("/etc/passwd")
	require.NoError(t, err)
	set := Up(t, Config{Hosts: 2, PrivateHome: true})
	home, err := set.AddUser("h1",
		User{Name: "ada", Shell: "/bin/bash", Files: map[string]string{".bashrc": "echo welcome\n"}})
	require.NoError(t, err)
	requireSSH(t, set, "welcome\nada /run/home/ada 2000", "-l", "ada", "h1", "echo $(id -un) ~ $(id -u); touch here")
	require.FileExists(t, filepath.Join(home, "here"))
	_, err = set.AddUser("h1", User{Name: "bob"})
	require.NoError(t, err)
	requireSSH(t, set, "2001", "-l", "bob", "h1", "id -u")
	out, err := ssh(t, set, "-l", "ada", "h2", "true")
	require.Error(t, err, out)

	shell := testneeds.Program(t, testneeds.LayerHosts, "tcsh")
	require.NoError(t, set.SetShell("h1", "root", shell))
	requireSSH(t, set, "tcsh", "h1", "ps -o comm= -p $$")
	require.Error(t, set.SetShell("h1", "nobody-of-that-name", shell))
	require.NoError(t, set.Crash("h1"))
	require.NoError(t, set.Boot("h1"))
	requireSSH(t, set, "welcome\n/run/home/ada", "-l", "ada", "h1", "pwd")
	now, err := os.ReadFile("/etc/passwd")
	require.NoError(t, err)
	require.Equal(t, string(machine), string(now))
}

func TestUserCA(t *testing.T) {
	t.Parallel()
	set := Up(t, Config{Hosts: 1, PrivateHome: true})
	ca, key := filepath.Join(set.Dir(), "ca"), filepath.Join(set.Dir(), "certified")
	require.NoError(t, makeKey(ca, "ca"))
	require.NoError(t, makeKey(key, "user"))
	out, err := exec.Command("ssh-keygen", "-q", "-s", ca, "-I", "tester", "-n", "root", key+".pub").CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, set.SSHD("h1").Start("TrustedUserCAKeys "+ca+".pub", "AuthorizedKeysFile none"))
	said, err := ssh(t, set, "h1", "true")
	require.Error(t, err)
	require.Contains(t, said, "Permission denied")
	requireSSH(t, set, "h1", "-i", key, "h1", "hostname")
}

func TestInterfaces(t *testing.T) {
	t.Parallel()
	set := Up(t, Config{Hosts: 2, PrivateHome: true})
	for i, host := range set.Hosts() {
		number := strconv.Itoa(i + 1)
		for _, one := range []Interface{
			{Name: "docker0", Kind: "bridge", Addresses: []string{"172.17.0.1/16"}},
			{
				Name: "fast0", Bridge: "fast", Addresses: []string{"10.9.0." + number + "/24", "fd09::" + number + "/64"},
				MTU: 9000,
			},
			{Name: "vpn0", Addresses: []string{"10.8.0.1/24"}},
			{Name: "off0", Addresses: []string{"10.7.0.1/24"}, Down: true},
			{Name: "loose0", NoCarrier: true},
			{Name: "tun0", Kind: "tun"},
		} {
			require.NoError(t, set.AddInterface(host, one), one.Name)
		}
	}
	requireSSH(t, set, "docker0\neth0\nfast0\nlo\nloose0\noff0\ntun0\nvpn0", "h1", "ls /sys/class/net")
	requireSSH(t, set, "0\n1\n1\n0\n9000", "h1",
		"cd /sys/class/net; cat docker0/carrier fast0/carrier vpn0/carrier loose0/carrier fast0/mtu")
	for _, address := range []string{"10.9.0.2", "fd09::2"} { // between the hosts alone: the head is not on that network
		out, err := set.Command("h1", "bash", "-c", "exec 3<>/dev/tcp/"+address+"/22 && head -c 4 <&3").CombinedOutput()
		require.NoError(t, err, string(out))
		require.Equal(t, "SSH-", string(out))
	}
	require.NoError(t, set.AddAddress("h1", "eth0", "fd77::1/64"))
	requireSSH(t, set, "1", "h1", "ip -o addr show dev eth0 | grep -c fd77::1/64")
	require.NoError(t, set.RemoveAddress("h1", "eth0", "fd77::1/64"))
	require.NoError(t, set.IP("h1", "route add blackhole 10.200.0.0/16", "link set vpn0 down"))
	require.ErrorContains(t, set.IP("h1", "link set nowhere0 up"), "nowhere0")
}

func TestMount(t *testing.T) {
	t.Parallel()
	set := Up(t, Config{Hosts: 2, PrivateHome: true})
	data := t.TempDir()
	require.NoError(t, set.Mount("h1", "-t", "tmpfs", "-o", "size=64k", "tmpfs", data))
	out, err := ssh(t, set, "h1", "head -c 100000 /dev/zero >"+data+"/big")
	require.Error(t, err)
	require.Contains(t, out, "No space left")
	require.NoFileExists(t, filepath.Join(data, "big"))
	require.NoError(t, set.Mount("h2", "--bind", data, data))
	require.NoError(t, set.Mount("h2", "-o", "remount,ro,bind", data))
	out, err = ssh(t, set, "h2", "touch "+data+"/file")
	require.Error(t, err)
	require.Contains(t, out, "Read-only")
}

func TestSlow(t *testing.T) {
	t.Parallel()
	set := Up(t, Config{Hosts: 2, PrivateHome: true})
	roundTrip := func() time.Duration {
		begun := time.Now()
		out, err := set.Command("h2", "bash", "-c", "exec 3<>/dev/tcp/"+set.Address("h1")+
			"/22 && head -c 4 <&3").CombinedOutput()
		require.NoError(t, err, string(out))
		return time.Since(begun)
	}
	if err := set.Slow("h1", 300*time.Millisecond); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		testneeds.Skip(t, testneeds.LayerHosts, err.Error())
	} else {
		require.NoError(t, err)
	}
	require.GreaterOrEqual(t, roundTrip(), 600*time.Millisecond, "the least that light needs: it may take longer")
	require.NoError(t, set.Cut("h1"))
	require.NoError(t, set.Heal("h1"))
	require.GreaterOrEqual(t, roundTrip(), 600*time.Millisecond, "still slow")
	require.NoError(t, set.Slow("h1", time.Millisecond))
	requireSSH(t, set, "h1", "h1", "hostname")
	require.NoError(t, set.Slow("h1", 0))
	requireSSH(t, set, "h1", "h1", "hostname")
}

// A thread with another network must never be the one that /proc shows for the process: Down would take that for one of
// the hosts'.
func TestOwnThreadIsNotTheFirst(t *testing.T) {
	for range 200 {
		onOwnThread(func() { require.NotEqual(t, unix.Getpid(), unix.Gettid()) })
	}
}
