#include "textflag.h"

// func noteAddress() uintptr
TEXT ·noteAddress(SB), NOSPLIT, $0-8
	LEAQ ·note(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// func restorerAddress() uintptr
TEXT ·restorerAddress(SB), NOSPLIT, $0-8
	LEAQ restorer<>(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// The kernel calls it with the signal's number in DI and the restorer as the
// address to return to. It may be in the middle of anything.
//
// func note()
TEXT ·note(SB), NOSPLIT|NOFRAME, $0-0
	MOVL DI, CX
	MOVL $1, AX
	SHLL CX, AX
	LOCK
	ORL  AX, ·held(SB)
	RET

// rt_sigreturn
TEXT restorer<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ $15, AX
	SYSCALL
	INT  $3
