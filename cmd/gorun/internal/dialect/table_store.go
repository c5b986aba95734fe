package dialect

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gorun/launcher/job"
)

// Store is the command line of gorun store, which has no program.
var Store = &Dialect{
	Name: "gorun store",
	About: "gorun store serves a TCPStore alone, for scripts and other launchers. It prints its address as soon as it " +
		"serves, and ends on SIGTERM with a summary.",
	examples: []example{
		{"gorun store", "on a free port of 127.0.0.1"},
		{"gorun store --listen [::]:29500 --allow-from 10.0.0.0/8", "everywhere, for the hosts of a network"},
	},
	tables: append([][]Option{storeTable}, rows(ownTable, "allow-from", "allow-local-users", "version", "help")...),
	serves: true, codes: storeExitCodes,
	last: "Every option has a variable: GORUN_LISTEN gives the default of --listen. More: docs/store.md.",
}

// storeTable holds the options of gorun store alone.
var storeTable = []Option{
	{
		Names: []string{"listen"}, Group: GroupServing, Value: "ADDR",
		Help: "IP address and port: HOST:PORT, [::1]:PORT, :PORT for every address, HOST for a free port, PORT for " +
			"loopback (default: 127.0.0.1:0, a free port)",
		set: (*parser).setListen,
	},
	{
		Names: []string{"max-connections"}, Group: GroupLimits, Value: "N",
		Help: "connections at once (default: three quarters of the descriptors that it may have, at most 65536)",
		set:  func(p *parser, a arg) error { return parseLimit(&p.inv.Store.MaxConnections, a) },
	},
	{
		Names: []string{"max-memory"}, Group: GroupLimits, Value: "SIZE",
		Help: "bytes of keys, values, queues and what is under way together; SIZE is 1000000, 64K, 64M, 4G (default: 4G)",
		set:  func(p *parser, a arg) (err error) { p.inv.Store.MaxMemory, err = parseSize(a.value); return err },
	},
	{
		Names: []string{"max-key-size"}, Group: GroupLimits, Value: "SIZE",
		Help: "bytes of a key (default: 64K)",
		set:  func(p *parser, a arg) error { return parseSizeOf(&p.inv.Store.MaxKey, a) },
	},
	{
		Names: []string{"max-value-size"}, Group: GroupLimits, Value: "SIZE",
		Help: "bytes of a value in one request (default: 64M)",
		set:  func(p *parser, a arg) error { return parseSizeOf(&p.inv.Store.MaxValue, a) },
	},
	{
		Names: []string{"max-keys-per-request"}, Group: GroupLimits, Value: "N",
		Help: "keys that one request may list (default: 131072)",
		set:  func(p *parser, a arg) error { return parseLimit(&p.inv.Store.MaxKeys, a) },
	},
}

// storeExitCodes are the exit codes of gorun store.
var storeExitCodes = []example{
	{"0", "SIGTERM ended it"},
	{"2", "a mistake on the command line"},
	{"125", "it could not listen, or write its address"},
	{"129, 130", "SIGHUP, SIGINT ended it"},
}

// rows are single rows of a table, each as a table: another dialect has the same options.
func rows(table []Option, names ...string) [][]Option {
	var found [][]Option
	for i := range table {
		if slices.Contains(names, table[i].Names[0]) {
			found = append(found, table[i:i+1])
		}
	}
	return found
}

// finishServe makes an Invocation of the options of gorun store.
func (p *parser) finishServe() (Invocation, error) {
	if app := p.inv.Spec.Apps[0]; app.Args != nil {
		p.problem(fmt.Errorf("%s: %s takes no arguments; gorun ./store starts a program of that name",
			typed([]string{app.Program}), p.dialect.Name))
	}
	if p.problems != nil {
		return Invocation{}, &UsageError{p.problems, p.dialect}
	}
	p.noteStrangers()
	p.inv.Action, p.inv.Spec = Serve, job.Spec{}
	p.inv.Store.Allow, p.inv.Store.AllowLocalUsers = p.allow, p.allowLocalUsers
	return p.inv, nil
}

// setListen reads where to listen.
func (p *parser) setListen(a arg) error {
	host, port, err := parseListen(a.value)
	if err != nil {
		return err
	}
	p.inv.Store.Host, p.inv.Store.Port = host, port
	return nil
}

// parseListen reads HOST:PORT, HOST, :PORT, or PORT. HOST is an IP address, in brackets before a port where it has
// colons, or localhost; other names would have to be looked up, which may take for ever. host is "" for loopback, port
// 0 for a free one.
func parseListen(value string) (host string, port int, err error) {
	if n, err := strconv.ParseUint(value, 10, 16); err == nil {
		return "", int(n), nil
	}
	if number, ok := strings.CutPrefix(value, ":"); ok && !strings.Contains(number, ":") {
		port, err = parsePort(number)
		return "::", port, err
	}
	if host, port, err = parseEndpoint(value); err != nil {
		return "", 0, fmt.Errorf("%w; write HOST:PORT, such as 127.0.0.1:29500, [::1]:29500 or :29500", err)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || ip.Zone() != "") {
		return "", 0, fmt.Errorf("%s is no IP address without a zone; names are not looked up", host)
	}
	return host, port, nil
}

// setAllow adds networks; a variable lists several with commas between them.
func (p *parser) setAllow(a arg) error {
	for _, text := range strings.Split(a.value, ",") {
		network, err := parseNetwork(strings.TrimSpace(text))
		if err != nil {
			return err
		}
		p.allow = append(p.allow, network)
	}
	return nil
}

// parseNetwork reads a network in CIDR notation or a single address. Bits behind the network's are dropped, and IPv4 in
// IPv6's notation becomes IPv4, which is how peers are compared.
func parseNetwork(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
		return netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, errors.New("not a network such as 10.0.0.0/8 or fd00::/8, nor an IP address")
	}
	const mapped = 96 // bits before the IPv4 address in IPv6's notation of it
	if ip := network.Addr(); ip.Is4In6() && network.Bits() >= mapped {
		network = netip.PrefixFrom(ip.Unmap(), network.Bits()-mapped)
	}
	return network.Masked(), nil
}

// parseLimit reads a number from 1 up.
func parseLimit(into *int, a arg) error {
	n, err := strconv.ParseUint(a.value, 10, 31)
	if err != nil || n == 0 {
		return fmt.Errorf("not a number from 1 to %d", math.MaxInt32)
	}
	*into = int(n)
	return nil
}

// parseSizeOf reads a size that fits into a length.
func parseSizeOf(into *int, a arg) error {
	n, err := parseSize(a.value)
	if err == nil && n > math.MaxInt32 {
		err = errors.New("more than 2G - 1 bytes")
	}
	*into = int(n)
	return err
}

// parseSize reads a number of bytes; K, M and G are 1024 each, and may be followed by B or iB.
func parseSize(value string) (int64, error) {
	number := strings.ToUpper(value)
	for _, tail := range []string{"IB", "B"} {
		if cut, ok := strings.CutSuffix(number, tail); ok {
			number = cut
			break
		}
	}
	shift := 0
	for i, unit := range []string{"K", "M", "G"} {
		if cut, ok := strings.CutSuffix(number, unit); ok {
			number, shift = cut, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 || n > math.MaxInt64>>shift {
		return 0, errors.New("not a size; write 1000000 (bytes), 64K, 64M or 4G")
	}
	return n << shift, nil
}
