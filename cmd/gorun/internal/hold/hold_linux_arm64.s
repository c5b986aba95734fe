#include "textflag.h"

// func noteAddress() uintptr
TEXT ·noteAddress(SB), NOSPLIT, $0-8
	MOVD $·note(SB), R0
	MOVD R0, ret+0(FP)
	RET

// The kernel has one of its own.
//
// func restorerAddress() uintptr
TEXT ·restorerAddress(SB), NOSPLIT, $0-8
	MOVD $0, R0
	MOVD R0, ret+0(FP)
	RET

// The kernel calls it with the signal's number in R0 and the address to return to
// in R30. It may be in the middle of anything.
//
// func note()
TEXT ·note(SB), NOSPLIT|NOFRAME, $0-0
	MOVD $1, R1
	LSLW R0, R1, R1
	MOVD $·held(SB), R2
again:
	LDAXRW (R2), R3
	ORRW   R1, R3, R3
	STLXRW R3, (R2), R4
	CBNZW  R4, again
	RET
