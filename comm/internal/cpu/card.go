package cpu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"gorun/comm/internal/backend"
)

// version is that of the memory's layout and of the protocol by which ranks meet. Ranks of one group need the same.
const version = 1

// card is what a rank tells the others about itself before they share memory.
type card struct {
	Version int
	// Host is the same for two ranks that can share memory: same running kernel, same network namespace, since the sockets by which the memory
	// is handed over have their names there.
	Host      string
	Socket    string // where this rank waits for its neighbours, should it be the lowest of its host
	CPUs      []uint64
	Expedited bool // it can call membarrier
}

func ownCard(l *links, expedited bool) (card, error) {
	socket, err := l.listen()
	if err != nil {
		return card{}, err
	}
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mask); err != nil {
		return card{}, fmt.Errorf("sched_getaffinity: %w", err)
	}
	own := card{Version: version, Host: host(), Socket: socket, Expedited: expedited}
	for _, word := range mask {
		own.CPUs = append(own.CPUs, uint64(word))
	}
	return own, nil
}

func host() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	network, err2 := os.Readlink("/proc/self/ns/net")
	if errors.Join(err, err2) != nil {
		name, _ := os.Hostname()
		return name
	}
	return strings.TrimSpace(string(boot)) + " " + network
}

func exchangeCards(ctx context.Context, exchange backend.Exchange, own card) ([]card, error) {
	blob, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	blobs, err := exchange(ctx, blob)
	if err != nil {
		return nil, err
	}
	cards := make([]card, len(blobs))
	for rank, blob := range blobs {
		if err := json.Unmarshal(blob, &cards[rank]); err != nil {
			return nil, fmt.Errorf("what rank %d says about itself: %w", rank, err)
		}
		if cards[rank].Version != version {
			return nil, fmt.Errorf("rank %d has version %d of gorun/comm's protocol, this rank version %d: build all from the same source",
				rank, cards[rank].Version, version)
		}
	}
	return cards, nil
}

// neighbours returns the ranks of rank's host, ascending.
func neighbours(cards []card, rank int) (locals []int) {
	for i := range cards {
		if cards[i].Host == cards[rank].Host {
			locals = append(locals, i)
		}
	}
	return locals
}

// crowded reports whether the ranks have fewer CPUs than they are.
func crowded(cards []card) bool {
	var all [len(unix.CPUSet{})]uint64
	count := 0
	for _, c := range cards {
		for i, word := range c.CPUs {
			all[i%len(all)] |= word
		}
	}
	for _, word := range all {
		count += bits.OnesCount64(word)
	}
	return count < len(cards)
}
