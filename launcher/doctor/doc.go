// Package doctor judges hosts: what of them would keep a job from running, slow it down,
// or have it fail later. It is pure: package inspect, on each host, fills in a [Host] by
// reading alone; [Diagnose] runs the table of [Checks] over the [Cluster] of all of them.
//
//	host 1: inspect → Host \
//	host 2: inspect → Host  > Cluster → Diagnose → []Finding, the worst first
//	network measurements    /
//
// A check says nothing where it is not sure, or where it does not matter: locked memory
// without InfiniBand, a power saving laptop. What may be worth knowing and is nothing to
// repair is a [Note].
package doctor
