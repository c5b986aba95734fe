package wire

import (
	"net/netip"
	"unsafe"

	"gorun/placement"
)

// The numbers of fields are for ever: a field that is no longer used leaves its
// number unused.

func (*Hello) Type() Type { return TypeHello }

func (m *Hello) fields(c *coder) {
	number(c, 1, &m.Version)
	c.flag(2, &m.CPUs)
	c.flag(3, &m.GPUs)
	c.flag(4, &m.Driverless)
	parts(c, 5, &m.Programs)
	c.texts(6, &m.Environ)
	number(c, 7, &m.Ranks)
	c.flag(8, &m.Topology)
	c.flag(9, &m.Places)
	c.flag(10, &m.NICs)
	c.flag(11, &m.GPUUsers)
	c.flag(12, &m.GPUNames)
	c.flag(13, &m.GPULinks)
	text(c, 14, &m.Dir)
	c.flag(15, &m.MayStay)
	number(c, 16, &m.Lease)
	c.flag(17, &m.Sockets)
	c.flag(18, &m.NCCL)
	text(c, 19, &m.Copied.Dir)
	number(c, 20, &m.Copied.PID)
	text(c, 21, &m.Device)
}

func (p *Program) fields(c *coder) {
	text(c, 1, &p.Name)
	c.texts(2, &p.Args)
	number(c, 3, &p.Start)
	text(c, 4, &p.Interpreter)
	text(c, 5, &p.Dir)
	c.flag(6, &p.ScanStore)
	text(c, 7, &p.Path)
}

func (*Facts) Type() Type { return TypeFacts }

func (m *Facts) fields(c *coder) {
	number(c, 1, &m.Version)
	text(c, 2, &m.Host)
	c.part(3, (*machine)(&m.Machine))
	parts(c, 4, &m.Programs)
	text(c, 5, &m.TempDir)
	text(c, 6, &m.Limit)
	c.texts(7, &m.Notes)
	text(c, 8, &m.Dir)
	c.texts(9, &m.Environ)
	number(c, 10, &m.Ranks)
	text(c, 11, &m.Boot)
	optional(c, 12, &m.Seat)
	c.part(13, (*ncclHost)(&m.NCCL))
	foreign(c, 14, &m.RDMA, func(n *placement.NIC) fielder { return (*nic)(n) })
	text(c, 15, &m.LogDir)
	text(c, 16, &m.Role)
	text(c, 17, &m.Uncounted)
}

func (s *Seat) fields(c *coder) {
	number(c, 1, &s.Rank)
	number(c, 2, &s.NumRanks)
	number(c, 3, &s.LocalRank)
	number(c, 4, &s.LocalRanks)
	number(c, 5, &s.Node)
	number(c, 6, &s.NumNodes)
}

func (p *Resolved) fields(c *coder) {
	text(c, 1, &p.Path)
	c.texts(2, &p.Argv)
	number(c, 3, &p.ScriptArg)
	text(c, 4, &p.Kind)
	c.flag(5, &p.Build)
	text(c, 6, &p.PortLine)
	number(c, 7, &p.Code)
	text(c, 8, &p.Error)
	text(c, 9, &p.Hint)
	number(c, 10, &p.Port)
	text(c, 11, &p.MPI)
}

func (*Open) Type() Type { return TypeOpen }

func (m *Open) fields(c *coder) {
	c.flag(1, &m.Rank0)
	text(c, 2, &m.Addr)
	number(c, 3, &m.Port)
	c.prefixes(4, &m.Allow)
	c.flag(5, &m.RAS)
	c.flag(6, &m.AllowLocalUsers)
}

// prefixes are written as netip does: "10.0.0.0/8".
func (c *coder) prefixes(num int, p *[]netip.Prefix) {
	if c.is(num, sized) && c.take(int(unsafe.Sizeof(netip.Prefix{}))) {
		var prefix netip.Prefix
		prefix, c.err = netip.ParsePrefix(string(c.bytes))
		*p = append(*p, prefix)
	}
	if !c.reading {
		for _, prefix := range *p {
			writeText(c, num, prefix.String())
		}
	}
}

func (*Opened) Type() Type { return TypeOpened }

func (m *Opened) fields(c *coder) {
	text(c, 1, &m.Addr)
	number(c, 2, &m.Port)
	text(c, 3, &m.Store)
	text(c, 4, &m.Error)
	text(c, 5, &m.Hint)
	number(c, 6, &m.RAS)
}

func (*Start) Type() Type { return TypeStart }

func (m *Start) fields(c *coder) {
	text(c, 1, &m.JobID)
	c.texts(2, &m.Common)
	parts(c, 3, &m.Apps)
	parts(c, 4, &m.Ranks)
	c.part(5, &m.Stdio)
	optional(c, 6, &m.Logs)
	c.flag(7, &m.ErrorFiles)
	number(c, 8, &m.Window)
	c.flag(9, &m.TorchHint)
	number(c, 10, &m.StoreReport)
	number(c, 11, &m.Attempt)
	number(c, 12, &m.HangTimeout)
	c.flag(13, &m.Cgroup)
	c.flag(14, &m.HangStop)
	c.blob(15, &m.Key)
	c.part(17, &m.MPI)
}

func (a *App) fields(c *coder) {
	text(c, 1, &a.Path)
	c.texts(2, &a.Argv)
	text(c, 3, &a.Dir)
	number(c, 4, &a.Build)
}

func (r *Row) fields(c *coder) {
	number(c, 1, &r.Rank)
	number(c, 2, &r.LocalRank)
	number(c, 3, &r.App)
	c.texts(4, &r.Env)
	c.texts(5, &r.Args)
	c.cpuSet(7, &r.CPUs)
	c.cpuSet(8, &r.Memories)
	number(c, 9, &r.MemoryPolicy)
	c.flag(10, &r.Spawned)
}

func (s *Stdio) fields(c *coder) {
	c.flag(1, &s.Terminal)
	c.flag(2, &s.PTY)
	number(c, 3, &s.Rows)
	number(c, 4, &s.Cols)
	number(c, 5, &s.Direct)
	numbers(c, 6, &s.Piped)
	c.flag(7, &s.Sent)
}

func (l *Logs) fields(c *coder) {
	text(c, 1, &l.Base)
	text(c, 2, &l.Role)
	text(c, 3, &l.Template)
	c.blob(4, &l.Redirect)
	c.blob(5, &l.Tee)
	numbers(c, 6, &l.Show)
	c.texts(7, &l.DuplicateStdout)
	c.texts(8, &l.DuplicateStderr)
	c.texts(9, &l.Names)
	number(c, 10, &l.Digits)
	text(c, 11, &l.Host)
	number(c, 12, &l.Node)
}

func (*Running) Type() Type { return TypeRunning }

func (m *Running) fields(c *coder) {
	parts(c, 1, &m.Ranks)
	c.moment(2, &m.At)
}

func (r *RankPID) fields(c *coder) {
	number(c, 1, &r.Rank)
	number(c, 2, &r.PID)
}

func (*StartFailed) Type() Type { return TypeStartFailed }

func (m *StartFailed) fields(c *coder) {
	number(c, 1, &m.Rank)
	number(c, 2, &m.Code)
	text(c, 3, &m.Text)
	text(c, 4, &m.Hint)
	c.moment(5, &m.At)
}

func (*Ended) Type() Type { return TypeEnded }

func (m *Ended) fields(c *coder) {
	parts(c, 1, &m.Streams)
	parts(c, 2, &m.Ranks)
}

func (e *StreamEnd) fields(c *coder) {
	number(c, 1, &e.Rank)
	number(c, 2, &e.Stream)
}

func (e *RankExit) fields(c *coder) {
	number(c, 1, &e.Rank)
	number(c, 2, &e.PID)
	number(c, 3, &e.Code)
	number(c, 4, &e.Signal)
	c.flag(5, &e.Core)
	c.moment(6, &e.At)
	c.moment(7, &e.RaisedAt)
	c.blob(8, &e.ErrorFile)
	text(c, 9, &e.OOM)
	c.texts(10, &e.Last)
	text(c, 11, &e.Hint)
	c.moment(12, &e.AskedAt)
	optional(c, 13, &e.MPI)
	text(c, 14, &e.Timer)
}

func (*Signal) Type() Type { return TypeSignal }

func (m *Signal) fields(c *coder) {
	number(c, 1, &m.Signal)
	c.flag(2, &m.Group)
}

func (*Kill) Type() Type { return TypeKill }

func (*Kill) fields(*coder) {}

func (*Suspend) Type() Type { return TypeSuspend }

func (*Suspend) fields(*coder) {}

func (*Credit) Type() Type { return TypeCredit }

func (m *Credit) fields(c *coder) {
	number(c, 1, &m.Stream)
	number(c, 2, &m.Bytes)
}

func (*End) Type() Type { return TypeEnd }

func (m *End) fields(c *coder) { number(c, 1, &m.Grace) }

func (*Gone) Type() Type { return TypeGone }

func (m *Gone) fields(c *coder) { c.texts(1, &m.Left) }

func (*Notice) Type() Type { return TypeNotice }

func (m *Notice) fields(c *coder) { text(c, 1, &m.Text) }

func (*Resize) Type() Type { return TypeResize }

func (m *Resize) fields(c *coder) {
	number(c, 1, &m.Rows)
	number(c, 2, &m.Cols)
}

func (*Stalled) Type() Type { return TypeStalled }

func (m *Stalled) fields(c *coder) {
	number(c, 1, &m.Waited)
	c.moment(2, &m.At)
	parts(c, 3, &m.Waiting)
	parts(c, 4, &m.Absent)
	c.blob(5, &m.RAS)
}

func (w *StoreWait) fields(c *coder) {
	number(c, 1, &w.Rank)
	c.texts(2, &w.Keys)
	number(c, 3, &w.Missing)
	text(c, 4, &w.Peer)
	number(c, 5, &w.PID)
}

func (a *AbsentRank) fields(c *coder) {
	number(c, 1, &a.Rank)
	number(c, 2, &a.PID)
	text(c, 3, &a.Standing)
	number(c, 4, &a.CPU)
}

func (*Hung) Type() Type { return TypeHung }

func (m *Hung) fields(c *coder) {
	number(c, 1, &m.Quiet)
	c.moment(2, &m.At)
	parts(c, 3, &m.Ranks)
	c.blob(4, &m.RAS)
}

func (r *HungRank) fields(c *coder) {
	number(c, 1, &r.Rank)
	number(c, 2, &r.PID)
	text(c, 3, &r.Standing)
	number(c, 4, &r.CPU)
	c.texts(5, &r.Keys)
	c.texts(6, &r.Stack)
	text(c, 7, &r.Wait)
	text(c, 8, &r.Last)
	optional(c, 9, &r.MPI)
}

func (*Ping) Type() Type { return TypePing }

func (m *Ping) fields(c *coder) {
	c.moment(1, &m.Sent)
	number(c, 2, &m.Lease)
}

func (*Pong) Type() Type { return TypePong }

func (m *Pong) fields(c *coder) {
	c.moment(1, &m.Sent)
	c.moment(2, &m.At)
	number(c, 3, &m.Signs)
}

func (*Inspect) Type() Type { return TypeInspect }

func (m *Inspect) fields(c *coder) {
	number(c, 1, &m.Quiet)
	c.flag(2, &m.Stop)
	c.flag(3, &m.RAS)
}

func (*Signalled) Type() Type { return TypeSignalled }

func (m *Signalled) fields(c *coder) {
	number(c, 1, &m.Signal)
	c.moment(2, &m.At)
}

func (*OutputLost) Type() Type { return TypeOutputLost }

func (m *OutputLost) fields(c *coder) {
	number(c, 1, &m.Stream)
	c.flag(2, &m.ReaderGone)
	text(c, 3, &m.Text)
}

func (*Over) Type() Type { return TypeOver }

func (m *Over) fields(c *coder) {
	number(c, 1, &m.Code)
	text(c, 2, &m.Text)
}
