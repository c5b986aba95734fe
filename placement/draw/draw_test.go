package draw_test

import (
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/placement"
	"gorun/placement/draw"
)

//go:generate go test -run ^Test -count=1 . -update

var update = flag.Bool("update", false, "rewrite the pictures in testdata")

func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), text, "%s: go generate ./placement/draw", file)
}

func TestPictures(t *testing.T) {
	for name, machine := range machines {
		t.Run(name, func(t *testing.T) {
			m := machine()
			text := draw.Picture(m, nil, draw.Style{})
			if matrix := draw.Matrix(m, draw.Style{}); matrix != "" {
				text += "\n" + matrix
			}
			golden(t, name+".txt", text)
		})
	}
}

// fits checks the invariants of all terminal output.
func fits(t *testing.T, text string, style draw.Style) {
	t.Helper()
	width := style.Width
	if width == 0 {
		width = draw.DefaultWidth
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line) > width || strings.HasSuffix(line, " ") {
			t.Fatalf("%q is wider than %d columns, or ends in blanks", line, width)
		}
		for _, r := range line { // require would be too slow for a million characters
			if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' || style.ASCII && r > '~' {
				t.Fatalf("%q has %q", line, r)
			}
		}
	}
}

func TestTextsFit(t *testing.T) {
	r := testneeds.Rand(t)
	check := func(m placement.Machine) {
		for _, style := range []draw.Style{{}, {Width: 60}, {Width: 80, ASCII: true}, {Width: 120}} {
			fits(t, draw.Picture(m, nil, style), style)
			fits(t, draw.Matrix(m, style), style)
		}
	}
	for _, machine := range machines {
		check(machine())
	}
	for range testneeds.Count(60, 2000) {
		check(anyMachine(r))
	}
}

func TestPlacementsFitAnywhere(t *testing.T) {
	r := testneeds.Rand(t)
	for range testneeds.Count(40, 1000) {
		m := anyMachine(r)
		placed := spread(m, 1+r.IntN(80))
		for _, style := range []draw.Style{{Width: 60}, {Width: 80, ASCII: true}} {
			fits(t, draw.Picture(m, placed, style), style)
			text := draw.Placements(m, placed, style)
			fits(t, text, style)
			require.Equal(t, text, draw.Placements(m, placed, style), "the same again")
		}
		wellFormed(t, draw.SVG(m, placed))
		if p, err := draw.Predict(m, 1+r.Int64N(1<<40)); err == nil {
			require.Positive(t, p.Seconds)
			fits(t, p.Text(draw.Style{Width: 60}), draw.Style{Width: 60})
		}
	}
}

// coresLine matches the CPUs in a line about cores, with or without wraps.
var coresLine = regexp.MustCompile(`(?:threads?(?: each)?|known cores), CPUs? ((?:[0-9:-]+,? ?)+)`)

// shown returns the CPUs in the lines about cores.
func shown(picture string) (cpus []string) {
	plain := strings.Join(strings.FieldsFunc(picture, func(r rune) bool {
		return r == ' ' || r == '\n' || r == '│'
	}), " ")
	for _, found := range coresLine.FindAllStringSubmatch(plain, -1) {
		cpus = append(cpus, withoutSteps(strings.ReplaceAll(found[1], " ", "")))
	}
	return cpus
}

// withoutSteps expands "0-4:2" to "0,2,4".
func withoutSteps(list string) string {
	var items []string
	for item := range strings.SplitSeq(list, ",") {
		var first, last, step int
		if n, _ := fmt.Sscanf(item, "%d-%d:%d", &first, &last, &step); n < 3 {
			items = append(items, item)
			continue
		}
		for ; first <= last; first += step {
			items = append(items, fmt.Sprint(first))
		}
	}
	return strings.Join(items, ",")
}

// Each CPU, GPU and NIC is in exactly one line.
func TestEverythingAppears(t *testing.T) {
	r := testneeds.Rand(t)
	for range testneeds.Count(40, 2000) {
		m := anyMachine(r)
		text := draw.Picture(m, nil, draw.Style{Width: draw.MaxWidth})
		var all []string
		inLines := 0
		for _, list := range shown(text) {
			all = append(all, list)
			inLines += must(list).Len()
		}
		require.Equal(t, len(m.Topology.CPUs), inLines, text)
		require.Equal(t, len(m.Topology.CPUs), must(strings.Join(all, ",")).Len(), text)
		for _, g := range m.GPUs {
			require.Equal(t, 1, strings.Count(text, " "+g.PCI+" "), text)
		}
		for _, n := range m.Topology.NICs {
			require.Equal(t, 1, strings.Count(text, " "+n.Name+" "), text)
		}
	}
}

// spread returns a Layout with equal shares of all cores for n ranks. It assigns one GPU per rank
// while there are enough.
func spread(m placement.Machine, n int) []draw.Placement {
	cores := map[int][]string{}
	most := 0
	for _, c := range m.Topology.CPUs {
		cores[c.Core] = append(cores[c.Core], fmt.Sprint(c.ID))
		most = max(most, c.Core)
	}
	placed := make([]draw.Placement, n)
	for rank := range n {
		var cpus []string
		for core := rank * (most + 1) / n; core < (rank+1)*(most+1)/n; core++ {
			cpus = append(cpus, cores[core]...)
		}
		placed[rank] = draw.Placement{Rank: rank, CPUs: must(strings.Join(cpus, ","))}
		if rank < len(m.GPUs) {
			placed[rank].GPUs = m.GPUs[rank : rank+1]
		}
	}
	return placed
}

func TestPlacements(t *testing.T) {
	for name, row := range map[string]struct {
		machine func() placement.Machine
		ranks   int
	}{
		"two-2": {two, 2}, "laptop-3": {laptop, 3}, "dgx-a100-8": {dgxA100, 8}, "pairs-8": {pairs, 8},
		"pairs-64": {pairs, 64}, "grace-4": {grace, 4},
	} {
		t.Run(name, func(t *testing.T) {
			m := row.machine()
			placed := spread(m, row.ranks)
			golden(t, "placements-"+name+".txt", draw.Picture(m, placed, draw.Style{Width: 80})+"\n"+
				draw.Placements(m, placed, draw.Style{Width: 80}))
			for _, style := range []draw.Style{{}, {Width: 60, ASCII: true}, {Width: 120}} {
				fits(t, draw.Placements(m, placed, style), style)
			}
		})
	}
}

func TestPlacementsWithoutBinding(t *testing.T) {
	m := pairs()
	placed := []draw.Placement{{Rank: 4}, {Rank: 5}, {Rank: 6}}
	require.Equal(t, "ranks 4-6  not bound\n", draw.Placements(m, placed, draw.Style{}))
	require.Equal(t, draw.Picture(m, nil, draw.Style{}), draw.Picture(m, placed, draw.Style{}))
	threads := []draw.Placement{
		{Rank: 0, CPUs: must("0")},
		{Rank: 1, CPUs: must("64")},
		{Rank: 2, CPUs: must("0,32,64")},
		{Rank: 3, CPUs: must("500")},
	}
	text := draw.Placements(m, threads, draw.Style{})
	require.Equal(t, `rank 0  numa 0 CPU 0                  [B./31×..][32×..]
rank 1  numa 0 CPU 64                 [.B/31×..][32×..]
rank 2  numa 0 core 0, numa 1 CPU 32  [BB/31×..][B./31×..]
rank 3  CPU 500                       [32×..][32×..]
`, text)
}

// Small maps are equal to those of Open MPI.
func TestCoreMapOfOpenMPI(t *testing.T) {
	m := shape{2, 1, 1, 4, 2, gib, 0, 20}.build()
	placed := []draw.Placement{{Rank: 0, CPUs: must("0-1,8-9")}, {Rank: 1, CPUs: must("4,6")}}
	require.Equal(t, "rank 0  numa 0 cores 0-1  [BB/BB/../..][../../../..]\n"+
		"rank 1  numa 1 CPUs 4,6   [../../../..][B./../B./..]\n",
		draw.Placements(m, placed, draw.Style{}))
}

// The expected lines are the --report-bindings output of Open MPI 4.1 for this machine.
func TestBindingsOfOpenMPI(t *testing.T) {
	m := shape{2, 1, 1, 4, 2, gib, 0, 20}.build()
	placed := []draw.Placement{
		{Rank: 0, CPUs: must("0-1,8-9")},
		{Rank: 1, CPUs: must("4,6")},
		{Rank: 2},
		{Rank: 3, CPUs: must("0-15")},
	}
	require.Equal(t,
		"MCW rank 0 bound to socket 0[core 0[hwt 0-1]], socket 0[core 1[hwt 0-1]]: [BB/BB/../..][../../../..]\n"+
			"MCW rank 1 bound to socket 1[core 4[hwt 0]], socket 1[core 6[hwt 0]]: [../../../..][B./../B./..]\n"+
			"MCW rank 2 is not bound (or bound to all available processors)\n"+
			"MCW rank 3 is not bound (or bound to all available processors)\n", draw.OpenMPI(m, placed))
	require.Equal(t, "MCW rank 0 bound to CPUs 0-1\n", draw.OpenMPI(placement.Machine{Topology: &placement.Topology{}},
		[]draw.Placement{{CPUs: must("0-1")}}))
}

func TestPredict(t *testing.T) {
	for name, row := range map[string]struct {
		machine func() placement.Machine
		class   string
		seconds float64
	}{
		"links":    {dgxA100, "NV12", 2 * 7. / 8 * 7.5e9 / (12 * 20e9)},
		"newer":    {grace, "NV18", 2 * 3. / 4 * 7.5e9 / (18 * 40e9)},
		"no links": {pairs, "SYS", 2 * 7. / 8 * 7.5e9 / 10e9},
		"bridged":  {bridged, "NV1", 2 * 3. / 4 * 7.5e9 / 20e9},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := draw.Predict(row.machine(), 7_500_000_000)
			require.NoError(t, err)
			require.Equal(t, row.class, p.Class)
			require.InEpsilon(t, row.seconds, p.Seconds, 1e-9)
			golden(t, "impact-"+strings.ReplaceAll(name, " ", "-")+".txt", p.Text(draw.Style{Width: 80}))
			for _, style := range []draw.Style{{Width: 60}, {Width: 80, ASCII: true}} {
				fits(t, p.Text(style), style)
			}
		})
	}
	_, err := draw.Predict(laptop(), 1)
	require.ErrorContains(t, err, "needs two GPUs, this machine has 1")
	m := pairs()
	m.Topology = nil
	_, err = draw.Predict(m, 1)
	require.ErrorContains(t, err, "8 GPUs of this machine are unknown")
}

// bridged links GPUs in a ring that differs from PCI address order: 0-2-1-3-0.
func bridged() placement.Machine {
	m := pairs()
	m.GPUs = m.GPUs[:4]
	for _, pair := range [][2]int{{0, 2}, {2, 1}, {1, 3}, {3, 0}} {
		for i := range pair {
			from, to := pair[i], pair[1-i]
			m.GPUs[from].Links = append(m.GPUs[from].Links, placement.Link{Peer: m.GPUs[to].PCI, Kind: "nvlink", Count: 1})
		}
	}
	return m
}

func TestDescribe(t *testing.T) {
	m := pairs()
	impact, err := draw.Predict(m, 1e9)
	require.NoError(t, err)
	text, err := json.MarshalIndent(draw.Describe(m, spread(m, 2), nil, impact), "", "  ")
	require.NoError(t, err)
	golden(t, "pairs.json", string(text)+"\n")
	var read struct {
		Machine placement.Machine
		Paths   []struct{ From, To, Class string }
	}
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, m, read.Machine)
	require.Len(t, read.Paths, 45)
	for name, machine := range machines {
		text, err := json.Marshal(draw.Describe(machine(), nil, nil, nil))
		require.NoError(t, err, name)
		var again struct{ Machine placement.Machine }
		require.NoError(t, json.Unmarshal(text, &again), name)
		require.Equal(t, machine().GPUs, again.Machine.GPUs, name)
	}
}

func TestSVG(t *testing.T) {
	for name, machine := range machines {
		t.Run(name, func(t *testing.T) {
			m := machine()
			text := draw.SVG(m, nil)
			wellFormed(t, text)
			if m.Topology != nil {
				text = draw.SVG(m, spread(m, 3))
				wellFormed(t, text)
			}
			require.NotContains(t, text, "<&\">")
		})
	}
	cells := strings.Count(draw.SVG(dgxA100(), nil), "<title>core ")
	require.Equal(t, 256, cells, "a cell for each thread")
	golden(t, "two.svg", draw.SVG(two(), spread(two(), 2)))
}

// wellFormed parses a document to its end, and checks that everything is within the sheet.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	elements := 0
	var sheet map[string]int
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err, text)
		if start, ok := token.(xml.StartElement); ok {
			require.Equal(t, "http://www.w3.org/2000/svg", start.Name.Space)
			at := numbers(start)
			if elements++; start.Name.Local == "svg" {
				sheet = at
			}
			require.GreaterOrEqual(t, min(at["x"], at["y"], at["width"], at["height"]), 0, "%v", start)
			require.LessOrEqual(t, max(at["x"]+at["width"], at["x1"], at["x2"]), sheet["width"], "%v", start)
			require.LessOrEqual(t, max(at["y"]+at["height"], at["y1"], at["y2"]), sheet["height"], "%v", start)
		}
	}
	require.Positive(t, elements)
}

// numbers returns the integer attributes of an element.
func numbers(e xml.StartElement) map[string]int {
	found := map[string]int{}
	for _, a := range e.Attr {
		if n, err := strconv.Atoi(a.Value); err == nil {
			found[a.Name.Local] = n
		}
	}
	return found
}

func TestEqualNICsAreOneLine(t *testing.T) {
	m := two()
	m.Topology.NICs = nil
	for i := range 40 {
		m.Topology.NICs = append(m.Topology.NICs, placement.NIC{
			Name: fmt.Sprint("ens1v", i), Interface: fmt.Sprint("ens1v", i), Kind: placement.Ethernet, State: "down",
			Bus: bus(fmt.Sprintf("0000:03:%02x.0", i), 0, "pci0000:00", "0000:00:01.0"),
		})
	}
	for i := range 4 {
		m.Topology.NICs = append(m.Topology.NICs, placement.NIC{
			Name: fmt.Sprint("rdma", i), Kind: placement.EFA, Up: true, Gbps: 100,
			Bus: bus(fmt.Sprintf("0000:04:%02x.0", i), 0, "pci0000:00", "0000:00:02.0"),
		})
	}
	text := draw.Picture(m, nil, draw.Style{})
	require.Contains(t, text, "┬ 00:01.0 ─ 40 NICs  0000:03:00.0…  Ethernet · down · ens1v0 … ens1v39 ")
	require.Contains(t, text, "└ 00:02.0 ─ 4 NICs   0000:04:00.0…  EFA 100 Gb/s · rdma0 rdma1 rdma2 rdma3 ")
}

func TestManyRanksThatTakeTurns(t *testing.T) {
	m := pairs()
	var placed []draw.Placement
	for rank := range 64 {
		core := rank%2*32 + rank/2
		placed = append(placed, draw.Placement{Rank: rank, CPUs: must(fmt.Sprintf("%d,%d", core, core+64))})
	}
	want := "ranks 0-62:2  numa 0 cores 0-31, 1 each   [32×BB][32×..]\n" +
		"ranks 1-63:2  numa 1 cores 32-63, 1 each  [32×..][32×BB]\n"
	require.Equal(t, want, draw.Placements(m, placed, draw.Style{}))
	placed = placed[:32]
	require.Equal(t, 32, strings.Count(draw.Placements(m, placed, draw.Style{}), "\n"), "few are not merged")
}

func TestPeers(t *testing.T) {
	m := pairs()
	refuse := func(access placement.P2PStatus, to func(i, j int) bool) {
		for i := range m.GPUs {
			m.GPUs[i].Peers = nil
			for j := range m.GPUs {
				peer := placement.Peer{PCI: m.GPUs[j].PCI, Access: placement.P2POK}
				if to(i, j) {
					peer.Access = access
				}
				if i != j {
					m.GPUs[i].Peers = append(m.GPUs[i].Peers, peer)
				}
			}
		}
	}
	require.NotContains(t, draw.Matrix(m, draw.Style{}), "Peer-to-peer")
	refuse(placement.P2PTopology, func(i, j int) bool { return i/4 != j/4 })
	require.Contains(t, draw.Matrix(m, draw.Style{}),
		"\nPeer-to-peer:\n  GPU0 does not reach GPU 4-7: topology not supported\n")
	refuse(placement.P2PChipset, func(int, int) bool { return true })
	require.Contains(t, draw.Matrix(m, draw.Style{}),
		"\nPeer-to-peer: no GPU reaches another's memory: chipset not supported\n")
	refuse("", func(int, int) bool { return false })
	require.Contains(t, draw.Matrix(m, draw.Style{}), "\nPeer-to-peer: each GPU reaches the memory of all others\n")
}

// The prediction and the picture use the PCIe link that the GPUs report: the slowest one, with the
// lanes in use.
func TestPCIeLinks(t *testing.T) {
	linked := func(links ...placement.PCIeLink) placement.Machine {
		m, err := placement.Example("mi300x")
		require.NoError(t, err)
		for i := range m.GPUs {
			m.GPUs[i].Links, m.GPUs[i].Bus.Link = nil, nil
			if len(links) > 0 {
				m.GPUs[i].Bus.Link = &links[i%len(links)]
			}
		}
		return m
	}
	wide, half := placement.PCIeLink{GTps: 32, Width: 16, GTpsNow: 2.5, WidthNow: 16},
		placement.PCIeLink{GTps: 32, Width: 16, WidthNow: 4}
	tests := []struct {
		machine        placement.Machine
		pix, node, sys float64
		why            string
	}{
		{linked(), 24, 20, 10, "PCIe 4.0 x16, a guess"},
		{linked(wide), 48, 40, 10, "PCIe 5.0 x16, as the GPUs report"},
		{linked(wide, half), 12, 10, 10, "PCIe 5.0 x4 of x16, as the GPUs report"},
		{linked(placement.PCIeLink{GTps: 8, Width: 8}), 6, 5, 5, "PCIe 3.0 x8, as the GPUs report"},
		{linked(placement.PCIeLink{GTps: 3, Width: 8}), 24, 20, 10, "PCIe 4.0 x16, a guess"},
	}
	for _, tt := range tests {
		p, err := draw.Predict(tt.machine, 1e9)
		require.NoError(t, err)
		got := map[string]float64{}
		for _, a := range p.Assumptions {
			got[a.Class] = a.GBps
		}
		require.Equal(t, map[string]float64{"PIX": tt.pix, "PXB": tt.pix, "PHB": tt.node, "NODE": tt.node, "SYS": tt.sys},
			got)
		require.Equal(t, tt.why, p.Assumptions[0].Why)
	}
	m := linked(wide, half)
	m.Topology.NICs[0].Bus.Link = &placement.PCIeLink{GTps: 16, Width: 16} // for a port of 400 Gb/s
	m.Topology.NICs[1].Bus.Link = &placement.PCIeLink{GTps: 32, Width: 16}
	text := draw.Picture(m, nil, draw.Style{Width: 120})
	require.Contains(t, text, "MI300X OAM · 192 GiB · PCIe 5.0 x16 ")
	require.Contains(t, text, "MI300X OAM · 192 GiB · PCIe 5.0 x4 of x16 ")
	require.Contains(t, text, "enp24s0np0 · PCIe 4.0 x16 ")
	require.Contains(t, text, "RoCE 400 Gb/s · enp58s0np0  ")
}
