package pmix_test

import (
	"fmt"
	"net"
	"os"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/pmix"
	"gorun/rendezvous/world"
)

// Serves the ranks of a job on one node. launcher starts their processes with the variable that this prints.
func ExampleServer() {
	var launcher world.Launcher
	node := exchange.NewNode(0, func(*exchange.Message) error { return nil }) // a job of one node sends nothing
	server := pmix.New(pmix.Config{
		Exchange: node, Launcher: launcher, UID: os.Getuid(),
		Dir: func() (string, error) { return os.MkdirTemp("", "pmix-") },
	})
	defer server.Close()
	server.Add(&world.World{
		Name: "w", Hosts: []string{"node1"}, Apps: []world.App{{NumRanks: 1}}, Ranks: []world.Rank{{}},
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("PMIX_SERVER_URI3=" + pmix.URI(0, listener.Addr().(*net.TCPAddr).Port))
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go server.Serve(conn, world.Proc{}) // the client says which rank it is
	}
}
