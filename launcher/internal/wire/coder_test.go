package wire

import (
	"math"
	"net/netip"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/placement"
)

// messages has one of each type.
var messages = []Message{
	&Hello{}, &Facts{}, &Open{}, &Opened{}, &Start{}, &Running{}, &StartFailed{}, &Ended{}, &Signal{}, &Kill{},
	&Credit{}, &End{},
	&Gone{}, &Notice{}, &Resize{}, &Stalled{}, &Hung{}, &Suspend{},
	&Ping{}, &Pong{}, &Inspect{},
	&Probe{}, &Reached{}, &Over{}, &Signalled{},
	&Check{}, &Checked{}, &OutputLost{}, &Exchange{}, &MPIEvent{}, &Spawn{}, &Spawned{}, &Grow{}, &Grown{}, &Usage{},
	&Used{},
}

// fill sets every field, also of parts, to something that is not zero, and no two
// alike: a field that fields() forgets or mixes up does not come back.
func fill(v reflect.Value, next *int) {
	*next++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(int64(*next), 7)))
		return
	case netip.Prefix:
		v.Set(reflect.ValueOf(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(*next), 0, 0}), 16)))
		return
	case netip.Addr:
		v.Set(reflect.ValueOf(netip.AddrFrom4([4]byte{10, byte(*next), 0, 1})))
		return
	case placement.CPUSet:
		v.Set(reflect.ValueOf(placement.CPUSetOf([]uint64{5, uint64(*next)})))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" { // the head adds these itself
				fill(v.Field(i), next)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), next)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), next)
		fill(v.Index(1), next)
	case reflect.String:
		v.SetString("text " + string(rune('a'+*next%26)) + "\xff\x00")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*next) + 0.5)
	case reflect.Uint8:
		v.SetUint(uint64(*next))
	default:
		v.SetInt(int64(-*next))
	}
}

func TestEveryFieldArrives(t *testing.T) {
	for _, m := range messages {
		t.Run(m.Type().String(), func(t *testing.T) {
			next := 0
			fill(reflect.ValueOf(m).Elem(), &next)
			got := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
			require.NoError(t, readMessage(appendMessage(nil, m), got))
			assert.Equal(t, m, got)
		})
	}
}

func TestZeroValuesTakeNoRoom(t *testing.T) {
	for _, m := range []Message{&Hello{}, &Opened{}, &Ended{}, &Signal{}, &Kill{}, &Notice{}} {
		assert.Empty(t, appendMessage(nil, m), m.Type())
	}
}

// A later version may add fields of any kind, and change the kind of none.
func TestUnknownFieldsAreSkipped(t *testing.T) {
	var c coder
	writeText(&c, 900, "later")
	c.writeTag(901, fixed32)
	c.out = append(c.out, 1, 2, 3, 4)
	writeText(&c, 1, "not a number")
	b := appendMessage(c.out, &Signal{Signal: syscall.SIGTERM})
	var s Signal
	require.NoError(t, readMessage(b, &s))
	assert.Equal(t, Signal{Signal: syscall.SIGTERM}, s)
}

func TestBrokenMessages(t *testing.T) {
	whole := appendMessage(nil, &Start{JobID: "job", Apps: []App{{Path: "/bin/true"}}})
	for cut := 1; cut < len(whole); cut++ {
		var s Start
		if err := readMessage(whole[:cut], &s); err == nil {
			assert.LessOrEqual(t, len(appendMessage(nil, &s)), len(whole), "cut at %d", cut)
		}
	}
	var bad, facts coder
	writeText(&bad, 1, "3-1")
	writeText(&facts, 3, bad.out)
	assert.ErrorContains(t, readMessage(facts.out, &Facts{}), "runs backwards")
}

func TestEqualNodesShareWhatTheyConsistOf(t *testing.T) {
	machine, err := placement.Example("dgx-h100")
	require.NoError(t, err)
	var s Shared
	var read [2]Facts
	for i := range read {
		machine.GPUs[0].UUID = string(rune('a' + i))
		require.NoError(t, readMessage(appendMessage(nil, &Facts{Machine: machine}), read[i].Sharing(&s)))
		assert.Equal(t, machine, read[i].Machine)
	}
	assert.Same(t, read[0].Machine.Topology, read[1].Machine.Topology)
	assert.Same(t, read[0].Machine.GPUs[0].Bus, read[1].Machine.GPUs[0].Bus)
	machine.Topology.NICs[0].Up = !machine.Topology.NICs[0].Up
	var other Facts
	require.NoError(t, readMessage(appendMessage(nil, &Facts{Machine: machine}), other.Sharing(&s)))
	assert.Equal(t, machine.Topology, other.Machine.Topology)
}

// JSON has no such numbers: one of them would cost a plan or a report.
func TestNumbersThatAreNone(t *testing.T) {
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		sent := &Facts{Machine: placement.Machine{Quota: value}}
		var read Facts
		require.Error(t, readMessage(appendMessage(nil, sent), &read), "%v", value)
	}
}
