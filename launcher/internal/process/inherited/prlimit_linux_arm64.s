#include "textflag.h"

// func readNoFile(limit unsafe.Pointer) int
TEXT ·readNoFile(SB), NOSPLIT, $0-16
	MOVD	$0, R0          // this process
	MOVD	$7, R1          // RLIMIT_NOFILE
	MOVD	$0, R2          // nothing to set
	MOVD	limit+0(FP), R3
	MOVD	$261, R8        // prlimit64
	SVC
	MOVD	R0, ret+8(FP)
	RET
