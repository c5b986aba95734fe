package process

import (
	"fmt"
	"os"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// refusedRole may not call pidfd_send_signal. It kills a child, then dismisses a guard, and prints what it sees.
func refusedRole(token string, _ []string) {
	time.AfterFunc(gone, func() { os.Exit(1) })
	_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PIDFD_SEND_SIGNAL, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(program)))
	child := mustStart(command("sleeper", token))
	p, _ := Describe(child.Process.Pid)
	fmt.Println(errno, p.Signal(unix.SIGKILL), child.Wait())
	guard := new(Guard)
	fmt.Println(guard.Start(GuardConfig{ID: token}))
	guard.Dismiss()
	fmt.Println("dismissed")
}

// A container's seccomp filter may know CLONE_PIDFD and not this call.
func TestSignalsWithoutPidfdSendSignal(t *testing.T) {
	s := newScene(t)
	out, err := inSession(command("refused", s.token)).Output()
	require.NoError(t, err)
	assert.Equal(t, "errno 0 <nil> signal: killed\n<nil>\ndismissed\n", string(out))
}
