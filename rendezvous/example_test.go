package rendezvous_test

import (
	"fmt"

	"gorun/rendezvous"
)

// A server calls Wait for its client, and learns from Wake when the key exists.
func ExampleEngine_Wait() {
	store := rendezvous.NewEngine()
	client := rendezvous.Waiter{Wake: func() { fmt.Println("woken") }}
	key := []byte("addr/0")
	if !store.Wait(&client, key) {
		fmt.Println("waiting")
	}
	store.Set(key, []byte("10.0.0.1:4711"))
	value, _ := store.Get(key)
	fmt.Printf("%s\n", value)
	// Output:
	// waiting
	// woken
	// 10.0.0.1:4711
}

// A barrier of two clients.
func ExampleEngine_Arrive() {
	store := rendezvous.NewEngine()
	for rank := range 2 {
		w := rendezvous.Waiter{Wake: func() { fmt.Println("rank", rank, "woken") }}
		full, err := store.Arrive(&w, []byte("barrier"), 2)
		fmt.Println("rank", rank, full, err)
	}
	// Output:
	// rank 0 false <nil>
	// rank 0 woken
	// rank 1 true <nil>
}
