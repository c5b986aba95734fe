package launcher

// reachable finds out by which address the nodes reach node 0, and by which
// interfaces they talk.
func (s *session) reachable() error { return nil }
