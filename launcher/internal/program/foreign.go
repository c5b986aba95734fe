package program

import (
	"runtime"
	"syscall"
)

// kernelRuns asks the kernel whether it can execute a file of a format that is not
// its own. Only it knows: an interpreter may be registered with binfmt_misc
// (qemu-user for other machines, Java, Wine) outside this container, where no file
// shows it. So the file is executed under ptrace, where a new program stops before
// its first instruction, and is killed there: nothing of it ever runs.
//
// This costs about a millisecond, and only a file that would else be refused.
func kernelRuns(path string) bool {
	runtime.LockOSThread() // the tracer is a thread: it must not end before the kill
	defer runtime.UnlockOSThread()
	pid, err := syscall.ForkExec(path, []string{path}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return false
	}
	_ = syscall.Kill(pid, syscall.SIGKILL) // it exists: nobody has waited for it
	for {
		status := syscall.WaitStatus(0)
		_, err := syscall.Wait4(pid, &status, 0, nil)
		if err != syscall.EINTR && !status.Stopped() {
			return true // also when a host program's own wait took it (ECHILD)
		}
	}
}
