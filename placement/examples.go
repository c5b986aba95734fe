package placement

import (
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Example machines serve tests, and let users try out what gorun does on a machine that they do not
// have.
//
//go:embed testdata/machines/*.json
var exampleFiles embed.FS

const exampleDir = "testdata/machines"

// Examples returns the sorted names of the machines that [Example] knows.
func Examples() []string {
	entries, _ := exampleFiles.ReadDir(exampleDir) // it is part of the program
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	slices.Sort(names)
	return names
}

// exampleFile is the format of a machine's file. It leaves out what would repeat: the CPUs are in a
// table of their own, the links of every GPU to every other one are given once, and the CPUs near a
// device are those of its node.
type exampleFile struct {
	CPUs    cpuTable `json:"cpus"`
	Mesh    *Link    `json:"mesh,omitempty"`
	Machine Machine  `json:"machine"`
}

// Example returns a typical machine by name, such as "dgx-h100". The error for an unknown name
// lists the known ones.
func Example(name string) (Machine, error) {
	text, err := exampleFiles.ReadFile(exampleDir + "/" + name + ".json")
	if err != nil {
		return Machine{}, fmt.Errorf("no example machine is named %q; choose one of %s", name, strings.Join(Examples(), ", "))
	}
	var file exampleFile
	if err = json.Unmarshal(text, &file); err == nil {
		file.Machine.Topology.CPUs, err = file.CPUs.rows()
	}
	if err != nil {
		return Machine{}, fmt.Errorf("example machine %s: %w", name, err)
	}
	file.complete()
	return file.Machine, nil
}

// complete adds what the file leaves out.
func (f *exampleFile) complete() {
	m := &f.Machine
	var buses []*Bus
	for i := range m.GPUs {
		buses = append(buses, m.GPUs[i].Bus)
		for j := range m.GPUs {
			if i != j && f.Mesh != nil {
				m.GPUs[i].Links = append(m.GPUs[i].Links, Link{Peer: m.GPUs[j].PCI, Kind: f.Mesh.Kind, Count: f.Mesh.Count})
			}
		}
	}
	for _, nic := range m.Topology.NICs {
		buses = append(buses, nic.Bus)
	}
	for _, bus := range buses {
		bus.Near = m.Topology.Node(bus.Node).CPUs
	}
}

// cpuTable is a compact form of all CPUs. Each column has an entry per core, in the order of the
// logical numbers, and consists of items separated by blanks:
//
//	5      the number 5
//	0-3    0 1 2 3
//	0-6:2  0 2 4 6
//	0*3    0 0 0
//	0-1*3  0 0 0 1 1 1
//	-*3    no value, three times
type cpuTable struct {
	// Threads are the numbers of the CPUs: one column for the cores' first hardware threads, one
	// for their second, and so on. A core without that thread has no value.
	Threads []string `json:"threads"`
	Package string   `json:"package"`
	Node    string   `json:"node"`
	Die     string   `json:"die"`
	L3      string   `json:"l3"`
	L2      string   `json:"l2"`
	Kind    string   `json:"kind,omitempty"` // missing: all 0
}

// rows returns the CPUs by number.
func (t cpuTable) rows() ([]CPU, error) {
	columns := make([][]int, 6)
	for i, text := range []string{t.Package, t.Node, t.Die, t.L3, t.L2, t.Kind} {
		var err error
		if columns[i], err = parseColumn(text); err != nil {
			return nil, err
		}
	}
	if len(columns[5]) == 0 {
		columns[5] = make([]int, len(columns[0]))
	}
	var rows []CPU
	threads := map[int]int{} // of each core
	for _, text := range t.Threads {
		ids, err := parseColumn(text)
		if err != nil {
			return nil, err
		}
		for core, id := range ids {
			if id < 0 {
				continue
			}
			row := CPU{ID: id, Core: core, Thread: threads[core]}
			threads[core]++
			for i, field := range []*int{&row.Package, &row.Node, &row.Die, &row.L3, &row.L2, &row.Kind} {
				if core >= len(columns[i]) {
					return nil, fmt.Errorf("core %d has no entry in column %d of the CPUs", core, i)
				}
				*field = columns[i][core]
			}
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b CPU) int { return a.ID - b.ID })
	return rows, nil
}

// parseColumn parses a column; no value is -1.
func parseColumn(text string) ([]int, error) {
	var column []int
	for word := range strings.FieldsSeq(text) {
		values, times, isRepeated := strings.Cut(word, "*")
		n := 1
		if isRepeated {
			var err error
			if n, err = strconv.Atoi(times); err != nil || n < 0 || n > maxCPU {
				return nil, fmt.Errorf("%q is not a number of repetitions", times)
			}
		}
		first, last, step, err := parseSteps(values)
		if err != nil {
			return nil, err
		}
		for value := first; value <= last; value += step {
			for range n {
				column = append(column, value)
			}
		}
	}
	return column, nil
}

// parseSteps parses "5", "0-3", "0-6:2" or "-".
func parseSteps(text string) (first, last, step int, err error) {
	if text == "-" {
		return -1, -1, 1, nil
	}
	values, by, hasStep := strings.Cut(text, ":")
	if first, last, err = parseRange(values); err != nil {
		return 0, 0, 0, err
	}
	step = 1
	if hasStep {
		if step, err = strconv.Atoi(by); err != nil || step < 1 {
			return 0, 0, 0, fmt.Errorf("%q is not a step", by)
		}
	}
	return first, last, step, nil
}
