package plan

import (
	"fmt"
	"strconv"
	"strings"

	"gorun/env"
)

// StoreRequest returns where the user wants the store to listen: addr is MASTER_ADDR ("" if unset), port is
// MASTER_PORT (0 for any free port), and origin names their source for messages, such as "MASTER_PORT in the
// environment".
func StoreRequest(inherited []string, exports []Export) (addr string, port int, origin string, err error) {
	addr, addrFrom := requested(env.VarMasterAddr, inherited, exports)
	text, portFrom := requested(env.VarMasterPort, inherited, exports)
	if text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return "", 0, "", fmt.Errorf("%s: %q is not a TCP port (0 to 65535)", portFrom, text)
		}
		port = int(n)
	}
	switch {
	case addr == "" && text == "":
		return "", 0, "", nil
	case addr == "":
		return "", port, portFrom, nil
	case text == "" || addrFrom == portFrom:
		return addr, port, addrFrom, nil
	case addrFrom == env.VarMasterAddr+inEnvironment && portFrom == env.VarMasterPort+inEnvironment:
		return addr, port, env.VarMasterAddr + " and " + portFrom, nil
	}
	return addr, port, addrFrom + ", " + portFrom, nil
}

// HealthPort returns where the user, not an outer launcher, wants nodes to answer liveness probes: the value of
// TORCHELASTIC_HEALTH_CHECK_PORT, or "".
func HealthPort(inherited []string, exports []Export) string {
	value, _ := requested(env.VarTorchelasticHealthCheckPort, inherited, exports)
	return value
}

const inEnvironment = " in the environment"

// requested returns the value that the user asked for, and its source.
func requested(name string, inherited []string, exports []Export) (value, origin string) {
	for i := len(exports) - 1; i >= 0; i-- {
		e := exports[i]
		if prefix, isPattern := e.prefix(); e.Name != name && (!isPattern || !strings.HasPrefix(name, prefix)) {
			continue
		}
		if !e.HasValue {
			e.Value, _ = lookup(inherited, name)
		}
		return e.Value, "-x " + e.Name
	}
	if isNested(inherited) {
		return "", ""
	}
	value, _ = lookup(inherited, name)
	return value, name + inEnvironment
}

// asRequested attributes a value to the user if it is the one that the user requested.
func (b *builder) asRequested(r *rule, v Variable) Variable {
	if r.Class != ClassRequest {
		return v
	}
	switch value, origin := requested(v.Name, b.in.Inherited, b.in.Exports); {
	case value == "" || value != v.Value: // the store listens there, and ranks reach it by another address or port
	case strings.HasSuffix(origin, inEnvironment):
		v.Origin = Inherited
	default:
		v.Origin = Exported
	}
	return v
}

// isNested reports whether an environment belongs to another launcher's rank.
func isNested(environ []string) bool {
	if job, _ := lookup(environ, env.VarJob); job != "" {
		return true
	}
	run, _ := lookup(environ, env.VarTorchelasticRunID)
	return run != ""
}
