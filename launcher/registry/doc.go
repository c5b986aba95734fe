// Package registry is how the running jobs of a user on a host are found, asked and
// ended: each has a directory of its own, in one of a few places, with a socket in it.
//
//	$XDG_RUNTIME_DIR/gorun-job-7f3a1c2d90ab/socket
//
// The registry is files of this user and what is said over them; it knows no job. Whoever
// serves a job answers what he is asked, in the words of this package.
//
// Nothing of a place is believed that somebody else could have made: a directory must be
// this user's with mode 0700, and no symbolic link; both ends of a connection ask the
// kernel who the other one is, and talk to nobody else. Names of directories are random,
// and paths of any length will do: sockets are reached through their directory's
// descriptor.
package registry

// prefix begins the names of directories, and the rest is the job's id.
const prefix = "gorun-job-"

// socket is the name of a job's socket in its directory, made under fresh: it has its name
// only when somebody listens there.
const (
	socket = "socket"
	fresh  = "fresh"
)
