package pmix

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"gorun/rendezvous/world"
)

func writePublish(e *encoder, infos ...info) {
	e.group(1)
	e.uint32(testUID)
	e.infoList(infos)
}

// writeLookup writes the body of LOOKUP and UNPUBLISH.
func writeLookup(e *encoder, keys []string, infos ...info) {
	e.group(1)
	e.uint32(testUID)
	e.oneSize(len(keys))
	for _, k := range keys {
		e.oneString(k)
	}
	e.infoList(infos)
}

func publishes(infos ...info) func(*encoder) { return func(e *encoder) { writePublish(e, infos...) } }

func looksUp(keys []string, infos ...info) func(*encoder) {
	return func(e *encoder) { writeLookup(e, keys, infos...) }
}

func byteInfo(key string, typ dataType, n uint8) info {
	return attr(key, value{typ, []byte{n}})
}

func textInfo(key, text string) info { return attr(key, text) }

var waitFlag = attr(keyWait, true)

// pdataList decodes the rest of the reply to LOOKUP, after the status.
func pdataList(t *testing.T, d *decoder) []string {
	t.Helper()
	all := listed(d, func() string {
		p, key, v := d.proc(), d.string(), d.value()
		text, _ := v.string()
		return fmt.Sprintf("%s.%d %s=%s", p.World, p.Rank, key, text)
	})
	if d.err != nil || d.more() {
		t.Fatalf("the answer does not end where it should: %v, %d bytes are left", d.err, len(d.b))
	}
	return all
}

func same[T any](t *testing.T, what string, has, want T) {
	t.Helper()
	if h, w := fmt.Sprint(has), fmt.Sprint(want); h != w {
		t.Errorf("%s: %s, want %s", what, h, w)
	}
}

func TestNamesReachOtherNodes(t *testing.T) {
	r := newRig(t, 2)
	r.add("w", 1, 1)
	a, b := r.dial(world.Proc{World: "w"}, "5.0.11"), r.dial(world.Proc{World: "w", Rank: 1}, "4.2.2")

	waits := b.ask(commandLookup, looksUp([]string{"port"}, waitFlag, attr(keyTimeout, uint32(60))))
	a.do(commandPublish, statusSuccess,
		publishes(textInfo("port", "17"), byteInfo(keyPersistence, typePersist, persistSession)))
	same(t, "what is looked up", pdataList(t, b.expect(waits, statusSuccess)), []string{"w.0 port=17"})

	a.do(commandPublish, statusExists, publishes(textInfo("other", "1"), textInfo("port", "18")))
	b.do(commandLookup, statusNotFound, looksUp([]string{"other"}))
	b.do(commandLookup, statusPartialSuccess, looksUp([]string{"port", "other"}))
	b.do(commandUnpublish, statusNoPermissions, looksUp([]string{"port"}))
	a.do(commandUnpublish, statusSuccess, looksUp([]string{"port"}))
	a.do(commandUnpublish, statusNotFound, looksUp([]string{"port"}))
	a.do(commandLookup, statusNotFound, looksUp([]string{"port"}))
}

func TestNamesAreSeenByWhomTheyAreFor(t *testing.T) {
	r := newRig(t, 2)
	r.add("w", 2, 1)
	r.add("v", 1, 0)
	own := r.dial(world.Proc{World: "w"}, "5.0.11")
	same1 := r.dial(world.Proc{World: "w", Rank: 1}, "5.0.11")
	far := r.dial(world.Proc{World: "w", Rank: 2}, "5.0.11")
	foreign := r.dial(world.Proc{World: "v"}, "5.0.11")
	all := []*client{own, same1, far, foreign}
	for _, c := range []struct {
		to     dataRange
		seenBy []bool
	}{
		{rangeProcLocal, []bool{true, false, false, false}},
		{rangeLocal, []bool{true, true, false, true}},
		{rangeNamespace, []bool{true, true, true, false}},
		{4, []bool{true, true, true, true}},
		{5, []bool{true, true, true, true}},
	} {
		key := fmt.Sprint("range", c.to)
		own.do(commandPublish, statusSuccess, publishes(textInfo(key, "x"), byteInfo(keyRange, typeDataRange, uint8(c.to))))
		for i, who := range all {
			want := statusNotFound
			if c.seenBy[i] {
				want = statusSuccess
			}
			who.do(commandLookup, want, looksUp([]string{key}))
		}
		own.do(commandUnpublish, statusSuccess, looksUp([]string{key}))
	}
	for i, to := range []dataRange{rangeNamespace, rangeSession, rangeGlobal, rangeSession} {
		want := []status{statusSuccess, statusSuccess, statusSuccess, statusExists}[i]
		own.do(commandPublish, want, publishes(textInfo("key", "x"), byteInfo(keyRange, typeDataRange, uint8(to))))
	}
}

func TestNameToBeReadOnce(t *testing.T) {
	r := newRig(t, 1)
	r.add("w", 1)
	c := r.dial(world.Proc{World: "w"}, "4.2.2")
	c.do(commandPublish, statusSuccess,
		publishes(textInfo("k", "x"), byteInfo(keyPersistence, typePersist, persistFirstRead)))
	c.do(commandLookup, statusSuccess, looksUp([]string{"k"}))
	c.do(commandLookup, statusNotFound, looksUp([]string{"k"}))
}

func TestLookupWaitsForSomeOfItsKeys(t *testing.T) {
	r := newRig(t, 1)
	r.add("w", 2)
	a, b := r.dial(world.Proc{World: "w"}, "4.2.2"), r.dial(world.Proc{World: "w", Rank: 1}, "4.2.2")
	wants := b.ask(commandLookup, looksUp([]string{"x", "y", "z"}, attr(keyWait, uint32(2))))
	b.do(commandLookup, statusNotFound, looksUp([]string{"none"})) // the head has handled the previous lookup
	a.do(commandPublish, statusSuccess, publishes(textInfo("z", "1")))
	a.do(commandPublish, statusSuccess, publishes(textInfo("x", "2")))
	same(t, "what is looked up", pdataList(t, b.expect(wants, statusSuccess)), []string{"w.0 z=1", "w.0 x=2"})
}

// A lookup that has found enough takes nothing more. A name published later, to be read once, is left for others.
func TestLookupEndsWithWhatItNeeds(t *testing.T) {
	r := newRig(t, 1)
	r.add("w", 2)
	a, b := r.dial(world.Proc{World: "w"}, "4.2.2"), r.dial(world.Proc{World: "w", Rank: 1}, "4.2.2")
	once := byteInfo(keyPersistence, typePersist, persistFirstRead)
	wants := b.ask(commandLookup, looksUp([]string{"x", "y", "x"}, attr(keyWait, uint32(1))))
	b.do(commandLookup, statusNotFound, looksUp([]string{"none"})) // the head has handled the previous lookup
	a.do(commandPublish, statusSuccess, publishes(textInfo("x", "1"), once))
	same(t, "what is looked up", pdataList(t, b.expect(wants, statusSuccess)), []string{"w.0 x=1"})
	a.do(commandPublish, statusSuccess, publishes(textInfo("y", "2"), once))
	same(t, "the other", pdataList(t, b.do(commandLookup, statusSuccess, looksUp([]string{"y"}))), []string{"w.0 y=2"})

	// A name that is read once belongs to the lookup that found it, even while that lookup waits for others.
	wants = b.ask(commandLookup, looksUp([]string{"y", "z"}, waitFlag))
	b.do(commandLookup, statusNotFound, looksUp([]string{"none"})) // the head has handled the previous lookup
	a.do(commandPublish, statusSuccess, publishes(textInfo("y", "3"), once))
	a.do(commandLookup, statusNotFound, looksUp([]string{"y"}))
	a.do(commandPublish, statusSuccess, publishes(textInfo("z", "4")))
	same(t, "both", pdataList(t, b.expect(wants, statusSuccess)), []string{"w.0 y=3", "w.0 z=4"})
}

func TestUnpublishAll(t *testing.T) {
	r := newRig(t, 1)
	r.add("w", 2)
	a, b := r.dial(world.Proc{World: "w"}, "4.2.2"), r.dial(world.Proc{World: "w", Rank: 1}, "4.2.2")
	local := byteInfo(keyRange, typeDataRange, uint8(rangeLocal))
	a.do(commandPublish, statusSuccess, publishes(textInfo("near", "1"), local))
	a.do(commandPublish, statusSuccess, publishes(textInfo("one", "1"), textInfo("two", "2")))
	b.do(commandPublish, statusSuccess, publishes(textInfo("other", "3")))
	a.do(commandUnpublish, statusSuccess, looksUp(nil, local))
	a.do(commandLookup, statusNotFound, looksUp([]string{"near"}))
	a.do(commandLookup, statusSuccess, looksUp([]string{"one", "two"}))
	for range 2 {
		a.do(commandUnpublish, statusSuccess, looksUp(nil))
		a.do(commandLookup, statusNotFound, looksUp([]string{"one", "two"}))
	}
	a.do(commandLookup, statusSuccess, looksUp([]string{"other"}))
}

func writeConnect(members []world.Proc, infos ...info) func(*encoder) {
	return func(e *encoder) {
		e.procList(members)
		e.infoList(infos)
	}
}

func TestConnectTellsEachWorldOfTheOther(t *testing.T) {
	r := newRig(t, 2)
	r.add("v", 1, 1)
	r.add("w", 1, 0)
	members := []world.Proc{proc("w", 0), proc("v", world.AllRanks)}
	v0 := r.dial(world.Proc{World: "v"}, "5.0.11")
	v1 := r.dial(world.Proc{World: "v", Rank: 1}, "6.1.0")
	w0 := r.dial(world.Proc{World: "w"}, "3.2.5")
	for range 2 { // the same ranks may connect again
		tag0, tag1 := v0.ask(commandConnect, writeConnect(members)), v1.ask(commandConnect, func(e *encoder) {
			writeConnect(members)(e)
			e.group(1) // PMIx 6 adds it without including it in the number of infos
			e.info(attr("pmix.pdata", []info(nil)))
		})
		members := []world.Proc{proc("v", 0), proc("v", 1), proc("w", world.AllRanks)}
		d := w0.do(commandConnect, statusSuccess, writeConnect(members))
		same(t, "what w receives", jobInfosOf(t, d), []string{"v"})
		same(t, "what v's rank 0 receives", jobInfosOf(t, v0.expect(tag0, statusSuccess)), []string{"w"})
		same(t, "what v's rank 1 receives", jobInfosOf(t, v1.expect(tag1, statusSuccess)), []string{"w"})
		tag0, tag1 = v0.ask(commandDisconnect, writeConnect(members)), v1.ask(commandDisconnect, writeConnect(members))
		w0.do(commandDisconnect, statusSuccess, writeConnect(members))
		v0.expect(tag0, statusSuccess)
		v1.expect(tag1, statusSuccess)
	}
	w0.do(commandConnect, statusNotFound, writeConnect([]world.Proc{proc("u", 0), proc("w", 0)}))
	w0.do(commandConnect, statusBadParameter, writeConnect(nil))
}

// jobInfosOf returns the namespaces in a reply to CONNECT, and requires the right size in their job-level data.
func jobInfosOf(t *testing.T, d *decoder) []string {
	t.Helper()
	var names []string
	for d.more() {
		d.one()
		inner := decoder{b: d.bytes()}
		names = append(names, inner.oneString())
		if _, ok := lookUp(inner.b, "pmix.job.size"); !ok {
			t.Errorf("the job-level data of %s have no size", names[len(names)-1])
		}
	}
	if d.err != nil {
		t.Fatal(d.err)
	}
	return names
}

func TestConnectMayTakeNoLongerThanItsTimeout(t *testing.T) {
	r := newRig(t, 1)
	r.add("w", 2)
	c := r.dial(world.Proc{World: "w"}, "5.0.11")
	c.do(commandConnect, statusTimeout,
		writeConnect([]world.Proc{proc("w", world.AllRanks)}, attr(keyTimeout, uint32(1))))
}

func TestSpawn(t *testing.T) {
	r := newRig(t, 1)
	r.add("w", 1)
	c := r.dial(world.Proc{World: "w"}, "4.2.2")
	program := func(e *encoder) {
		e.string("child")
		e.uint16(uint16(typeInt32))
		e.uint32(3)
		for _, a := range []string{"child", "one", "a b"} {
			e.string(a)
		}
		env := []string{
			"OMPI_PARENT_PORT=1.0:2", "OMPI_MCA_orte_local_daemon_uri=1.0;tcp://127.0.0.1:1",
			"OMPI_MCA_btl=self", "OMPI_MCA_ess=pmi",
		}
		e.uint32(uint32(len(env)))
		for _, entry := range env {
			e.string(entry)
		}
		e.string("/here")
		e.uint16(uint16(typeInt32))
		e.uint32(2)
		var variable encoder
		variable.string("COLOUR")
		variable.string("red")
		variable.uint8(0)
		infos := []info{
			textInfo(keyWorkDir, "/there"), textInfo(keyHosts, "a:2,b"), textInfo(keyHostFile, "hosts"),
			attr(keySetVariable, value{typeEnvar, variable.b}),
		}
		e.size(len(infos))
		for _, i := range infos {
			e.info(i)
		}
	}
	body := func(e *encoder) {
		e.infoList([]info{textInfo("pmix.mapby", "core"), attr("pmix.nonpmi", true)})
		e.oneSize(1)
		e.group(1)
		program(e)
	}
	d := c.do(commandSpawn, statusSuccess, body)
	same(t, "the new world", d.oneString(), "w-child")
	want := world.Spawn{By: world.Proc{World: "w"}, Apps: []world.SpawnApp{{
		Program: "child", Args: []string{"one", "a b"}, NumRanks: 2, Dir: "/there", Hosts: "a:2,b", HostFile: "hosts",
		Env:  []string{"OMPI_PARENT_PORT=1.0:2", "OMPI_MCA_btl=self", "COLOUR=red"},
		Info: []world.Pair{{Key: "pmix.mapby", Value: "core"}, {Key: "pmix.nonpmi", Value: "true"}},
	}}}
	same(t, "what the launcher is asked for", fmt.Sprintf("%+v", r.starter.asked()[0]), fmt.Sprintf("%+v", want))

	child := r.dial(world.Proc{World: "w-child"}, "4.2.2")
	d = childInfo(child)
	same(t, "the namespace", d.oneString(), "w-child")
	v, _ := lookUp(d.b, "pmix.parent")
	parent, _ := v.proc()
	same(t, "the parent", parent, proc("w", 0))

	for _, fail := range []error{errNoRoom, fmt.Errorf("hosts for child: %w", os.ErrNotExist)} {
		r.starter.refuse(fail)
		c.do(commandSpawn, statusJobNotLaunched, body)
	}
	same(t, "whether the user reads why",
		slices.Contains(r.starter.all(), "say 0 MPI_Comm_spawn: no room for 4 ranks more"), true)
	c.do(commandSpawn, statusBadParameter, func(e *encoder) {
		e.infoList(nil)
		e.oneSize(0)
	})
}

func childInfo(c *client) *decoder { return c.call(commandJobInfo, nil) }

func writeConstruct(name string, members []world.Proc, infos ...info) func(*encoder) {
	return func(e *encoder) {
		e.oneString(name)
		e.procList(members)
		e.infoList(infos)
	}
}

// inGroup are the infos that Open MPI 5 passes for a group.
func inGroup(localID int) []info {
	return []info{
		attr(keyAssignNumber, true),
		attr(keyGroupInfo, []info{attr("pmix.grp.lclid", localID)}),
	}
}

func TestGroupOfClientsOfAllVersions(t *testing.T) {
	r := newRig(t, 2)
	r.add("w", 2, 1)
	old := r.dial(world.Proc{World: "w"}, "4.2.2")
	five := r.dial(world.Proc{World: "w", Rank: 1}, "5.0.11")
	six := r.dial(world.Proc{World: "w", Rank: 2}, "6.1.0")
	members := []world.Proc{proc("w", 2), proc("w", 0), proc("w", 1)}
	var numbers []int64
	for round := range 2 {
		oldTag := old.ask(commandGroupConstruct, writeConstruct("g", members, inGroup(10)[0]))
		fiveTag := five.ask(commandGroupConstruct, writeConstruct("g", members, inGroup(11)...))
		d := six.do(commandGroupConstruct, statusSuccess, writeConstruct("g", members, inGroup(12)...))
		same(t, "the members that 6.1 receives", d.procList(), []world.Proc{proc("w", 0), proc("w", 1), proc("w", 2)})
		same(t, "whether there is a number", d.oneUint8(), 1)
		d.one()
		number := d.integer()
		same(t, "how many gave something", d.oneSize(), 2)
		d.one()
		given, _ := d.info().value.infos()
		same(t, "what the first gave", fmt.Sprint(given[0].key, given[1].key), "pmix.procidpmix.grp.lclid")

		d = old.expect(oldTag, statusSuccess)
		d.one()
		same(t, "the number that 4.2 receives", d.integer(), number)
		d = five.expect(fiveTag, statusSuccess)
		same(t, "the members that 5.0 receives", len(d.procList()), 3)
		d.one()
		same(t, "the number that 5.0 receives", d.integer(), number)
		if slices.Contains(numbers, int64(number)) || number < 1000 {
			t.Errorf("round %d: the number %d is not new", round, number)
		}
		numbers = append(numbers, int64(number))

		oldTag = old.ask(commandGroupDestruct, func(e *encoder) {
			e.oneString("g")
			e.infoList(nil)
		})
		fiveTag = five.ask(commandGroupDestruct, writeConstruct("g", members))
		six.do(commandGroupDestruct, statusSuccess, writeConstruct("g", members))
		old.expect(oldTag, statusSuccess)
		five.expect(fiveTag, statusSuccess)
	}
	old.do(commandGroupDestruct, statusBadParameter, func(e *encoder) {
		e.oneString("g")
		e.infoList(nil)
	})
	old.do(commandGroupConstruct, statusBadParameter, writeConstruct("g", nil))
}

func TestIsBefore(t *testing.T) {
	for _, c := range []struct {
		version string
		want    bool
	}{
		{"4.2.2", true},
		{"4.2.3rc1", true},
		{"4.2.4", false},
		{"3.2.5", true},
		{"5.0.11", false},
		{"4.10.0", false},
		{"", false},
		{"4.1", true},
		{"7", false},
	} {
		if has := isBefore(c.version, 4, 2, 4); has != c.want {
			t.Errorf("isBefore(%q, 4.2.4) is %v", c.version, has)
		}
	}
}
