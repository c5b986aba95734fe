package pmix

import (
	"testing"

	"gorun/rendezvous/world"
)

// FuzzDynamicBodies decodes requests that spawn and connect worlds, and messages between nodes about groups.
func FuzzDynamicBodies(f *testing.F) {
	for _, write := range []func(*encoder){
		publishes(textInfo("k", "v"), byteInfo(keyRange, typeDataRange, uint8(rangeLocal)),
			byteInfo(keyPersistence, typePersist, 1)),
		looksUp([]string{"a", "b"}, waitFlag),
		writeConnect([]world.Proc{proc("w", 0), proc("v", world.AllRanks)}),
		writeConstruct("g", []world.Proc{proc("w", 0)}, inGroup(3)...),
		func(e *encoder) {
			e.infoList(nil)
			e.oneSize(1)
			e.group(1)
			e.string("p")
			e.uint16(uint16(typeInt32))
			e.uint32(0)
			e.uint32(0)
			e.string("/")
			e.uint16(uint16(typeInt32))
			e.uint32(1)
			e.size(0)
		},
	} {
		var e encoder
		write(&e)
		f.Add(e.b)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		d := decoder{b: body}
		d.oneUint32()
		w := spread("w", 1, 1)
		(&Server{spaces: map[string]*namespace{"w": newNamespace(w, 0)}}).namesOf(d.infoList(), world.Proc{World: "w"})
		d = decoder{b: body}
		d.oneUint32()
		keys := d.stringList()
		wait, need := readWait(d.infoList(), len(keys))
		if need > len(keys) || need < 0 || wait < -1 {
			t.Errorf("%d of %d keys in %v", need, len(keys), wait)
		}
		d = decoder{b: body}
		forAll, apps := d.infoList(), listed(&d, d.app)
		if spawn, ok := readSpawn(world.Proc{World: "w"}, forAll, apps); ok && len(spawn.Apps) != len(apps) {
			t.Errorf("%d programs of %d are left", len(spawn.Apps), len(apps))
		}
		d = decoder{b: body}
		d.procList()
		if timeoutOf(d.infoList()) < 0 {
			t.Error("a time before now")
		}
		d = decoder{b: body}
		d.oneString()
		procs := d.procList()
		var all offer
		if all.merge(body) == nil {
			constructReply("6.1.0", procs, all)
		}
	})
}
