package nccl

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Syntax is the set of values that a library accepts for a variable. The zero Syntax accepts any text.
type Syntax struct {
	kind     string   // a name for formOf; "" is text
	words    []string // the words of an enumeration, or the allowed integers
	from, to int64    // range of an integer
}

// form is a kind of values: its name, and a function that checks a value.
type form struct {
	says  string
	check func(s Syntax, value string) error
}

// formOf returns the form of a kind. A table would cost time when any program starts.
func formOf(kind string) form {
	switch kind {
	case "text":
		return form{"text", func(Syntax, string) error { return nil }}
	case "int":
		return form{"integer", Syntax.checkInt}
	case "bool":
		return form{"0 or 1", Syntax.checkInt}
	case "enum":
		return form{"", Syntax.checkEnum}
	case "words":
		return form{"", Syntax.checkWords}
	case "level":
		return form{"", Syntax.checkLevel}
	case "path":
		return form{"path", checkPath}
	case "list":
		return form{"list, separated by commas", checkList}
	case "hostport":
		return form{"host:port, ipv4:port or [ipv6]:port", checkHostPort}
	case "cidr":
		return form{"network such as 10.0.0.0/16", checkCIDR}
	case "prefixes":
		return form{"list of interfaces' prefixes; ^ before it excludes, = before it takes whole names", checkPrefixes}
	case "names":
		return form{"list of interfaces' whole names", checkNames}
	case "interface":
		return form{"whole name of one interface", checkInterface}
	case "devices":
		return form{
			"list of RDMA devices dev[:port[:rail[:plane]]]; ^ before it excludes, = before it takes whole names",
			checkDevices,
		}
	case "gpus":
		return form{"list of indices, GPU-… or MIG-…", checkGPUs}
	case "cpus":
		return form{"list of CPUs such as 0-3,8", checkCPUs}
	}
	return form{}
}

// parseSyntax parses "int", "int 1..31", "int >=0", "int 64|128|256|512", "bool", "enum A|B", "words A|B"
// (several, separated by commas), or the name of another form.
func parseSyntax(text string) Syntax {
	kind, rest, _ := strings.Cut(text, " ")
	s := Syntax{kind: kind, from: math.MinInt64, to: math.MaxInt64}
	integer := func(digits string) int64 { return must(strconv.ParseInt(digits, 10, 64)) }
	switch low, high, isRange := strings.Cut(rest, ".."); {
	case kind == "bool":
		s.from, s.to = 0, 1
	case rest == "":
	case kind == "int" && isRange:
		s.from, s.to = integer(low), integer(high)
	case strings.HasPrefix(rest, ">="):
		s.from = integer(rest[2:])
	default:
		s.words = strings.Split(rest, "|")
	}
	return s
}

// String describes the syntax.
func (s Syntax) String() string {
	switch {
	case s.kind == "":
		return "text"
	case s.words != nil && s.kind != "words":
		return strings.Join(s.words, ", ")
	case s.words != nil:
		return "list of " + strings.Join(s.words, ", ")
	case s.kind == "int" && s.from == math.MinInt64:
		return "integer"
	case s.kind == "int" && s.to == math.MaxInt64:
		return fmt.Sprintf("integer, %d or more", s.from)
	case s.kind == "int":
		return fmt.Sprintf("integer from %d to %d", s.from, s.to)
	}
	return formOf(s.kind).says
}

// Check returns an error if a value is invalid. Its text is a predicate, such as "is no integer". An empty
// value is valid: NCCL treats it as unset.
func (s Syntax) Check(value string) error {
	if s.kind == "" || value == "" {
		return nil
	}
	return formOf(s.kind).check(s, value)
}

// IsSwitch reports whether 0 and 1 are the only values.
func (s Syntax) IsSwitch() bool { return s.kind == "bool" }

// leadingInt parses a number as C's strtoll does with base 0: decimal digits, or hexadecimal after 0x, or
// octal after 0. rest is the unparsed text.
func leadingInt(value string) (n int64, rest string) {
	text := strings.TrimLeft(value, " \t\n\v\f\r")
	end := 0
	if strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-") {
		end = 1
	}
	digits, base := "0123456789", 10
	lower := strings.ToLower(text[end:])
	switch {
	case len(lower) > 2 && lower[:2] == "0x" && strings.ContainsRune("0123456789abcdef", rune(lower[2])):
		digits, base, end = "0123456789abcdefABCDEF", 16, end+2
	case len(lower) > 1 && lower[0] == '0':
		digits, base = "01234567", 8
	}
	start := end
	for end < len(text) && strings.IndexByte(digits, text[end]) >= 0 {
		end++
	}
	if start == end {
		return 0, value
	}
	n, err := strconv.ParseInt(text[start:end], base, 64)
	if err != nil {
		n = math.MaxInt64
	}
	if text[0] == '-' {
		n = -n
	}
	return n, text[end:]
}

func (s Syntax) checkInt(value string) error {
	n, rest := leadingInt(value)
	if rest == value {
		return fmt.Errorf("is not a number, and counts as 0")
	}
	if strings.TrimSpace(rest) != "" {
		return fmt.Errorf("has %q after its number, and counts as %d", Shown(rest), n)
	}
	if s.words != nil {
		if !slices.Contains(s.words, strconv.FormatInt(n, 10)) {
			return fmt.Errorf("is not one of %s", strings.Join(s.words, ", "))
		}
		return nil
	}
	if n < s.from || n > s.to {
		if s.kind == "bool" {
			return errors.New("is neither 0 nor 1")
		}
		return fmt.Errorf("is not %s", an(s.String()))
	}
	return nil
}

func an(what string) string {
	if strings.HasPrefix(what, "integer") {
		return "an " + what
	}
	return "a " + what
}

func (s Syntax) checkEnum(value string) error {
	for _, w := range s.words {
		if strings.EqualFold(w, value) {
			return nil
		}
	}
	return fmt.Errorf("is not one of %s", strings.Join(s.words, ", "))
}

// checkWords checks a list of words. A ^ before the list or a word inverts it. A colon or semicolon starts
// another list.
func (s Syntax) checkWords(value string) error {
	for _, list := range strings.FieldsFunc(value, func(r rune) bool { return r == ';' || r == ':' || r == '|' }) {
		for _, w := range strings.Split(list, ",") {
			if w = strings.TrimLeft(w, "^+-"); w == "" || s.checkEnum(w) == nil {
				continue
			}
			return fmt.Errorf("has %q, which is not one of %s", Shown(w), strings.Join(s.words, ", "))
		}
	}
	return nil
}

// checkLevel checks the name of a distance, or the integer that older versions used.
func (s Syntax) checkLevel(value string) error {
	if n, rest := leadingInt(value); rest == "" && n >= 0 {
		return nil
	}
	return s.checkEnum(value)
}

// LegacyLevel returns the distance that an integer means. ok is false if the value is no integer, or the
// variable is not a distance.
func (s Syntax) LegacyLevel(value string) (name string, ok bool) {
	n, rest := leadingInt(value)
	if s.kind != "level" || rest != "" || value == "" {
		return "", false
	}
	names := []string{"LOC", "PIX", "PXB", "PHB", "SYS"}
	return names[min(max(n, 0), int64(len(names)-1))], true
}

func checkPath(_ Syntax, value string) error {
	if strings.HasPrefix(value, "~") {
		return errors.New("begins with ~, which no library expands: write the whole path")
	}
	if strings.TrimSpace(value) != value {
		return errors.New("has blanks around it, which are part of the path")
	}
	return nil
}

func checkList(_ Syntax, value string) error {
	if strings.ContainsAny(value, " \t") {
		return errors.New("has blanks, which become part of the entries")
	}
	return nil
}

func checkHostPort(_ Syntax, value string) error {
	host, port, found := strings.Cut(value, ":")
	if strings.HasPrefix(value, "[") {
		inside, behind, closed := strings.Cut(value[1:], "]")
		host, found = inside, closed && strings.HasPrefix(behind, ":")
		port = strings.TrimPrefix(behind, ":")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if !found || host == "" || err != nil || n == 0 && port != "0" {
		return errors.New("is not host:port (write IPv6 addresses in [ ])")
	}
	return nil
}

func checkCIDR(_ Syntax, value string) error {
	if _, err := netip.ParsePrefix(value); err != nil {
		return errors.New("is not a network such as 10.0.0.0/16")
	}
	return nil
}

// longestInterface is the kernel's limit on interface names.
const longestInterface = 15

// entriesOf returns the entries of a list behind ^ and =. NCCL skips empty ones, such as after a comma at the end.
func entriesOf(value string) []string {
	list := strings.TrimPrefix(strings.TrimPrefix(value, "^"), "=")
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// checkPrefixes checks a list such as the value of NCCL_SOCKET_IFNAME. ^ and = precede the whole list and
// apply to all of it.
func checkPrefixes(_ Syntax, value string) error {
	names := entriesOf(value)
	if len(names) == 0 {
		return errors.New("names no interface")
	}
	for _, name := range names {
		if strings.HasPrefix(name, "=") || strings.HasPrefix(name, "^") {
			return fmt.Errorf(
				"has %q inside: write ^ and = once, in this order, before the whole list", name[:1])
		}
		if err := checkInterface(Syntax{}, name); err != nil {
			return err
		}
	}
	return nil
}

func checkNames(_ Syntax, value string) error {
	for _, name := range strings.Split(value, ",") {
		if err := checkInterface(Syntax{}, name); err != nil {
			return err
		}
	}
	return nil
}

func checkInterface(_ Syntax, name string) error {
	switch {
	case strings.HasPrefix(name, "^") || strings.HasPrefix(name, "="):
		return fmt.Errorf("begins with %s, which becomes part of the name: write only whole names", name[:1])
	case name == "":
		return errors.New("has an empty name")
	case strings.ContainsAny(name, " \t/:;*"):
		return fmt.Errorf("has %q, which is not an interface name", Shown(name))
	case len(name) > longestInterface:
		return fmt.Errorf("has %q, which exceeds the %d characters of an interface name", Shown(name),
			longestInterface)
	}
	return nil
}

func checkDevices(_ Syntax, value string) error {
	entries := entriesOf(value)
	if len(entries) == 0 {
		return errors.New("names no RDMA device")
	}
	if len(entries) > 32 {
		return fmt.Errorf("lists %d devices, and NCCL uses only the first 32", len(entries))
	}
	for _, entry := range entries {
		fields := strings.Split(entry, ":")
		switch {
		case strings.HasPrefix(entry, "=") || strings.HasPrefix(entry, "^"):
			return fmt.Errorf(
				"has %q inside: write ^ and = once, in this order, before the whole list", entry[:1])
		case fields[0] == "" || strings.ContainsAny(entry, " \t/;*"):
			return fmt.Errorf("has %q, which is not the name of an RDMA device", Shown(entry))
		case len(fields) > 4:
			return fmt.Errorf("has %q, which has more fields than dev:port:rail:plane", Shown(entry))
		}
		for _, number := range fields[1:] {
			if _, err := strconv.ParseUint(number, 10, 16); err != nil && number != "" {
				return fmt.Errorf("has %q: write a number after each colon", Shown(entry))
			}
		}
	}
	return nil
}

func checkGPUs(_ Syntax, value string) error {
	for _, entry := range strings.Split(value, ",") {
		entry = strings.TrimSpace(entry)
		if _, err := strconv.ParseInt(entry, 10, 32); err == nil {
			continue
		}
		if upper := strings.ToUpper(entry); strings.HasPrefix(upper, "GPU-") || strings.HasPrefix(upper, "MIG-") {
			continue
		}
		return fmt.Errorf("has %q, which is not a GPU and hides all GPUs after it", Shown(entry))
	}
	return nil
}

func checkCPUs(_ Syntax, value string) error {
	for _, entry := range strings.Split(value, ",") {
		low, high, isRange := strings.Cut(entry, "-")
		a, err := strconv.ParseUint(low, 10, 16)
		b := a
		if err == nil && isRange {
			b, err = strconv.ParseUint(high, 10, 16)
		}
		if err != nil || b < a {
			return fmt.Errorf("has %q, which is not a CPU or range", Shown(entry))
		}
	}
	return nil
}
