#include "textflag.h"

// The child of a vfork runs on this very stack. The return address is in LR,
// which is no memory, and this function has no frame: nothing of ours is there
// to be overwritten.

// func rawVfork(trap, a1, a2, a3 uintptr) (pid, errno uintptr)
TEXT ·rawVfork(SB), NOSPLIT, $0-48
	MOVD	a1+8(FP), R0
	MOVD	a2+16(FP), R1
	MOVD	a3+24(FP), R2
	MOVD	$0, R3
	MOVD	$0, R4
	MOVD	$0, R5
	MOVD	trap+0(FP), R8
	SVC
	CMN	$4095, R0
	BCC	ok
	NEG	R0, R0
	MOVD	ZR, pid+32(FP)
	MOVD	R0, errno+40(FP)
	RET
ok:
	MOVD	R0, pid+32(FP)
	MOVD	ZR, errno+40(FP)
	RET
