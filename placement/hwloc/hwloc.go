// Package hwloc describes a machine in the XML format of hwloc 2, like
// hwloc_topology_export_xmlbuffer. MPI libraries that get the XML from their launcher need not
// discover the machine themselves.
//
// hwloc2.dtd defines the format. The order of objects and the contents of their sets follow hwloc's
// documentation ("Terms and Definitions") and the library's output.
package hwloc

import (
	"fmt"
	"slices"
	"strings"

	"gorun/placement"
)

// XML describes a machine without its devices.
func XML(t placement.Topology, d placement.Details) string {
	m := newTree(t, d)
	m.root.cover(placement.CPUSet{})
	w := &writer{}
	w.line(0, `<?xml version="1.0" encoding="UTF-8"?>`)
	w.line(0, `<!DOCTYPE topology SYSTEM "hwloc2.dtd">`)
	w.line(0, `<topology version="2.0">`)
	w.object(1, m.root)
	w.distances(t.Nodes)
	w.kinds(t.CPUs)
	w.line(0, "</topology>")
	return w.text.String()
}

type writer struct {
	text strings.Builder
	last int // gp_index
}

func (w *writer) line(depth int, format string, args ...any) {
	w.text.WriteString(strings.Repeat("  ", depth))
	fmt.Fprintf(&w.text, format, args...)
	w.text.WriteByte('\n')
}

// object writes an object and its children, memory children first.
func (w *writer) object(depth int, o *object) {
	w.last++
	var head strings.Builder
	fmt.Fprintf(&head, `type="%s"`, o.kind)
	if o.index >= 0 {
		fmt.Fprintf(&head, ` os_index="%d"`, o.index)
	}
	fmt.Fprintf(&head, ` cpuset="%s" complete_cpuset="%s"`, bitmap(o.cpus), bitmap(o.cpus.Union(o.offline)))
	if o.kind == machine {
		fmt.Fprintf(&head, ` allowed_cpuset="%s"`, bitmap(o.allowed))
	}
	fmt.Fprintf(&head, ` nodeset="%s" complete_nodeset="%[1]s"`, bitmap(o.nodes))
	if o.kind == machine {
		fmt.Fprintf(&head, ` allowed_nodeset="%s"`, bitmap(o.allowedNodes))
	}
	fmt.Fprintf(&head, ` gp_index="%d"%s`, w.last, o.attributes)
	below := slices.Concat(o.memory, o.children)
	if len(below) == 0 {
		w.line(depth, "<object %s/>", head.String())
		return
	}
	w.line(depth, "<object %s>", head.String())
	for _, child := range below {
		w.object(depth+1, child)
	}
	w.line(depth, "</object>")
}

// distances writes the distances between NUMA nodes if all are known.
func (w *writer) distances(nodes []placement.NUMANode) {
	if len(nodes) < 2 {
		return
	}
	var indexes, values strings.Builder
	for _, n := range nodes {
		if len(n.Distances) != len(nodes) {
			return
		}
		fmt.Fprintf(&indexes, "%d ", n.ID)
		for _, d := range n.Distances {
			fmt.Fprintf(&values, "%d ", d)
		}
	}
	// 5: from the operating system, latencies.
	w.line(1, `<distances2 type="NUMANode" nbobjs="%d" kind="5" name="NUMALatency" indexing="os">`, len(nodes))
	w.line(2, `<indexes length="%d">%s</indexes>`, indexes.Len(), indexes.String())
	w.line(2, `<u64values length="%d">%s</u64values>`, values.Len(), values.String())
	w.line(1, "</distances2>")
}

// kinds writes the core kinds with their relative performance.
func (w *writer) kinds(cpus []placement.CPU) {
	var kinds [][]int
	for _, cpu := range cpus {
		for len(kinds) <= cpu.Kind {
			kinds = append(kinds, nil)
		}
		kinds[cpu.Kind] = append(kinds[cpu.Kind], cpu.ID)
	}
	if len(kinds) < 2 {
		return
	}
	for i := len(kinds) - 1; i >= 0; i-- {
		if len(kinds[i]) > 0 {
			w.line(1, `<cpukind cpuset="%s" forced_efficiency="%d"/>`, bitmap(placement.NewCPUSet(kinds[i]...)), len(kinds)-1-i)
		}
	}
}
