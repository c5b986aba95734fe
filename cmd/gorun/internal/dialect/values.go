package dialect

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gorun/internal/spelling"
	"gorun/launcher/job"
)

// MaxRanks bounds a number of ranks. More is a typing mistake, and products of two such numbers do not overflow.
const MaxRanks = 1 << 20

// none is a time of zero in a Spec, where 0 means the default.
const none = -1 * time.Nanosecond

// parseNonzeroTime parses a time for which a Spec has a default.
func parseNonzeroTime(value string) (time.Duration, error) {
	d, err := ParseDuration(value)
	return cmp.Or(d, none), err
}

// parseSwitch parses a flag's value: true, false or, as in torchrun's PET_* variables, a number.
func parseSwitch(value string) (bool, error) {
	switch strings.ToLower(value) {
	case "true", "t", "yes", "y", "on":
		return true, nil
	case "false", "f", "no", "n", "off":
		return false, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		return false, errors.New("a switch is 1 or 0, true or false")
	}
	return n != 0, nil
}

// parseLevel parses the number of -v in a variable.
func parseLevel(value string) (int, error) {
	if n, err := strconv.Atoi(value); err == nil && n >= 0 {
		return n, nil
	}
	on, err := parseSwitch(value)
	if err != nil || !on {
		return 0, err
	}
	return 1, nil
}

// parseModules parses names of Python modules, separated by commas.
func parseModules(value string) ([]string, error) {
	names := strings.Split(value, ",")
	for _, name := range names {
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") != "" || name == "" {
			return nil, fmt.Errorf("%q is not the name of a Python module", name)
		}
	}
	return names, nil
}

// ParseRanks parses a number of ranks or nodes, from 1 to MaxRanks.
func ParseRanks(value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > MaxRanks {
		return 0, fmt.Errorf("not a number from 1 to %d", MaxRanks)
	}
	return n, nil
}

// ParseAtLeast parses an integer that is least or more.
func ParseAtLeast(value string, least int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < least {
		return 0, fmt.Errorf("not a number from %d on", least)
	}
	return n, nil
}

// ParseCount parses a number of ranks per node: auto, gpu, cpu or a number.
func ParseCount(value string) (job.Count, error) {
	kinds := map[string]job.CountKind{"auto": job.CountAuto, "gpu": job.CountGPU, "cpu": job.CountCPU}
	if kind, known := kinds[value]; known {
		return job.Count{Kind: kind}, nil
	}
	n, err := ParseRanks(value)
	if err != nil {
		return job.Count{}, fmt.Errorf("%w, nor auto, gpu, cpu", err)
	}
	return job.Count{Kind: job.CountFixed, N: n}, nil
}

// parsePerNode also takes the name of any accelerator of PyTorch's, as torchrun does; plug-ins add names.
func parsePerNode(value string) (job.Count, error) {
	value = strings.TrimSpace(value)
	c, err := ParseCount(value)
	isName := value != "" && isLetter(value[0]) && strings.Trim(value, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
	if err != nil && isName && len(value) <= maxDevice {
		if known := misspelt(value); known != "" {
			return c, fmt.Errorf("%w; did you mean %s?", err, known)
		}
		return job.Count{Kind: job.CountDevice, Device: value}, nil
	}
	return c, err
}

// devices are the words of --nproc-per-node that PyTorch knows without plug-ins.
var devices = []string{
	"auto", "gpu", "cpu", "xpu", "npu", "hpu", "mps", "mtia", "cuda", "ipu", "tpu", "xla", "mlu", "musa",
}

// misspelt returns the device that a name probably means. "": it is known, or may be a plug-in's, as any three letters.
func misspelt(name string) string {
	if len(name) == len("gpu") || slices.Contains(devices, name) {
		return ""
	}
	i := slices.IndexFunc(devices, func(known string) bool { return spelling.Distance(name, known, 2) < 2 })
	if i < 0 {
		return ""
	}
	return devices[i]
}

// maxDevice bounds the name of an accelerator in bytes.
const maxDevice = 64

// ParseDuration parses a Go duration, or a number of seconds.
func ParseDuration(value string) (time.Duration, error) {
	if days, err := strconv.ParseFloat(strings.TrimSuffix(value, "d"), 64); err == nil && strings.HasSuffix(value, "d") {
		return 0, fmt.Errorf("not a time; write %gh", days*24)
	}
	d, err := time.ParseDuration(value)
	seconds, numeric := strconv.ParseFloat(value, 64)
	if numeric == nil {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	switch {
	case err != nil, math.IsNaN(seconds), math.Abs(seconds) > math.MaxInt64/float64(time.Second)/2:
		return 0, errors.New("not a time; write 90 (seconds), 1.5, 30m or 2h45m")
	case d < 0:
		return 0, errors.New("a time cannot be negative")
	}
	return d, nil
}

// parseStdin parses all, none, or ranks such as 1,3 and 0-3.
func parseStdin(value string) (job.StdinSpec, error) {
	switch value {
	case "all":
		return job.StdinSpec{Kind: job.StdinAll}, nil
	case "none":
		return job.StdinSpec{Kind: job.StdinNone}, nil
	}
	var ranks []int
	for _, item := range strings.Split(value, ",") {
		low, high, ranged := strings.Cut(item, "-")
		if !ranged {
			high = low
		}
		first, err := strconv.ParseUint(low, 10, 31)
		last, lastErr := strconv.ParseUint(high, 10, 31)
		if err != nil || lastErr != nil || last < first || last >= MaxRanks {
			return job.StdinSpec{}, errors.New("not all, none, a rank, or several such as 1,3 and 0-3")
		}
		for rank := first; rank <= last; rank++ {
			ranks = append(ranks, int(rank))
		}
	}
	slices.Sort(ranks)
	if ranks = slices.Compact(ranks); len(ranks) == 1 {
		return job.StdinSpec{Rank: ranks[0]}, nil
	}
	return job.StdinSpec{Kind: job.StdinSome, Ranks: ranks}, nil
}

// parseStreams parses torchrun's map of streams: 0 to 3 for all local ranks, or LOCAL_RANK:0 to 3, separated by commas.
func parseStreams(value string) (job.StreamMap, error) {
	if s, ok := parseStream(value); ok {
		return job.StreamMap{All: s}, nil
	}
	m := job.StreamMap{Ranks: map[int]job.Streams{}}
	for _, entry := range strings.Split(value, ",") {
		rank, stream, found := strings.Cut(entry, ":")
		n, err := strconv.ParseUint(rank, 10, 31)
		s, ok := parseStream(stream)
		if !found || err != nil || !ok {
			return job.StreamMap{},
				errors.New("not 0, 1 (stdout), 2 (stderr), 3 (both), nor local ranks with one of these: 0:3,1:2")
		}
		m.Ranks[int(n)] = s
	}
	return m, nil
}

func parseStream(value string) (job.Streams, bool) {
	if len(value) != 1 || value[0] < '0' || value[0] > '3' {
		return 0, false
	}
	return job.Streams(value[0] - '0'), true
}

// parseLocalRanks parses a list of local ranks; an empty one means all.
func parseLocalRanks(value string) ([]int, error) {
	if value == "" {
		return nil, nil
	}
	var ranks []int
	for _, entry := range strings.Split(value, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(entry), 10, 31)
		if err != nil {
			return nil, errors.New("not local ranks separated by commas, such as 0,1,2")
		}
		ranks = append(ranks, int(n))
	}
	return ranks, nil
}

// splitTexts splits at single commas; a double one is a comma.
func splitTexts(value string) ([]string, error) {
	texts := strings.Split(strings.ReplaceAll(value, ",,", "\x00"), ",")
	for i, t := range texts {
		texts[i] = strings.ReplaceAll(t, "\x00", ",")
	}
	return texts, nil
}

// parseSignals parses names of signals; SIG is optional.
func parseSignals(value string) ([]string, error) {
	var names []string
	for _, entry := range strings.Split(value, ",") {
		name := strings.ToUpper(strings.TrimSpace(entry))
		if !strings.HasPrefix(name, "SIG") {
			name = "SIG" + name
		}
		switch unix.SignalNum(name) {
		case 0:
			return nil, fmt.Errorf("%s is not a signal", cmp.Or(entry, `""`))
		case unix.SIGKILL, unix.SIGSTOP:
			return nil, fmt.Errorf("%s cannot be handled", name)
		case unix.SIGCHLD, unix.SIGURG:
			return nil, fmt.Errorf("%s reaches gorun all the time and would end the job at once: leave it out", name)
		}
		names = append(names, name)
	}
	return names, nil
}

// ParseEndpoint parses HOST[:PORT]. An IPv6 address needs brackets before a port. Port 0, the default, is any free one.
func ParseEndpoint(value string) (addr string, port int, err error) {
	host, rest := cutPort(value)
	if addr, err = parseAddr(host); err != nil || rest == "" {
		return addr, 0, err
	}
	number, ok := strings.CutPrefix(rest, ":")
	if !ok {
		return "", 0, errors.New("an address in brackets is followed by :PORT or nothing")
	}
	port, err = ParsePort(number)
	return addr, port, err
}

// parseListener parses [HOST]:PORT. Without a host, loopback alone is meant.
func parseListener(value string) (string, error) {
	if strings.HasPrefix(value, ":") {
		value = "127.0.0.1" + value
	}
	if _, rest := cutPort(value); rest == "" {
		return "", errors.New("give [HOST]:PORT, such as :9400")
	}
	_, _, err := ParseEndpoint(value)
	return value, err
}

// cutPort cuts an endpoint behind its host.
func cutPort(value string) (host, rest string) {
	at := strings.LastIndexByte(value, ']') + 1
	if at == 0 && strings.Count(value, ":") == 1 {
		at = strings.IndexByte(value, ':')
	} else if at == 0 {
		at = len(value)
	}
	return value[:at], value[at:]
}

// parseAddr parses an address or a host's name, and removes brackets around an IPv6 address.
func parseAddr(value string) (string, error) {
	addr := value
	if inner, ok := strings.CutPrefix(value, "["); ok {
		if addr, ok = strings.CutSuffix(inner, "]"); !ok {
			return "", errors.New("missing ]")
		}
	}
	if addr == "" || strings.ContainsAny(addr, " \t\r\n\x00/[]") || addr[0] == '-' {
		return "", errors.New("not an address or a name of a host")
	}
	return addr, nil
}

// ParsePort parses a TCP port; 0 is any free one.
func ParsePort(value string) (int, error) {
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return 0, errors.New("not a port from 0 to 65535")
	}
	return int(n), nil
}

// deviceKind returns gpu or nic for Hydra's names of devices, such as gpu, ib0 or eth:2, else "".
func deviceKind(lower string) string {
	word, _, _ := strings.Cut(lower, ":")
	switch strings.TrimRight(word, "0123456789") {
	case "gpu":
		return "gpu"
	case "nic", "ib", "en", "eth", "hfi", "pci":
		return "nic"
	}
	return ""
}

func isNumber(word string) bool { return word != "" && strings.Trim(word, "0123456789") == "" }

// OneOf returns an error unless the value is in the list.
func OneOf(value string, list ...string) error {
	if slices.Contains(list, value) {
		return nil
	}
	return errors.New("not one of " + strings.Join(list, ", "))
}
