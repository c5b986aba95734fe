package program

import (
	"runtime"
	"syscall"
)

// kernelRuns reports whether the kernel can execute a file in a foreign format. An interpreter may be registered with
// binfmt_misc (qemu-user for other machines, Java, Wine) outside this container, where no file shows it. So kernelRuns
// executes the file under ptrace, where a new program stops before its first instruction, and kills it there.
//
// This takes about a millisecond, for files that would otherwise be refused.
func kernelRuns(path string) bool {
	runtime.LockOSThread() // the tracer is a thread, which must outlive the kill
	defer runtime.UnlockOSThread()
	pid, err := syscall.ForkExec(path, []string{path}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return false
	}
	_ = syscall.Kill(pid, syscall.SIGKILL) // the pid is valid, as it was not waited for
	for {
		status := syscall.WaitStatus(0)
		_, err := syscall.Wait4(pid, &status, 0, nil)
		if err != syscall.EINTR && !status.Stopped() {
			return true // also after ECHILD: another wait of this process took it
		}
	}
}
