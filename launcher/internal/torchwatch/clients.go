package torchwatch

import "golang.org/x/sys/unix"

// Clients tells which sessions hold the clients' ends of connections to a TCP port
// of this host: leaders of sessions by the local ports of their processes' sockets.
// PyTorch's clients before 2.5 do not say which process they are.
func Clients(leaders []int, port uint16) map[uint16]int {
	clients, tables := map[uint16]int{}, tableCache{}
	for _, pid := range inSessions(leaders) {
		rows := tables.of(pid)
		for _, s := range socketsOf(pid) {
			if c, ok := rows[s.inode]; ok && c.State == unix.BPF_TCP_ESTABLISHED && c.Remote.Port() == port {
				clients[c.Local.Port()] = sessionOf(pid)
			}
		}
	}
	return clients
}
