package comm

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/env"
	"gorun/internal/peersocket"
)

func TestMembersOf(t *testing.T) {
	for name, row := range map[string]struct {
		all   []int64 // color, key
		color int
		want  []int
	}{
		"all, by rank":          {[]int64{0, 0, 0, 0, 0, 0}, 0, []int{0, 1, 2}},
		"by key":                {[]int64{0, 5, 0, -1, 0, 2}, 0, []int{1, 2, 0}},
		"equal keys keep order": {[]int64{0, 1, 0, 0, 0, 1, 0, 0}, 0, []int{1, 3, 0, 2}},
		"some":                  {[]int64{3, 0, 1, 0, 3, 0}, 3, []int{0, 2}},
		"none":                  {[]int64{3, 0}, 4, nil},
		"large":                 {[]int64{1 << 40, 1 << 60, 1 << 40, -1 << 60}, 1 << 40, []int{1, 0}},
	} {
		require.Equal(t, row.want, membersOf(row.all, row.color), name)
	}
}

func TestPack(t *testing.T) {
	for _, blobs := range [][][]byte{
		{{}},
		{nil, []byte("a")},
		{[]byte("1:x"), []byte(":"), bytes.Repeat([]byte{0}, 1000)},
	} {
		again, err := unpack(pack(blobs), len(blobs))
		require.NoError(t, err)
		for i := range blobs {
			require.True(t, bytes.Equal(blobs[i], again[i]))
		}
		_, err = unpack(pack(blobs), len(blobs)+1)
		require.ErrorContains(t, err, "broken at blob")
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte("3:abc0:"), 2)
	f.Add([]byte("99999999999999999999:"), 1)
	f.Add([]byte("-1:"), 1)
	f.Fuzz(func(t *testing.T, packed []byte, n int) {
		if n < 0 || n > 1000 {
			return
		}
		blobs, err := unpack(packed, n)
		if err != nil {
			return
		}
		again, err := unpack(pack(blobs), n)
		require.NoError(t, err)
		for i := range blobs {
			require.True(t, bytes.Equal(blobs[i], again[i]))
		}
	})
}

func TestListenHost(t *testing.T) {
	for name, want := range map[string]string{
		"127.0.0.1": "127.0.0.1", "::1": "::1", "localhost": "localhost",
		"node7": "::", "10.1.2.3": "10.1.2.3",
	} {
		require.Equal(t, want, listenHost(name))
	}
}

func TestBucketPlan(t *testing.T) {
	for name, row := range map[string]struct {
		capacity int
		lengths  []int
		home, at []int
	}{
		"none":                     {10, nil, []int{}, []int{}},
		"all in one":               {10, []int{3, 4, 3}, []int{0, 0, 0}, []int{0, 3, 7}},
		"one too many":             {10, []int{3, 4, 4}, []int{0, 0, 1}, []int{0, 3, 0}},
		"too large for any":        {10, []int{25, 1, 30}, []int{0, 1, 2}, []int{0, 0, 0}},
		"empty ones take no place": {10, []int{0, 10, 0, 1, 0}, []int{0, 0, 0, 1, 1}, []int{0, 0, 10, 0, 1}},
		"no room at all":           {0, []int{1, 1}, []int{0, 1}, []int{0, 0}},
		"the first bucket is small": {
			1 << 20, []int{1 << 18, 1, 1 << 19, 1 << 19}, []int{0, 1, 1, 2}, []int{0, 0, 1, 0},
		},
	} {
		b := &Bucketer[float32]{home: make([]int, len(row.lengths)), at: make([]int, len(row.lengths))}
		for _, n := range row.lengths {
			b.tensors = append(b.tensors, make([]float32, n))
		}
		b.plan(row.capacity)
		require.Equal(t, row.home, b.home, name)
		require.Equal(t, row.at, b.at, name)
		count := 0
		for _, k := range b.buckets {
			count += len(k.tensors)
		}
		require.Equal(t, len(row.lengths), count, name)
	}
}

// Rank 0's store accepts peers from other hosts only if there can be ranks on other hosts.
func TestPeersOfOtherHosts(t *testing.T) {
	for name, row := range map[string]struct {
		self env.Rank
		want bool
	}{
		"all ranks are on this host": {env.Rank{WorldSize: 4, LocalWorldSize: 4}, false},
		"there is one node":          {env.Rank{WorldSize: 4, NumNodes: 1}, false},
		"some are elsewhere":         {env.Rank{WorldSize: 4, LocalWorldSize: 2, NumNodes: 2}, true},
		"nobody says":                {env.Rank{WorldSize: 4}, true},
	} {
		m := &meeting{self: row.self}
		require.Equal(t, row.want, m.peers() != nil, name)
	}
}

func FuzzAddressIn(f *testing.F) {
	f.Add([]byte("127.0.0.1:29500"))
	f.Add([]byte("8.8.8.8:53"))
	f.Add([]byte("[::ffff:127.0.0.1%lo]:1"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		address, err := addressIn(answer)
		if err != nil {
			require.NotContains(t, err.Error(), "\x1b")
			return
		}
		resolved, err := net.ResolveTCPAddr("tcp", address)
		require.NoError(t, err)
		require.True(t, resolved.IP.IsLoopback())
	})
}

func TestListensAt(t *testing.T) {
	server := netip.MustParseAddrPort("127.0.0.1:29500")
	for name, row := range map[string]struct {
		line  string
		uid   int
		found bool
	}{
		"at the address": {
			"   1: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1", 1000, true,
		},
		"at all": {
			"   1: 00000000:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1", 0, true,
		},
		"at all of IPv6": {
			"   1: 00000000000000000000000000000000:733C 00000000000000000000000000000000:0000 0A 0:0 0:0 0  7 0 77 1", 7, true,
		},
		"IPv6's notation": {
			"   1: 0000000000000000FFFF00000100007F:733C 00000000000000000000000000000000:0000 0A 0:0 0:0 0  7 0 77 1", 7, true,
		},
		"another port": {
			"   1: 0100007F:733D 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1", 0, false,
		},
		"another address": {
			"   1: 0200007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1", 0, false,
		},
		"a connection": {
			"   1: 0100007F:733C 0100007F:1234 01 00000000:00000000 00:00000000 00000000  1000        0 77 1", 0, false,
		},
		"the table's header": {
			"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode", 0, false,
		},
		"no line": {"", 0, false},
	} {
		found := slices.DeleteFunc(peersocket.ParseTable(row.line), func(s peersocket.Socket) bool {
			return !listensAt(s, server)
		})
		require.Equal(t, row.found, len(found) == 1, name)
		if row.found {
			require.Equal(t, row.uid, found[0].UID, name)
		}
	}
}
