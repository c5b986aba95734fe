#include "textflag.h"

// func recordAddress() uintptr
TEXT ·recordAddress(SB), NOSPLIT, $0-8
	LEAQ ·record(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// func restorerAddress() uintptr
TEXT ·restorerAddress(SB), NOSPLIT, $0-8
	LEAQ restorer<>(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// The kernel calls record with the signal's number in DI and the restorer as the
// address to return to. It may be in the middle of anything.
//
// func record()
TEXT ·record(SB), NOSPLIT|NOFRAME, $0-0
	MOVL DI, CX
	MOVL $1, AX
	SHLL CX, AX
	LOCK
	ORL  AX, ·pending(SB)
	RET

// rt_sigreturn
TEXT restorer<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ $15, AX
	SYSCALL
	INT  $3
