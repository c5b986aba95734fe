package pmi

import (
	"strconv"
	"strings"

	"gorun/rendezvous/world"
)

// processMapping returns PMI_process_mapping, the hosts of the ranks as tuples (first host, number of hosts, ranks on
// each): "(vector,(0,2,2))" is 0 0 1 1. Parsers start over at the end of the list, so that it must cover all ranks. It
// is "" if that does not fit: clients then ask each other for the names of their hosts.
func processMapping(w *world.World) string {
	var b strings.Builder
	b.WriteString("(vector")
	for rank := 0; rank < len(w.Ranks); {
		host := w.Ranks[rank].Host
		each := runLength(w, rank)
		count := 1
		for rank += each; rank < len(w.Ranks) && w.Ranks[rank].Host == host+count &&
			runLength(w, rank) == each; rank += each {
			count++
		}
		b.WriteString(",(" + strconv.Itoa(host) + "," + strconv.Itoa(count) + "," + strconv.Itoa(each) + ")")
		if b.Len() >= mappingMax {
			return ""
		}
	}
	return b.String() + ")"
}

// runLength counts the ranks from this one on that share its host.
func runLength(w *world.World, rank int) int {
	n := 1
	for rank+n < len(w.Ranks) && w.Ranks[rank+n].Host == w.Ranks[rank].Host {
		n++
	}
	return n
}

// ranksToHosts returns the reply to Intel MPI's get_ranks2hosts: a line with the length of the next one, including its
// newline and a zero byte, and the number of hosts; then for each host the length of its name, the name, and its ranks.
func ranksToHosts(w *world.World) string {
	ranks := make([]strings.Builder, len(w.Hosts))
	for rank := range w.Ranks {
		b := &ranks[w.Ranks[rank].Host]
		b.WriteString(strconv.Itoa(rank) + ",")
	}
	var b strings.Builder
	hosts := 0
	for i, name := range w.Hosts {
		if ranks[i].Len() > 0 {
			hosts++
			b.WriteString(strconv.Itoa(len(name)) + " " + name + " " + ranks[i].String() + " ")
		}
	}
	return "cmd=put_ranks2hosts " + strconv.Itoa(b.Len()+2) + " " + strconv.Itoa(hosts) + "\n" + b.String() + "\n"
}
