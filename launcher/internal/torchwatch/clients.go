package torchwatch

import "golang.org/x/sys/unix"

// Clients maps the local ports of connections to a TCP port of this host to the leaders of the sessions that hold them.
// PyTorch's store clients before 2.5 do not identify their process.
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
