package wire

import (
	"encoding/binary"
	"math"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/spec"
	"gorun/placement"
)

// messages has one of each type.
var messages = []Message{
	&Hello{}, &Facts{}, &Open{}, &Opened{}, &Start{}, &Running{}, &StartFailed{}, &Ended{}, &Signal{}, &Kill{},
	&Credit{}, &Cleanup{},
	&CleanedUp{}, &Notice{}, &Resize{}, &Stalled{}, &Hung{}, &Suspend{},
	&Ping{}, &Pong{}, &Inspect{},
	&Probe{}, &Reached{}, &JobEnded{}, &Signalled{},
	&Check{}, &Checked{}, &OutputLost{}, &Exchange{}, &MPIEvent{}, &Spawn{}, &Spawned{}, &Grow{}, &Grown{}, &Usage{},
	&Used{}, &Warm{},
}

// fill sets every field, also of parts, to something that is not zero, and no two
// alike: a field that is forgotten or mixed up does not come back.
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

func TestZeroValuesTakeLittleRoom(t *testing.T) {
	for _, m := range messages {
		zero := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
		assert.LessOrEqual(t, len(appendMessage(nil, zero)), 64, m.Type())
	}
	assert.Empty(t, appendMessage(nil, &Kill{}))
}

// What is not zero any more is set to zero by a message that says so.
func TestEveryFieldIsSet(t *testing.T) {
	for _, m := range messages {
		next := 0
		got := reflect.New(reflect.TypeOf(m).Elem())
		fill(got.Elem(), &next)
		zero := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
		require.NoError(t, readMessage(appendMessage(nil, zero), got.Interface()))
		assert.Equal(t, zero, got.Interface(), m.Type())
	}
}

// Each side can read the version of the other, whatever else differs.
func TestOtherVersionsAreReported(t *testing.T) {
	for name, body := range map[string]string{
		"the one before": "\x08\x04\x10\x02",
		"a later one":    "\x08\x08\xff\xff\xff",
		"nothing else":   "\x08\x08",
	} {
		var h Hello
		require.NoError(t, Frame{Type: TypeHello, Body: []byte(body)}.Decode(&h), name)
		assert.Contains(t, []int{2, 4}, h.Version, name)
		var f Facts
		require.NoError(t, Frame{Type: TypeFacts, Body: []byte(body)}.Decode(&f), name)
		assert.Equal(t, h.Version, f.Version, name)
	}
	assert.Error(t, Frame{Type: TypeHello, Body: []byte{same, 2 * Version, 9}}.Decode(&Hello{}))
}

func TestBrokenMessages(t *testing.T) {
	whole := appendMessage(nil, &Start{JobID: "job", Apps: []spec.App{{Path: "/bin/true"}}})
	for cut := range whole {
		assert.Error(t, readMessage(whole[:cut], &Start{}), "cut at %d", cut)
	}
	assert.ErrorIs(t, readMessage(append(whole, 0), &Start{}), errBroken, "more than a message")
	numbers := func(form byte, list ...int64) []byte {
		b := []byte{form}
		for _, x := range list {
			b = binary.AppendVarint(b, x)
		}
		return b
	}
	for name, tc := range map[string]struct {
		into any
		body []byte
	}{
		"an unknown form":             {new(int), []byte{3}},
		"a form of texts":             {new(int), []byte{distinct}},
		"a flag of 2":                 {new(bool), numbers(same, 2)},
		"a number that is too large":  {new(uint8), numbers(same, 256)},
		"a negative size":             {new([]int), numbers(same, -1)},
		"more texts than are there":   {new([]string), append(numbers(same, 2), distinct, same, 2, same, 1, 'a', same, 2)},
		"a text of a negative number": {new([]string), append(numbers(same, 2), distinct, same, 2, same, 1, 'a', same, 1)},
		"CPUs that run backwards":     {new(placement.CPUSet), []byte("\x08\x033-1")},
		"an invalid address":          {new(netip.Addr), []byte("\x08\x03x.y")},
	} {
		assert.Error(t, readMessage(tc.body, tc.into), name)
	}
}

func TestEqualNodesShareWhatTheyConsistOf(t *testing.T) {
	machine, err := placement.Example("dgx-h100")
	require.NoError(t, err)
	var s Interner
	var read [2]Facts
	for i := range read {
		machine.GPUs[0].UUID = string(rune('a' + i))
		require.NoError(t, readMessage(appendMessage(nil, &Facts{Facts: spec.Facts{Machine: machine}}), &read[i]))
		s.Intern(&read[i])
		assert.Equal(t, machine, read[i].Machine)
	}
	assert.Same(t, read[0].Machine.Topology, read[1].Machine.Topology)
	assert.Same(t, read[0].Machine.GPUs[0].Bus, read[1].Machine.GPUs[0].Bus)
	machine.Topology.NICs[0].Up = !machine.Topology.NICs[0].Up
	var other Facts
	require.NoError(t, readMessage(appendMessage(nil, &Facts{Facts: spec.Facts{Machine: machine}}), &other))
	s.Intern(&other)
	assert.Equal(t, machine.Topology, other.Machine.Topology)
}

// JSON has no such numbers: one of them would cost a plan or a report.
func TestInvalidNumbers(t *testing.T) {
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		sent := &Facts{Facts: spec.Facts{Machine: placement.Machine{Quota: value}}}
		var read Facts
		require.Error(t, readMessage(appendMessage(nil, sent), &read), "%v", value)
	}
}
