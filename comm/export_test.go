package comm

// WithHost sets the rank's host name. Ranks with different names count as ranks on different hosts.
func WithHost(name string) Option { return func(s *settings) { s.host = name } }

// Functions for tests with other users.
var (
	SiblingName = siblingName
	AskAddress  = askAddress
	ReadKey     = readKey
)
