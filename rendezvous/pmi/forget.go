package pmi

// Forget drops a world whose ranks have all ended, on every node: nobody asks for anything of it.
func (s *Server) Forget(world string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sp := s.spaces[world]; sp != nil && len(sp.sessions) == 0 { // a child of a rank has its connection
		delete(s.spaces, world)
	}
}
