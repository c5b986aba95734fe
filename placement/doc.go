// Package placement decides which rank runs on which node, and on which of its
// CPUs and GPUs: from what the nodes have ([Machine]) and what the user wished for
// ([Request]) it makes a [Layout]. docs/placement.md says what is decided and why.
//
// It is pure: it reads nothing but its arguments, so a layout can be printed,
// compared and tested on machines that nobody has at hand; some typical ones are
// part of it ([Example]). Package placement/sysfs reads a Machine from a running
// system, and placement/nvml adds what only NVIDIA's library knows. It imports
// nothing of gorun's but a distance of words, so that a scheduler can use it alone.
package placement
