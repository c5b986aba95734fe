//go:build cgo

package nccl

import "os"

// Variables with the paths of the libraries or of their directories. They do not start with GORUN_, because gorun
// removes such variables from its ranks.
const (
	VarNCCL    = "COMM_NCCL_LIBRARY"
	VarRuntime = "COMM_CUDART_LIBRARY"
)

// surroundings contains the variables that affect the search for libraries.
type surroundings struct {
	nccl, runtime     string
	virtualEnv, conda string
	path, home        string
}

// libraryEnvironment is the only function of this package that reads the environment. Library paths depend on it as
// they do in C programs.
func libraryEnvironment() surroundings {
	return surroundings{
		nccl: os.Getenv(VarNCCL), runtime: os.Getenv(VarRuntime),
		virtualEnv: os.Getenv("VIRTUAL_ENV"), conda: os.Getenv("CONDA_PREFIX"),
		path: os.Getenv("PATH"), home: os.Getenv("HOME"),
	}
}
