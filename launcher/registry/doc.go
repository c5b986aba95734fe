// Package registry finds the running jobs of a user on a host, sends them requests and stops them. Each job has a
// directory of its own, in one of a few places, with a socket in it:
//
//	$XDG_RUNTIME_DIR/gorun-job-7f3a1c2d90ab/socket
//
// The package has the files and the messages, and knows nothing else of jobs: the server's [Handler] answers requests.
//
// Other users cannot interfere: a directory must belong to this user with mode 0700 and must not be a symbolic link,
// and
// both ends of a connection ask the kernel for the user of the other end. Names of directories are random. Paths may
// have
// any length, as sockets are reached through the descriptor of their directory.
package registry

// prefix starts the names of directories; the job's id follows.
const prefix = "gorun-job-"

// A job's socket is made as newSocket and renamed to socket once the server listens.
const (
	socket    = "socket"
	newSocket = "fresh"
)
