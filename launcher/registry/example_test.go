package registry_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"gorun/launcher/registry"
)

// A job tells another process of the same user how it is.
func Example() {
	runtime, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(runtime)
	places := registry.Places(runtime) // "" is $XDG_RUNTIME_DIR's place in gorun
	answer := func(_ context.Context, request registry.Request, send func(part any) error) {
		if request.Kind == registry.JobRequest {
			_ = send(registry.Job{Program: "train.py", NumRanks: 4})
		}
	}
	id := registry.ID("4b1d0c5e9f8a77665544332211009988") // the job's
	entry, err := registry.Register(places, id, func(string) {}, answer)
	if err != nil {
		log.Fatal(err)
	}
	defer entry.Close()

	for _, job := range registry.Find(places) {
		request := registry.Request{Kind: registry.JobRequest}
		state, pid, err := registry.Get[registry.Job](context.Background(), job, request)
		fmt.Println(state.Program, state.NumRanks, pid == os.Getpid(), err)
	}
	// Output: train.py 4 true <nil>
}
