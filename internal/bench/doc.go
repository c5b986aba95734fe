// Package bench measures gorun beside its peers: the same work, interleaved round by round in one run, so that a machine that is
// slow for a while is slow for everybody. Minima say what a program costs, medians what its user waits; both are printed as ratios
// beside the target that they should reach.
//
// The programs comm, discovery, exchange, hosts, launch, memory, output, pytorch and store below it are what `make bench` runs. Nothing here is a test: a figure depends on
// the machine, and a test that can fail because a neighbour is busy teaches people to ignore it.
package bench
