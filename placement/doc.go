// Package placement decides which rank runs on which node, and on which of its CPUs and GPUs: it
// makes a [Layout] from what the nodes have ([Machine]) and what the user asked for ([Request]).
// docs/placement.md explains the rules.
//
// The package is pure: it reads nothing but its arguments, so layouts can be printed, compared and
// tested for any machine, including some typical ones ([Example]). Package placement/sysfs reads a
// Machine from a running system, and placement/nvml adds facts that only NVIDIA's library knows.
// Apart from the spelling suggestions for option values it imports no other package of gorun, so a
// scheduler can use it alone.
package placement
