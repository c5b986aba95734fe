package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testhosts"
	"gorun/internal/testneeds"
)

// TestHostsAndTheirLogins runs jobs over hosts with different logins, some of which fail.
func TestHostsAndTheirLogins(t *testing.T) {
	t.Parallel()
	f := raise(t, testhosts.Config{Hosts: 4})
	for name, test := range map[string]func(*testing.T, fleet){
		"jump host":                  throughJumpHost,
		"certificate":                byCertificate,
		"key of an agent alone":      byAgent,
		"encrypted key":              byEncryptedKey,
		"shells":                     throughShells,
		"host keys of other servers": hostKeys,
		"homes":                      withoutHomes,
	} {
		t.Run(name, func(t *testing.T) { test(t, f) }) // sequential: some tests change the hosts
	}
}

// edit makes an ssh configuration that differs from that of the set; old and new texts alternate.
func (f fleet) edit(t *testing.T, oldAndNew ...string) string {
	t.Helper()
	own, err := os.ReadFile(f.SSHConfig())
	require.NoError(t, err)
	text := strings.NewReplacer(oldAndNew...).Replace(string(own))
	require.NotEqual(t, string(own), text)
	return f.write(t, "edited-"+strings.NewReplacer("/", "-", " ", "-").Replace(t.Name()), text)
}

// setUp runs a program that must succeed.
func setUp(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
}

// keyCopy copies the set's key to a new file.
func (f fleet) keyCopy(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(f.Key())
	require.NoError(t, err)
	path := f.write(t, name, string(text))
	require.NoError(t, os.Chmod(path, 0o600))
	return path
}

// works runs ranks on h1 and h2 with an ssh configuration.
func (f fleet) works(t *testing.T, config string) result {
	t.Helper()
	got := f.under(config, append(words("-H h1:1,h2:1"), where...)...).run(t)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, "h1 h2", whereabouts(t, got))
	require.Equal(t, slots(2, "-H h1:1,h2:1"), saidBy(got))
	return got
}

// throughJumpHost: the head reaches h1 and h2 only through h3.
func throughJumpHost(t *testing.T, f fleet) {
	for _, host := range []string{"h1", "h2"} {
		require.NoError(t, f.IP(testhosts.Head, "route add blackhole "+f.Address(host)+"/32"))
		defer func() { require.NoError(t, f.IP(testhosts.Head, "route del blackhole "+f.Address(host)+"/32")) }()
	}
	got := f.gorun("-H", "h1,h2", "true").run(t)
	require.Equal(t, 125, got.code)
	require.Contains(t, got.stderr, "connect: ", got.stderr)
	f.works(t, f.configure(t, "Host h1 h2", "  ProxyJump h3"))
	require.Eventually(t, func() bool {
		sessions, err := f.Sessions("h3")
		return err == nil && len(sessions) == 0
	}, leaving, 5*time.Millisecond, "the jump host is left when the job is over")
}

func byCertificate(t *testing.T, f fleet) {
	authority, key := filepath.Join(f.Dir(), "authority"), filepath.Join(f.Dir(), "certified")
	setUp(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", authority)
	setUp(t, "ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", key)
	config := f.edit(t, f.Key(), key)
	got := f.under(config, "-H", "h1,h2", "true").run(t)
	require.Equal(t, 125, got.code)
	require.Regexp(t, `^gorun: h\S+: authentication: .* refuses the login; offered: `+regexp.QuoteMeta(key)+` SHA256:`,
		got.stderr)

	setUp(t, "ssh-keygen", "-q", "-s", authority, "-I", "test", "-n", "root", key+".pub")
	for _, host := range []string{"h1", "h2"} {
		require.NoError(t, f.SSHD(host).Start("TrustedUserCAKeys "+authority+".pub"))
	}
	f.works(t, config)
}

func byAgent(t *testing.T, f fleet) {
	key, socket := f.keyCopy(t, "for-the-agent"), filepath.Join(f.Dir(), "agent.socket")
	testneeds.SSHAgent(t, testneeds.LayerHosts, socket, key)
	require.NoError(t, os.Remove(key))
	f.works(t, f.edit(t, "IdentityAgent none", "IdentityAgent "+socket, "IdentitiesOnly yes", "IdentitiesOnly no",
		f.Key(), key))
}

// byEncryptedKey: gorun prompts for the passphrase once, on the terminal.
func byEncryptedKey(t *testing.T, f fleet) {
	key := f.keyCopy(t, "encrypted")
	setUp(t, "ssh-keygen", "-q", "-p", "-N", "open sesame", "-f", key)
	config := f.edit(t, f.Key(), key)

	silent := f.under(config, "-H", "h1,h2", "true")
	silent.argv = append([]string{"setsid", "--wait"}, silent.argv...)
	got := silent.run(t)
	require.Equal(t, 125, got.code, got.stderr)
	require.Contains(t, got.stderr, key+" needs a passphrase, and there is no terminal to ask for it")
	require.Contains(t, got.stderr, "gorun: hint: run `ssh-add "+key+"`")

	script := f.write(t, "ask.sh", "exec "+built("gorun")+" --ssh-config "+config+
		` -x 'INTEROP_*' -H h1:2,h2:1 sh -c 'echo met $RANK'`)
	typed, answer, err := os.Pipe()
	require.NoError(t, err)
	defer answer.Close()
	j := job{
		argv:  []string{testneeds.Program(t, "script", "script"), "-qec", "sh " + script, "/dev/null"},
		hosts: f.Set, stdin: typed,
	}
	r := j.start(t)
	require.True(t, r.until(t, &r.stdout, "Enter passphrase for key '"+key+"': ", 1), r.stdout.String())
	_, err = answer.WriteString("open sesame\n")
	require.NoError(t, err)
	got = r.wait(t)
	require.Zero(t, got.code, got.stdout)
	for _, line := range words("0 1 2") {
		require.Contains(t, got.stdout, "met "+line+"\r\n")
	}
	require.Equal(t, 1, strings.Count(got.stdout, "passphrase"), got.stdout)
	require.NotContains(t, got.stdout, "sesame")
}

// throughShells: output of login shells and sshd is not part of the job's output.
func throughShells(t *testing.T, f fleet) {
	banner := f.write(t, "banner", "a banner of three\nlines\nfor lawyers\n")
	line := []string{}
	for i, user := range []testhosts.User{
		{
			Name: "basher", Shell: "/bin/bash",
			Files: map[string]string{".bashrc": "echo hello from bash; echo warning >&2\ncd /\n"},
		},
		{
			Name: "fisher", Shell: "/usr/bin/fish",
			Files: map[string]string{".config/fish/config.fish": "echo hello from fish\nset -gx PATH /usr/bin /bin\n"},
		},
		{Name: "turtle", Shell: "/usr/bin/tcsh", Files: map[string]string{".tcshrc": "echo hello from tcsh\n"}},
	} {
		host := f.Hosts()[i]
		if _, err := os.Stat(user.Shell); err != nil {
			continue
		}
		_, err := f.AddUser(host, user)
		require.NoError(t, err)
		require.NoError(t, f.SSHD(host).Start("Banner "+banner))
		line = append(line, user.Name+"@"+host)
	}
	got := f.gorun("--chdir", "/", "-H", strings.Join(line, ","), "--stdin", "none", "sh", "-c",
		`echo "$(id -un) $HOME"`).run(t)
	require.Zero(t, got.code, got.stderr)
	for _, one := range line {
		name, _, _ := strings.Cut(one, "@")
		require.Contains(t, got.stdout, name+" /run/home/"+name+"\n")
	}
	require.Len(t, strings.Split(strings.TrimSpace(got.stdout), "\n"), len(line), got.stdout)
	require.Len(t, saidBy(got), 1, got.stderr)
}

// hostKeys: gorun reports each host's problem once, in the order of the hosts, with a hint. The other hosts run
// nothing.
func hostKeys(t *testing.T, f fleet) {
	all, err := os.ReadFile(f.KnownHosts())
	require.NoError(t, err)
	keys := map[string]string{} // one per host
	for _, line := range strings.Split(strings.TrimSpace(string(all)), "\n") {
		name, key, _ := strings.Cut(line, " ")
		name, _, _ = strings.Cut(name, ",")
		keys[name] = key
	}
	known := f.write(t, "known", "h1 "+keys["h1"]+"\nh3 "+keys["h4"]+"\nh4 "+keys["h4"]+"\n")
	require.NoError(t, os.Chmod(known, 0o600))
	config := f.edit(t, f.KnownHosts(), known)
	refused := func(options, says string) {
		t.Helper()
		got := f.under(config, append(words(options), "touch", "/tmp/started")...).run(t)
		require.Equal(t, 125, got.code, got.stderr)
		require.Regexp(t, "^"+says+"$", got.stderr)
		require.Error(t, f.Command("h4", "test", "-e", "/tmp/started").Run())
	}
	const changed = `gorun: h3: host key: THE HOST KEY HAS CHANGED: root@10\.77\.1\.3:22 shows SHA256:\S+ ` +
		`\(ed25519\), \S+/known:2 has SHA256:\S+ .*
gorun: hint: ask the host's administrator; if the new key is right, run .ssh-keygen -R h3 -f \S+/known.
`
	refused("-H nosuch@h1,h2,h3,h4", `gorun: h1: authentication: nosuch@10\.77\.1\.1:22 refuses the login; offered: .*
gorun: hint: run .ssh-copy-id .*nosuch@h1.
gorun: h2: host key: the host key of root@10\.77\.1\.2:22 is not known: SHA256:\S+ \(ed25519\)
gorun: hint: compare the fingerprint with the host's own, then run .ssh -F \S+ h2 true. or add .--ssh-accept-new.
`+changed)
	refused("--ssh-accept-new -H h1,h2,h3,h4", `gorun: added the host key of h2 to \S+/known: SHA256:\S+ \(ed25519\)
`+changed)
	text, err := os.ReadFile(known)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^\S*h2\S* `+regexp.QuoteMeta(keys["h2"])+`$`, string(text))
	f.works(t, config)
}

// withoutHomes: if the home directory is read-only or full, gorun copies itself to another directory.
func withoutHomes(t *testing.T, f fleet) {
	home, err := f.Command("h4", "sh", "-c", "cd; pwd").Output()
	require.NoError(t, err)
	path := strings.TrimSpace(string(home))
	require.NoError(t, f.Mount("h4", "-t", "tmpfs", "-o", "ro", "tmpfs", path))
	require.NoError(t, f.Mount("h3", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path))
	for range 2 { // without and with a copy in the cache
		got := f.gorun(append(words("-H h3:1,h4:1"), where...)...).run(t)
		require.Zero(t, got.code, got.stderr)
		require.Equal(t, slots(2, "-H h3:1,h4:1"), saidBy(got))
	}
	for _, host := range []string{"h3", "h4"} {
		out, err := f.Command(host, "find", "/tmp/gorun-0", "-name", "gorun", "-type", "f").Output()
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(out), "\n"), "%s: %s", host, out)
		out, err = f.Command(host, "find", path, "-type", "f").Output()
		require.NoError(t, err)
		require.Empty(t, string(out), "nothing half is left on %s", host)
	}
}
