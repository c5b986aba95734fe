package pmi_test

import (
	"bufio"
	"fmt"
	"net"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/pmi"
	"gorun/rendezvous/world"
)

// launcher implements what this example needs of a Launcher; one that starts processes implements all.
type launcher struct{ world.Launcher }

func (launcher) Began(p world.Proc, protocol string) { fmt.Println("rank", p.Rank, "speaks", protocol) }
func (launcher) Left(p world.Proc)                   {}

// A rank gets one end of a connection as PMI_FD, usually of a socket pair, and says what MPI_Init says.
func Example() {
	node := exchange.NewNode(0, func(*exchange.Message) error { return nil }) // a job of one node sends nothing
	server := pmi.New(pmi.Config{Exchange: node, Launcher: launcher{}})
	defer server.Close()
	server.Add(&world.World{
		Name: "w", Hosts: []string{"node1"}, Apps: []world.App{{NumRanks: 1}}, Ranks: []world.Rank{{}},
	})
	ours, rank := net.Pipe()
	go server.Serve(ours, world.Proc{World: "w", Rank: 0})

	replies := bufio.NewScanner(rank)
	for _, request := range []string{"cmd=init pmi_version=1 pmi_subversion=1", "cmd=get_my_kvsname"} {
		fmt.Fprintln(rank, request)
		replies.Scan()
		fmt.Println(replies.Text())
	}
	// Output:
	// rank 0 speaks PMI-1
	// cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0
	// cmd=my_kvsname kvsname=w rc=0
}
