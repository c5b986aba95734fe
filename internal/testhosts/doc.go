// Package testhosts makes hosts h1 to hN and head on one Linux machine, for tests that start programs over SSH.
//
// Each host is a set of namespaces (network, UTS, IPC, mount, PID) with its own hostname, address, /proc,
// /sys/class/net, /dev/shm, /run, users, boot id and a real sshd of OpenSSH with its own host key. A bridge in a
// namespace of its own connects them; it is not connected to any other network. The machine's interfaces, routes, /etc
// and ~/.ssh are never changed, no port is opened outside the namespaces, and nothing has a fixed name, so that any
// number of sets may exist at once.
//
//	set := testhosts.Up(t, testhosts.Config{Hosts: 4}) // skips without root; ends with the test
//	out, err := set.Command("head", "ssh", "-F", set.SSHConfig(), "h2", "hostname").CombinedOutput()
//	require.NoError(t, set.Cut("h3"))                   // unplugs h3
//	require.NoError(t, set.Impair("h3", testhosts.Impairment{Loss: 0.1, Seed: 1}))
//	left, err := set.Processes("h2")                    // orphans of a job
//
// The launcher runs on the head, which has no PID namespace: the process that [Set.Command] starts there is the command
// itself and receives its signals. head is 10.77.0.1, h1 10.77.1.1, h2 10.77.1.2 and so on, all in 10.77.0.0/16 on
// eth0.
//
// All hosts see the machine's files, except for what [Config] and [Set.Mount] change. Root's home is the machine's
// unless
// PrivateHome is set, which a test of a program with files at home should do. The hosts share the kernel, clock,
// CPUs and
// GPUs. [Set.Crash] closes sockets silently, as the link goes down first, but no machine reboots.
//
// The command in cmd/testhosts does the same by hand:
//
//	go run ./internal/testhosts/cmd/testhosts 4
package testhosts
