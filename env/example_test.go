package env_test

import (
	"fmt"
	"os"

	"gorun/env"
)

// Every rank reads its rank and world size from the environment set by the launcher.
func ExampleSelf() {
	// The variables that `gorun -np 4 ./program` sets for rank 2.
	for name, value := range map[string]string{
		env.VarRank: "2", env.VarWorldSize: "4",
		env.VarLocalRank: "2", env.VarLocalWorldSize: "4",
		env.VarMasterAddr: "127.0.0.1", env.VarMasterPort: "41873",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
		defer os.Unsetenv(name)
	}

	self, err := env.Self()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("rank %d of %d, number %d of %d on this node\n", self.Rank, self.WorldSize, self.LocalRank,
		self.LocalWorldSize)
	fmt.Println("the store is at", self.Store)
	// Output:
	// rank 2 of 4, number 2 of 4 on this node
	// the store is at 127.0.0.1:41873
}
