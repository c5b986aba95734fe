package tcpstore_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"time"

	"gorun/rendezvous/tcpstore"
)

// Two ranks find each other: rank 1 waits for the address that rank 0 publishes.
func Example() {
	server, err := tcpstore.Listen(tcpstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := tcpstore.Dial(ctx, server.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	found := make(chan string)
	go func() { // rank 1
		value, err := client.Get(ctx, "addr/0")
		if err != nil {
			log.Fatal(err)
		}
		found <- string(value)
	}()
	if err := client.Set(ctx, "addr/0", []byte("10.0.0.1:4711")); err != nil { // rank 0
		log.Fatal(err)
	}
	fmt.Println(<-found)
	// Output: 10.0.0.1:4711
}

// Ranks count themselves, each getting another number.
func ExampleClient_Add() {
	server, err := tcpstore.Listen(tcpstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	client, err := tcpstore.Dial(ctx, server.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for range 2 {
		n, err := client.Add(ctx, "ranks", 1)
		fmt.Println(n, err)
	}
	// Output:
	// 1 <nil>
	// 2 <nil>
}

// A server that accepts the hosts of a cluster.
func ExampleAllowNetworks() {
	allow := tcpstore.AllowNetworks(netip.MustParsePrefix("10.0.0.0/8"))
	fmt.Println(allow(netip.MustParseAddr("10.1.2.3")), allow(netip.MustParseAddr("192.0.2.1")))
	// Output: true false
}
