package launcher

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"

	"gorun/internal/version"
	"gorun/launcher/internal/agent"
	"gorun/launcher/internal/reach/gather"
	"gorun/launcher/internal/reach/remote"
	"gorun/launcher/internal/wire"
)

// WireVersion is the version of the frames between launcher and agents. Both must have the same.
const WireVersion = wire.Version

// ServeAgent makes this process the agent of one node: it starts and ends ranks for the head at the
// other end of in and out, and returns when the connection has ended and nothing of the job is left
// here. The process must exist for that alone; see [AsWholeProcess].
func ServeAgent(in, out *os.File, o Options) error {
	_, cfg, err := standaloneAgent(o)
	if err != nil {
		return err
	}
	return agent.ServeStreams(in, out, cfg)
}

// standaloneAgent is for a process that is an agent and nothing else.
func standaloneAgent(o Options) (*call, agent.Config, error) {
	c := &call{settings: settings{Options: o}}
	cfg, err := agent.Standalone(agent.Config{
		Executable: c.settings.Executable, NVML: c.settings.NVML, Version: version.String(),
	})
	c.spec.Environ = cfg.Environ
	return c, cfg, err
}

// JoinAgent is [ServeAgent] for an agent that a resource manager starts, together with those of all
// other nodes. It reads from file, or from in if file is "", where its head is. It reports signals
// of o.Signals to the head, since the resource manager sends them to the ranks, too.
func JoinAgent(in *os.File, file string, o Options) error {
	c, cfg, err := standaloneAgent(o)
	if err != nil {
		return err
	}
	cfg.Signals = c.reportedSignals()
	invitation, conn, err := c.dialHead(in, file)
	if err != nil {
		return err
	}
	cfg.Engine = agent.EngineSignalsAgents
	if invitation.Signals {
		cfg.Engine = agent.EngineSignalsAll
	}
	if err = agent.ServeConn(conn, cfg); remote.IsEnd(err) { // the head is done
		return nil
	}
	return err
}

func (c *call) dialHead(in *os.File, file string) (invitation *gather.Invitation, conn net.Conn, err error) {
	gone := make(chan struct{})
	if file != "" {
		invitation, err = gather.ReadInvitationFile(file)
	} else if invitation, err = gather.ReadInvitation(in); err == nil {
		go func() { // the head keeps its end open until it exits
			defer close(gone)
			_, _ = io.Copy(io.Discard, in)
		}()
	}
	if err != nil {
		return nil, nil, err
	}
	conn, err = gather.Dial(context.Background(), invitation, gone, func(name string) (string, bool) {
		return lookup(c.spec.Environ, name)
	})
	removeBrought(invitation)
	return invitation, conn, err
}

// removeBrought removes this program if the resource manager copied it here for this job. Once
// dialing has ended, all agents run or none will.
func removeBrought(i *gather.Invitation) {
	own, err := os.Executable()
	if err == nil && i.Brought != "" && filepath.Base(own) == i.Brought {
		_ = os.Remove(own)
	}
}
