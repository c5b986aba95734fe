#include "textflag.h"

// The child of a vfork runs on this very stack and overwrites our return
// address when it goes on to call something. It is therefore held in R12 over
// the system call, which keeps it for parent and child alike.

// func rawVfork(trap, a1, a2, a3 uintptr) (pid, errno uintptr)
TEXT ·rawVfork(SB), NOSPLIT|NOFRAME, $0-48
	MOVQ	a1+8(FP), DI
	MOVQ	a2+16(FP), SI
	MOVQ	a3+24(FP), DX
	MOVQ	$0, R10
	MOVQ	$0, R8
	MOVQ	$0, R9
	MOVQ	trap+0(FP), AX
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $0xfffffffffffff001
	JLS	ok
	NEGQ	AX
	MOVQ	$0, pid+32(FP)
	MOVQ	AX, errno+40(FP)
	RET
ok:
	MOVQ	AX, pid+32(FP)
	MOVQ	$0, errno+40(FP)
	RET
