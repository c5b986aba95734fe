package signature_test

import (
	"fmt"

	"gorun/launcher/doctor/signature"
)

func ExampleByID() {
	match, known := signature.ByID("nccl-shm-full")
	fmt.Println(known, match.Family)
	// Output: true NCCL
}
