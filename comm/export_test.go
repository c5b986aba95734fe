package comm

// WithHost makes ranks with different names count as such on different hosts.
func WithHost(name string) Option { return func(s *settings) { s.host = name } }

// What tests of other users need.
var (
	SiblingName = siblingName
	AskAddress  = askAddress
	ReadKey     = readKey
)
