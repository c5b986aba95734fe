// Command agent is what tests copy to a host: it says its arguments, and then where it lies or what it reads.
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
)

func main() {
	if os.Args[1] == "--version" {
		if os.Getenv("BROKEN") != "" {
			fmt.Fprintln(os.Stderr, os.Args[2:])
			os.Exit(3)
		}
		fmt.Println("gorun v1.2-test")
		return
	}
	fmt.Printf("%q\n", os.Args[1:])
	if slices.Contains(os.Args, "where") {
		fmt.Println(os.Executable())
		return
	}
	if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
		os.Exit(1)
	}
}
