package placement

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/internal/spelling"
)

// Limits of numbers in options, so that products of them stay small.
const (
	maxNumber = 1 << 20
	maxGPU    = 1 << 10
)

// ParseMapBy parses the value of --map-by in mpirun's syntax: OBJECT[:MODIFIER…],
// ppr:N:OBJECT[:MODIFIER…] or :MODIFIER…, ignoring case. Objects and modifiers may be abbreviated
// while unambiguous. Modifiers are separated by ":" or ",". A modifier of a part of the machine may
// also be a number, as in Hydra.
func ParseMapBy(value string) (MapBy, error) {
	option := "--map-by " + value
	m := MapBy{From: option}
	fields := strings.Split(value, ":")
	var err error
	switch {
	case strings.EqualFold(fields[0], "ppr"):
		fields, err = m.parsePPR(option, fields)
	case fields[0] != "":
		m.Object, err = lookUp(option, fields[0], mapWords())
	case len(fields) == 1:
		err = fmt.Errorf("--map-by: the value is missing; use %s or ppr:N:OBJECT",
			strings.Join(names(mapWords()), ", "))
	}
	if err != nil {
		return MapBy{}, err
	}
	for _, modifier := range strings.FieldsFunc(strings.Join(fields[1:], ","), func(r rune) bool { return r == ',' }) {
		if err := m.modify(option, modifier); err != nil {
			return MapBy{}, err
		}
	}
	if m.Oversubscribe && m.NoOversubscribe {
		return MapBy{}, fmt.Errorf("%s: oversubscribe and nooversubscribe contradict each other", option)
	}
	if m.PE > 1 && m.PPR == 0 && m.Object == ByThread || m.PE > 1 && m.Object == ByCore {
		return MapBy{},
			fmt.Errorf("%s: pe=%d exceeds the 1 CPU of a %s; map by a larger object, or use slot:pe=%d", option, m.PE,
				m.Object, m.PE)
	}
	if m.PE > 1 && m.Object == AnyObject {
		m.Object = ByNUMA // as in Open MPI 4
	}
	return m, nil
}

// parsePPR parses the fields "ppr", N and OBJECT and returns the remaining fields after a first
// one.
func (m *MapBy) parsePPR(option string, fields []string) ([]string, error) {
	if len(fields) < 3 {
		return nil, fmt.Errorf("%s: write ppr:N:OBJECT, such as ppr:2:package", option)
	}
	n, err := positive(fields[1])
	if err != nil {
		return nil, fmt.Errorf("%s: ranks per object: %w", option, err)
	}
	m.PPR = n
	m.Object, err = lookUp(option, fields[2], pprWords())
	return fields[2:], err
}

var mapModifiers = []string{"span", "oversubscribe", "nooversubscribe", "pe=N"}

func (m *MapBy) modify(option, modifier string) error {
	lower := strings.ToLower(modifier)
	if number, ok := strings.CutPrefix(lower, "pe="); ok {
		n, err := positive(number)
		if err != nil {
			return fmt.Errorf("%s: pe: %w", option, err)
		}
		m.PE = n
		return nil
	}
	n, err := positive(lower)
	switch {
	case err == nil && m.PPR == 0 && m.Object.part():
		m.Count = n
	case lower == "span":
		m.Span = true
	case strings.HasPrefix("oversubscribe", lower):
		m.Oversubscribe = true
	case strings.HasPrefix("nooversubscribe", lower):
		m.NoOversubscribe = true
	case m.Object == ByDistance && m.Device == "":
		m.Device = modifier
	default:
		return unknown(option, "modifier", modifier, mapModifiers)
	}
	return nil
}

// ParseBindTo parses the value of --bind-to in the syntax of mpirun,
// OBJECT[:if-supported][:overload-allowed], or of Hydra, OBJECT:N and user:0+2,1+4.
func ParseBindTo(value string) (BindTo, error) {
	option := "--bind-to " + value
	b := BindTo{Given: true, From: option}
	if lists, ok := strings.CutPrefix(value, "user:"); ok {
		return b, b.parseLists(option, lists)
	}
	fields := strings.Split(value, ":")
	var err error
	if fields[0] != "" || len(fields) == 1 {
		if b.Object, err = lookUp(option, fields[0], bindWords()); err != nil {
			return BindTo{}, err
		}
	} else {
		b.Given = false // only modifiers
	}
	for _, modifier := range strings.FieldsFunc(strings.Join(fields[1:], ","), func(r rune) bool { return r == ',' }) {
		switch n, err := positive(modifier); {
		case err == nil:
			b.Count = n
		case strings.EqualFold(modifier, "overload-allowed"):
			b.OverloadAllowed = true
		case strings.EqualFold(modifier, "if-supported"):
			b.IfSupported = true
		default:
			return BindTo{}, unknown(option, "modifier", modifier, []string{"overload-allowed", "if-supported", "N"})
		}
	}
	return b, nil
}

// parseLists parses CPUs such as "0+2,1+4", in which the first rank gets 0 and 2.
func (b *BindTo) parseLists(option, lists string) error {
	for _, list := range strings.Split(lists, ",") {
		set, err := ParseCPUSet(strings.ReplaceAll(list, "+", ","))
		if err == nil && set.Len() == 0 {
			err = errors.New("the list of a rank is empty")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", option, err)
		}
		b.Lists = append(b.Lists, set)
	}
	return nil
}

// ParseRankBy parses the value of --rank-by: OBJECT, OBJECT:span or OBJECT:fill, or Open MPI 5's
// span and fill alone for the objects of the mapping.
func ParseRankBy(value string) (RankBy, error) {
	option := "--rank-by " + value
	r := RankBy{From: option}
	object, order, hasOrder := strings.Cut(value, ":")
	if word := strings.ToLower(object); !hasOrder && (word == "span" || word == "fill") {
		object, order, hasOrder = "", word, true
	}
	if object != "" || !hasOrder {
		var err error
		if r.Object, err = lookUp(option, object, rankWords()); err != nil {
			return RankBy{}, err
		}
	}
	switch strings.ToLower(order) {
	case "":
	case "span":
		r.Order = RankSpan
	case "fill":
		r.Order = RankFill
	default:
		return RankBy{}, unknown(option, "modifier", order, []string{"span", "fill"})
	}
	return r, nil
}

// ParseNUMABinding parses the value of torchrun's --numa-binding.
func ParseNUMABinding(value string) (NUMABinding, error) {
	known := []string{string(NUMANodeBinding), string(NUMASocketBinding), string(NUMAExclusive), string(NUMACoreComplex)}
	if slices.Contains(known, value) {
		return NUMABinding(value), nil
	}
	return "", unknown("--numa-binding "+value, "binding", value, known)
}

// ParseGPUs parses the value of --gpus: "free", or indices and ranges of GPUs in rank order:
// "2,4,7".
func ParseGPUs(value string) (GPUChoice, error) {
	option := "--gpus " + value
	if strings.EqualFold(value, "free") {
		return GPUChoice{Free: true, From: option}, nil
	}
	if value == "all" {
		return GPUChoice{}, errors.New(option + ": leave it out: ranks get all GPUs, unless you name some")
	}
	choice := GPUChoice{From: option}
	for _, item := range strings.Split(value, ",") {
		first, last, err := parseRange(item)
		if err != nil || last >= maxGPU {
			return GPUChoice{},
				fmt.Errorf("%s: %q is not a number or range of GPUs; use numbers (2,4,7), ranges (0-3) or free", option, item)
		}
		for index := first; index <= last; index++ {
			if slices.Contains(choice.Indices, index) {
				return GPUChoice{}, fmt.Errorf("%s: GPU %d is named twice", option, index)
			}
			choice.Indices = append(choice.Indices, index)
		}
	}
	return choice, nil
}

// positive parses a number of at least 1.
func positive(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxNumber {
		return 0, fmt.Errorf("%q is not a number from 1 to %d", text, maxNumber)
	}
	return n, nil
}

// lookUp finds the object with a spelling: the full word or an unambiguous prefix of it.
func lookUp(option, text string, words []word) (Object, error) {
	lower := plainCache(strings.ToLower(text))
	var found []Object
	for _, w := range words {
		if w.name == lower {
			return w.object, nil
		}
		if lower != "" && strings.HasPrefix(w.name, lower) && !slices.Contains(found, w.object) {
			found = append(found, w.object)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return 0, unknown(option, "object", text, names(words))
}

// plainCache maps Hydra's l2dcache, l2icache and l2ucache to l2cache.
func plainCache(word string) string {
	level, kind := strings.CutSuffix(word, "cache")
	if kind && len(level) == len("l2d") && level[0] == 'l' && strings.IndexByte("diu", level[2]) >= 0 {
		return level[:2] + "cache"
	}
	return word
}

func names(words []word) []string {
	known := make([]string, len(words))
	for i, w := range words {
		known[i] = w.name
	}
	return known
}

// unknown returns an error for an unknown word that suggests a similar known one.
func unknown(option, kind, text string, known []string) error {
	best, bestDistance := "", max(1, len(text)/3)+1
	for _, candidate := range known {
		most := min(bestDistance, len(candidate))
		if d := spelling.Distance(strings.ToLower(text), candidate, most); d < most {
			best, bestDistance = candidate, d
		}
	}
	if best != "" {
		best = fmt.Sprintf(" (did you mean %s?)", best)
	}
	return fmt.Errorf("%s: unknown %s %q%s; known: %s", option, kind, text, best, strings.Join(known, ", "))
}
