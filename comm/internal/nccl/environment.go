//go:build cgo

package nccl

import "os"

// Variables that name the libraries' files, or the folders that these are in. They do not begin with
// GORUN_, because gorun removes such from its ranks.
const (
	VarNCCL    = "COMM_NCCL_LIBRARY"
	VarRuntime = "COMM_CUDART_LIBRARY"
)

// surroundings are the variables that say where libraries may be.
type surroundings struct {
	nccl, runtime     string
	virtualEnv, conda string
	path, home        string
}

// libraryEnvironment is the one place of this package that reads the environment: paths of C libraries depend on it as
// they do for C programs.
func libraryEnvironment() surroundings {
	return surroundings{
		nccl: os.Getenv(VarNCCL), runtime: os.Getenv(VarRuntime),
		virtualEnv: os.Getenv("VIRTUAL_ENV"), conda: os.Getenv("CONDA_PREFIX"),
		path: os.Getenv("PATH"), home: os.Getenv("HOME"),
	}
}
