// Package doctor diagnoses hosts: it reports what would keep a job from running, slow it down, or make it fail later.
// It is pure. Package inspect, on each host, fills in a [Host] without changing anything; [Diagnose] runs the table
// of [Checks] over the [Cluster] of all hosts.
//
//	host 1: inspect → Host \
//	host 2: inspect → Host  > Cluster → Diagnose → []Finding, most severe first
//	network measurements    /
//
// A check reports nothing if it is not sure or if it does not matter, such as locked memory without InfiniBand or a
// laptop that saves power. A [Note] may be worth knowing but needs no repair.
package doctor
