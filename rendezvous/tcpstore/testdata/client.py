"""Drives PyTorch's own TCPStore client against a server: host port own.

With own=1 the server is PyTorch's, hosted here, so that each expectation below is checked against the original too."""

import datetime
import sys
import threading

from torch.distributed import DistStoreError, PrefixStore, TCPStore

host, port, own = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1"
second = datetime.timedelta(seconds=1)
long = datetime.timedelta(seconds=60)
master = TCPStore(host, 0, is_master=True, wait_for_workers=False) if own else None
port = master.port if own else port


def connect():
    return TCPStore(host, port, is_master=False, timeout=long, wait_for_workers=False)


def expect(what, got, want):
    if got != want:
        raise SystemExit(f"{what}: got {got!r}, want {want!r}")


s, other = connect(), connect()

s.set("k", b"\x00\xff value")
expect("get", s.get("k"), b"\x00\xff value")
expect("add", [s.add("n", 1), s.add("n", -3)], [1, -2])
expect("counter's text", s.get("n"), b"-2")
expect("compare_set of a missing key with an expectation", s.compare_set("c", "x", "y"), b"x")
expect("compare_set of a missing key", s.compare_set("c", "", "first"), b"first")
expect("compare_set", s.compare_set("c", "first", "second"), b"second")
expect("compare_set that fails", s.compare_set("c", "first", "third"), b"second")
expect("check", [s.check(["k"]), s.check(["k", "missing"])], [True, False])
s.append("a", "one ")
s.append("a", "two")
expect("append", s.get("a"), b"one two")
s.multi_set(["m1", "m2"], [b"1", b"2"])
expect("multi_get", s.multi_get(["m2", "m1"]), [b"2", b"1"])
expect("delete", [s.delete_key("m1"), s.delete_key("m1")], [True, False])

big = b"x" * (8 << 20)
s.set("big", big)
expect("8 MiB", s.get("big") == big, True)

before = s.num_keys()
for i in range(2000):
    s.set(f"many{i}", str(i))
expect("num_keys", s.num_keys() - before, 2000)
expect("many", other.get("many1999"), b"1999")

s.set_timeout(second)
try:
    s.wait(["never"], second)
    raise SystemExit("a wait for nothing ended")
except DistStoreError:
    pass
expect("after a wait that timed out", s.get("k"), b"\x00\xff value")
other.set("never", "now")
s.wait(["never"], long)

thread = threading.Thread(target=lambda: other.wait(["late"], long))
thread.start()
s.set("late", "x")
thread.join()

nested = PrefixStore("outer", PrefixStore("pre", s))
nested.set("x", "deep")
expect("prefixes", s.get("pre/outer/x"), b"deep")
expect("clone", s.clone().get("k"), b"\x00\xff value")

s.queue_push("q", b"1")
s.queue_push("q", b"")
expect("queue_len", s.queue_len("q"), 2)
expect("queue_pop", [s.queue_pop("q"), s.queue_pop("q")], [b"1", b""])
if hasattr(s, "list_keys"):
    expect("list_keys", {"k", "n", "c", "a"} <= set(s.list_keys()), True)
if hasattr(s, "barrier"):
    passed = []
    threads = [threading.Thread(target=lambda: (connect().barrier("b", 3, long), passed.append(1))) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    expect("barrier", len(passed), 3)

stores = [connect() for _ in range(4)]
threads = [threading.Thread(target=lambda s=s: [s.add("together", 1) for _ in range(200)]) for s in stores]
for t in threads:
    t.start()
for t in threads:
    t.join()
expect("counters together", s.add("together", 0), 800)
print("ok")
