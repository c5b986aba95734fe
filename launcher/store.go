package launcher

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// storeAddr is where the store listens.
func (s *session) storeAddr() string {
	switch {
	case s.masterAddr != "":
		return s.masterAddr
	case s.spec.Store.Addr != "":
		return s.spec.Store.Addr
	}
	return "127.0.0.1"
}

// adoptScriptPort reserves the port that a script assigns itself for its rank 0, so that a conflict
// is found before ranks start.
func (s *session) adoptScriptPort() {
	store := &s.spec.Store
	if store.Mode != job.StoreAuto || store.Port != 0 {
		return
	}
	for _, p := range s.nodes[s.rank0Node].facts.Programs {
		if p.Port != 0 {
			store.Port, store.From, s.portFromScript = p.Port, p.AssignsPort, true
			return
		}
	}
}

// setsRASPort reports whether ranks get a port for NCCL's RAS, which node 0 has to choose.
func (s *session) setsRASPort() bool {
	return cmp.Or(s.spec.Tune, plan.TuneAuto) == plan.TuneAuto
}

// rank0Error adds the name of rank 0's node if there are several.
func (s *session) rank0Error(err error) error {
	if err == nil || len(s.nodes) == 1 {
		return err
	}
	errs := make([]error, len(s.nodes))
	errs[s.rank0Node] = err
	return s.joinErrors(errs)
}

// openStore opens an empty store on rank 0's node.
func (s *session) openStore() (job.Opened, error) {
	mode, _ := s.spec.ChooseStore(s.nodes[s.rank0Node].facts)
	var opened wire.Opened
	if err := s.nodes[s.rank0Node].request(&wire.Open{
		Rank0: mode == job.StoreRank0, RAS: s.setsRASPort(), Addr: s.storeAddr(), Port: s.spec.Store.Port,
		Allow:           slices.Concat(s.spec.Store.Allow, s.peers),
		AllowLocalUsers: s.spec.Store.AllowLocalUsers,
	}, &opened); err != nil {
		return job.Opened{}, s.rank0Error(err)
	}
	if opened.Error != "" {
		text := "open the store"
		if s.spec.Store.From != "" {
			text += " as " + s.spec.Store.From + " says"
		}
		if s.portFromScript {
			opened.Hint = "set MASTER_PORT with os.environ.setdefault in the script to leave the port to gorun, " +
				"or add `--store=rank0` to start the script as it is"
		}
		return job.Opened{},
			s.rank0Error(&Error{Code: job.ExitLauncher, Text: text + ": " + printable.Text(opened.Error), Hint: opened.Hint})
	}
	if store, err := netip.ParseAddrPort(opened.Store); err == nil && store.Addr().IsLoopback() &&
		len(s.spec.Store.Allow) > 0 {
		s.settings.notify("--allow-from has no effect: the store listens at " + opened.Store +
			", which other hosts cannot reach; add --master-addr with an address of this host")
	}
	if err := s.checkOpened(&opened.Opened); err != nil {
		return job.Opened{}, s.rank0Error(err)
	}
	return opened.Opened, nil
}

// checkOpened refuses a store elsewhere than on the node that opened it: ranks would connect there.
func (s *session) checkOpened(o *job.Opened) error {
	n := s.nodes[s.rank0Node]
	addr, err := netip.ParseAddr(o.Addr)
	store, storeErr := netip.ParseAddrPort(o.Store)
	isOwn := func(a netip.Addr) bool {
		requested := o.Addr == s.storeAddr() && a == addr || len(s.nodes) == 1 && a.IsLoopback()
		return n.served != nil || requested || n.hasAddress(a.Unmap().WithZone("").String())
	}
	if err != nil || storeErr != nil || !isOwn(addr) || !isOwn(store.Addr()) || !isPort(o.Port) || !isPort(o.RAS) {
		text := fmt.Sprintf("open the store: the agent reported %s:%d and %s, which are not its addresses",
			o.Addr, o.Port, o.Store)
		return failure(printable.Text(text))
	}
	return nil
}

// isPort accepts 0, no port.
func isPort(port int) bool { return port >= 0 && port <= 1<<16-1 }
