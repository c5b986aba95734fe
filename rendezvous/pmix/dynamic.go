package pmix

// dynamicHandlerOf is who serves the commands by which worlds meet and come to be.
func dynamicHandlerOf(c command) handler {
	switch c {
	case commandPublish:
		return (*Server).publish
	case commandLookup:
		return (*Server).lookup
	case commandUnpublish:
		return (*Server).unpublish
	case commandSpawn:
		return (*Server).spawn
	case commandConnect:
		return (*Server).connect
	case commandDisconnect:
		return (*Server).disconnect
	case commandGroupConstruct:
		return (*Server).groupConstruct
	case commandGroupLeave:
		return (*Server).groupLeave
	case commandGroupDestruct:
		return (*Server).groupDestruct
	}
	return nil
}
