package bench_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"gorun/comm/bench"
)

// A program for `gorun -n 4 ./program` that measures allreduce with vectors from 1 KiB to 1 MiB.
func ExampleRun() {
	config := bench.Config{
		Operation: "allreduce", DType: "float32", Op: "sum", Backend: "auto",
		Begin: 1 << 10, End: 1 << 20, Factor: 2, Warmup: 5, PerSize: 100 * time.Millisecond, Check: true,
	}
	if err := bench.Run(context.Background(), config, bench.Host{Name: "node1"}, os.Stdout); err != nil {
		fmt.Println(err)
	}
}
