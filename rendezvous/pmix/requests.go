package pmix

import "fmt"

// command is the type of a request (PMIX_REQ_CMD …).
type command uint8

const (
	commandJobInfo          command = 0 // REQ
	commandAbort            command = 1
	commandCommit           command = 2
	commandFence            command = 3
	commandGet              command = 4
	commandFinalize         command = 5
	commandPublish          command = 6
	commandLookup           command = 7
	commandUnpublish        command = 8
	commandSpawn            command = 9
	commandConnect          command = 10
	commandDisconnect       command = 11
	commandNotify           command = 12
	commandRegisterEvents   command = 13
	commandDeregisterEvents command = 14
	commandQuery            command = 15
	commandLog              command = 16
	commandJobControl       command = 18
	commandMonitor          command = 19
	commandPull             command = 22 // IOF_PULL
	commandGroupConstruct   command = 24
	commandGroupLeave       command = 27
	commandGroupDestruct    command = 28
	commandStopPull         command = 29 // IOF_DEREG
)

// handler decodes the body of a request. Unless that fails, the function that it returns is called with the lock held,
// and returns the status to reply, or replied. Both run on the goroutine of the client's connection, which reads no
// other request meanwhile: what has to wait for others is answered later, by request.reply on any goroutine.
type handler func(s *Server, q *request, d *decoder) func() status

// replied marks a request that is answered elsewhere. It is not a status of PMIx.
const replied status = 1

// handlers serve the commands. The reply to any other is statusNotSupported.
var handlers = [256]handler{
	commandJobInfo:          (*Server).jobInfo,
	commandAbort:            (*Server).abort,
	commandCommit:           (*Server).commit,
	commandFence:            (*Server).fence,
	commandGet:              (*Server).get,
	commandFinalize:         (*Server).finalize,
	commandPublish:          (*Server).publish,
	commandLookup:           (*Server).lookup,
	commandUnpublish:        (*Server).unpublish,
	commandSpawn:            (*Server).spawn,
	commandConnect:          (*Server).connect,
	commandDisconnect:       (*Server).disconnect,
	commandNotify:           (*Server).notify,
	commandRegisterEvents:   (*Server).registerEvents,
	commandDeregisterEvents: (*Server).deregisterEvents,
	commandQuery:            (*Server).query,
	commandLog:              (*Server).log,
	commandJobControl:       (*Server).jobControl,
	commandMonitor:          (*Server).monitor,
	commandPull:             (*Server).pull,
	commandGroupConstruct:   (*Server).groupConstruct,
	commandGroupLeave:       (*Server).groupLeave,
	commandGroupDestruct:    (*Server).groupDestruct,
	commandStopPull:         (*Server).stopPull,
}

// serve serves a request. The error says that its body cannot be decoded.
func (s *Server) serve(q *request) error {
	d := &q.body
	if q.tag == tagHeartbeat {
		s.heartbeat(q)
		return nil
	}
	c := command(d.oneUint8())
	if d.err != nil {
		return d.err
	}
	handle := handlers[c]
	if handle == nil {
		q.status(statusNotSupported)
		return nil
	}
	do := handle(s, q, d)
	if d.err != nil {
		return fmt.Errorf("command %d: %w", c, d.err)
	}
	s.node.Lock()
	defer s.node.Unlock()
	if code := do(); code != replied {
		q.status(code)
	}
	return nil
}
