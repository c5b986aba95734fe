package launcher

import (
	"os"
	"sync"
)

// signals are those to this process that the job hears.
type signals struct {
	received chan os.Signal
	hold     func() // keeps them until listen, once
	listen   func() // subscribes to them, once
}

// signalBurst is how many signals may wait to be looked at; more are lost, as the kernel loses them.
const signalBurst = 16

func newSignals(s *settings) *signals {
	came := make(chan os.Signal, signalBurst)
	return &signals{came, sync.OnceFunc(func() {
		if s.hold != nil {
			s.hold()
		}
	}), sync.OnceFunc(func() {
		if s.subscribe != nil {
			s.subscribe(came)
		}
	})}
}
