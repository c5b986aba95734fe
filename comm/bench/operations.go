package bench

import "math"

// operation describes a collective, independent of the implementation. n is the number of ranks, S the size in
// bytes as nccl-tests counts it.
type operation struct {
	name    string
	reduces bool // has a reduction
	rooted  bool // has a root
	parts   bool // each rank has one part of the vector

	outOfPlace, inPlace bool // supported places

	// factor converts algbw to busbw: the part of S that the busiest rank sends or receives (nccl-tests,
	// PERFORMANCE.md).
	factor func(n float64) float64
	// messages and moved are parameters of the model: sequential messages, and the part of S that passes
	// through one rank.
	messages, moved func(n float64) float64
	// formula is the model's formula, and source is its origin.
	formula, source string
	// traffic is the least memory traffic of each rank, relative to copying S bytes, which reads and writes S.
	// The n ranks together read every input byte and write every output byte.
	traffic func(n float64) float64
}

const (
	thakur  = "Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH, 2005"
	hockney = "Hockney: The communication challenge for MPP, 1994"
)

func one(float64) float64      { return 1 }
func none(float64) float64     { return 0 }
func half(float64) float64     { return 0.5 }
func others(n float64) float64 { return n - 1 }
func rest(n float64) float64   { return (n - 1) / n }
func tree(n float64) float64   { return math.Ceil(math.Log2(n)) }

// wholeAndPart is the traffic of reading S and writing S/n on each rank, or the reverse.
func wholeAndPart(n float64) float64 { return (1 + 1/n) / 2 }

var operations = []operation{
	{
		name: "allreduce", reduces: true, outOfPlace: true, inPlace: true,
		factor: twiceRest, messages: twiceOthers, moved: twiceRest, traffic: one,
		formula: "2(n-1)·α + 2(n-1)/n·S·β, a ring", source: thakur,
	},
	{
		name: "reduce", reduces: true, rooted: true, outOfPlace: true, inPlace: true,
		factor: one, messages: tree, moved: one, traffic: wholeAndPart,
		formula: "⌈log2 n⌉·α + S·β, a pipelined tree", source: thakur,
	},
	{
		name: "broadcast", rooted: true, inPlace: true,
		factor: one, messages: tree, moved: one, traffic: half,
		formula: "⌈log2 n⌉·α + S·β, a pipelined tree", source: thakur,
	},
	{
		name: "allgather", parts: true, outOfPlace: true, inPlace: true,
		factor: rest, messages: others, moved: rest, traffic: wholeAndPart,
		formula: "(n-1)·α + (n-1)/n·S·β, a ring", source: thakur,
	},
	{
		name: "reducescatter", reduces: true, parts: true, outOfPlace: true, inPlace: true,
		factor: rest, messages: others, moved: rest, traffic: wholeAndPart,
		formula: "(n-1)·α + (n-1)/n·S·β, a ring", source: thakur,
	},
	{
		name: "gather", rooted: true, parts: true, outOfPlace: true, inPlace: true,
		factor: rest, messages: tree, moved: rest, traffic: part,
		formula: "⌈log2 n⌉·α + (n-1)/n·S·β, a tree", source: thakur,
	},
	{
		name: "scatter", rooted: true, parts: true, outOfPlace: true, inPlace: true,
		factor: rest, messages: tree, moved: rest, traffic: part,
		formula: "⌈log2 n⌉·α + (n-1)/n·S·β, a tree", source: thakur,
	},
	{
		name: "alltoall", parts: true, outOfPlace: true, inPlace: true,
		factor: rest, messages: others, moved: rest, traffic: one,
		formula: "(n-1)·α + (n-1)/n·S·β, in pairs", source: thakur,
	},
	{
		name: "sendrecv", outOfPlace: true,
		factor: one, messages: one, moved: one, traffic: one,
		formula: "α + S·β", source: hockney,
	},
	{
		name: "p2p", outOfPlace: true,
		factor: one, messages: one, moved: one, traffic: part,
		formula: "α + S·β", source: hockney,
	},
	{name: "barrier", outOfPlace: true, factor: none, messages: tree, moved: none, traffic: none},
}

func twiceRest(n float64) float64   { return 2 * rest(n) }
func twiceOthers(n float64) float64 { return 2 * others(n) }

// part is the traffic of reading and writing S/n on each rank, in total S.
func part(n float64) float64 { return 1 / n }

func (o operation) title() string { return o.name }

// Operations returns the names of the operations.
func Operations() []string { return titles(operations) }
