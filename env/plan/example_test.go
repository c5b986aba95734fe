package plan_test

import (
	"fmt"

	"gorun/env/plan"
)

// Two ranks on one node.
func ExampleBuild() {
	environment, err := plan.Build(plan.Inputs{
		Inherited: []string{"HOME=/home/ann", "RANK=7"},
		Store:     plan.Store{Mode: plan.StoreGorun, Addr: "127.0.0.1", Port: "29500"},
		Nodes:     []plan.Node{{Threads: 4, Why: "8 CPUs ÷ 2 ranks"}},
		Ranks:     []plan.Rank{{LocalRank: 0}, {LocalRank: 1}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range environment.Common {
		if v.Name == "OMP_NUM_THREADS" {
			fmt.Println(v.Entry(), "because", v.Reason)
		}
	}
	for _, v := range environment.Ranks[1] {
		if v.Name == "RANK" {
			fmt.Println(v.Entry(), "by", v.Origin)
		}
	}
	// Output:
	// OMP_NUM_THREADS=4 because 8 CPUs ÷ 2 ranks
	// RANK=1 by gorun
}
