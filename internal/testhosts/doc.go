// Package testhosts makes hosts h1 to hN and head on one Linux machine, for tests of what starts programs over SSH.
//
// Each host is a set of namespaces (network, UTS, IPC, mount, PID) with its own hostname, address, /proc,
// /sys/class/net, /dev/shm, /run, users, boot id and a real sshd of OpenSSH with its own host key. A bridge in a
// namespace of its own joins them; there is no way from it to any other network. The machine's interfaces, routes, /etc
// and ~/.ssh are never changed, no port is opened outside the namespaces, and nothing has a fixed name, so that any
// number of sets may exist at once.
//
//	set := testhosts.Up(t, testhosts.Config{Hosts: 4}) // skips without root; down by itself when the test ends
//	out, err := set.Command("head", "ssh", "-F", set.SSHConfig(), "h2", "hostname").CombinedOutput()
//	require.NoError(t, set.Cut("h3"))                   // pulls h3's cable
//	require.NoError(t, set.Impair("h3", testhosts.Impairment{Loss: 0.1, Seed: 1}))
//	left, err := set.Processes("h2")                    // what a job left behind there
//
// The head is where a launcher belongs: it has no PID namespace, so the process that [Set.Command] starts there is the
// command itself and signals reach it. head is 10.77.0.1, h1 10.77.1.1, h2 10.77.1.2 and so on, all in 10.77.0.0/16 on
// eth0.
//
// All hosts see the machine's files; [Config] and [Set.Mount] make them differ. Root's home is the machine's unless
// PrivateHome is set: what a test has written there it must remove, so set it where a program keeps files at home. Not
// modelled: the kernel, clock, CPUs and GPUs are shared, and [Set.Crash] closes sockets silently because the link goes
// down first, but no machine reboots.
//
// The command in cmd/testhosts does the same by hand:
//
//	go run ./internal/testhosts/cmd/testhosts up 4
package testhosts
