package comm

import "net"

// WithHost sets the rank's host name. Ranks with different names count as ranks on different hosts.
func WithHost(name string) Option { return func(s *settings) { s.host = name } }

// AnswerAt sends the address to those who connect, until stop.
func AnswerAt(l net.Listener, address string) (stop func()) {
	s := &addressServer{listener: l}
	s.done.Go(func() { s.answer(address) })
	return s.close
}

// Functions for tests with other users.
var (
	SiblingName = siblingName
	AskAddress  = askAddress
	ReadKey     = readKey
)
