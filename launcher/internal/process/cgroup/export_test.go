package cgroup

// EachVersion is for tests of what uses groups.
var EachVersion = eachVersion
