package cpu

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"math/bits"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gorun/comm/internal/backend"
)

// version is the version of the memory layout and of the join protocol. All ranks of a group need the same.
const version = 3

// card is a rank's description, which the ranks exchange before they share memory.
type card struct {
	Version int
	// Host is equal for ranks that can share memory: same kernel and same network namespace. The network namespace
	// contains the names of the sockets that pass the memory.
	Host      string
	Machine   string // equal for ranks on the same kernel, whose CPUs have the same numbers
	Socket    string // the socket that passes the memory, used on the lowest rank of a host
	CPUs      []uint64
	Expedited bool   // the process can call membarrier
	Key       string // fingerprint of the rank's key, "" without one
	Note      string // from Config.Note
}

func ownCard(l *links, hostName string, key []byte, expedited bool) (card, error) {
	socket, err := l.listen()
	if err != nil {
		return card{}, err
	}
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mask); err != nil {
		return card{}, fmt.Errorf("sched_getaffinity: %w", err)
	}
	own := card{
		Version: version, Host: cmp.Or(hostName, host()), Machine: machine(), Socket: socket,
		Expedited: expedited, Key: fingerprint(key),
	}
	for _, word := range mask {
		own.CPUs = append(own.CPUs, uint64(word))
	}
	return own, nil
}

// machine returns an identifier of the running kernel.
func machine() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		name, _ := os.Hostname()
		return name
	}
	return strings.TrimSpace(string(boot))
}

func host() string {
	network, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		name, _ := os.Hostname()
		return name
	}
	return machine() + " " + network
}

// longestBlob is the maximum size of a rank's description in bytes. Typical ones have a few hundred.
const longestBlob = 64 << 10

// exchangeAs exchanges own with all ranks and adds all blobs to the digest. A process with access to the store can
// forge the blobs of other ranks, but not this rank's own. It cannot change conclusions from own, such as that this
// rank has no key.
func exchangeAs[T any](ctx context.Context, c *Config, own T, digest hash.Hash) ([]T, error) {
	said, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	blobs, err := c.Exchange(ctx, said)
	if err != nil {
		return nil, err
	}
	if len(blobs) != c.Ranks || !bytes.Equal(blobs[c.Rank], said) {
		return nil, errors.New("the store does not give back what this rank said about itself: " +
			"do other processes write to it?")
	}
	all := make([]T, len(blobs))
	for rank, blob := range blobs {
		if len(blob) > longestBlob {
			return nil, fmt.Errorf("what rank %d says about itself has %d bytes, more than %d",
				rank, len(blob), longestBlob)
		}
		if err := json.Unmarshal(blob, &all[rank]); err != nil {
			return nil, fmt.Errorf("what rank %d says about itself: %w", rank, err)
		}
		digest.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(blob))))
		digest.Write(blob)
	}
	return all, nil
}

func exchangeCards(ctx context.Context, c *Config, own card, digest hash.Hash) ([]card, error) {
	cards, err := exchangeAs(ctx, c, own, digest)
	if err != nil {
		return nil, err
	}
	for rank := range cards {
		if cards[rank].Version != version {
			return nil, fmt.Errorf("rank %d has version %d of gorun/comm's protocol, this rank version %d: "+
				"build all from the same source", rank, cards[rank].Version, version)
		}
		if !isSocket(cards[rank].Socket) {
			return nil, fmt.Errorf("rank %d says that it listens at %.50q, which is no socket of gorun/comm",
				rank, cards[rank].Socket)
		}
	}
	return cards, nil
}

// neighbours returns the ranks on the host of rank, ascending.
func neighbours(cards []card, rank int) (locals []int) {
	for i := range cards {
		if cards[i].Host == cards[rank].Host {
			locals = append(locals, i)
		}
	}
	return locals
}

// hostNumbers numbers the hosts by their lowest ranks. It returns each rank's host number and the number of hosts.
func hostNumbers(cards []card) (numbers []int, count int) {
	seen := map[string]int{}
	for i := range cards {
		number, known := seen[cards[i].Host]
		if !known {
			number = len(seen)
			seen[cards[i].Host] = number
		}
		numbers = append(numbers, number)
	}
	return numbers, len(seen)
}

// sameKey rejects ranks on several hosts that do not all have the same key.
func sameKey(cards []card, numbers []int) error {
	var without, other []int
	for rank := range cards {
		switch cards[rank].Key {
		case "":
			without = append(without, rank)
		case cards[0].Key:
		default:
			other = append(other, rank)
		}
	}
	far := slices.IndexFunc(numbers, func(host int) bool { return host != 0 })
	switch {
	case len(without) == len(cards):
		return fmt.Errorf(
			"ranks 0 and %d are on different hosts, and connections between hosts need a key: give every rank the same "+
				"%d random bytes with WithKey", far, KeySize)
	case len(without) > 0:
		return fmt.Errorf(
			"%s brought no key for the connections between hosts, other ranks did: give every rank the same with WithKey",
			backend.Ranks(without))
	case len(other) > 0:
		return fmt.Errorf(
			"%s brought another key for the connections between hosts than rank 0: give every rank the same with WithKey",
			backend.Ranks(other))
	}
	return nil
}

// crowded reports whether the machine has fewer CPUs than ranks. Its ranks can be on several hosts: containers with
// their own networks.
func crowded(cards []card, rank int) bool {
	var all [len(unix.CPUSet{})]uint64
	count, ranks := 0, 0
	for _, c := range cards {
		if c.Machine != cards[rank].Machine {
			continue
		}
		ranks++
		for i, word := range c.CPUs {
			all[i%len(all)] |= word
		}
	}
	for _, word := range all {
		count += bits.OnesCount64(word)
	}
	return count < ranks
}
