#include "textflag.h"

// func recordAddress() uintptr
TEXT ·recordAddress(SB), NOSPLIT, $0-8
	MOVD $·record(SB), R0
	MOVD R0, ret+0(FP)
	RET

// arm64 kernels have a restorer of their own.
//
// func restorerAddress() uintptr
TEXT ·restorerAddress(SB), NOSPLIT, $0-8
	MOVD $0, R0
	MOVD R0, ret+0(FP)
	RET

// The kernel calls record with the signal's number in R0 and the address to return to
// in R30. It may be in the middle of anything.
//
// func record()
TEXT ·record(SB), NOSPLIT|NOFRAME, $0-0
	MOVD $1, R1
	LSLW R0, R1, R1
	MOVD $·pending(SB), R2
retry:
	LDAXRW (R2), R3
	ORRW   R1, R3, R3
	STLXRW R3, (R2), R4
	CBNZW  R4, retry
	RET
