#include "textflag.h"

// func readNoFile(limit unsafe.Pointer) int
TEXT ·readNoFile(SB), NOSPLIT, $0-16
	MOVQ	$0, DI          // this process
	MOVQ	$7, SI          // RLIMIT_NOFILE
	MOVQ	$0, DX          // nothing to set
	MOVQ	limit+0(FP), R10
	MOVQ	$302, AX        // prlimit64
	SYSCALL
	MOVQ	AX, ret+8(FP)
	RET
