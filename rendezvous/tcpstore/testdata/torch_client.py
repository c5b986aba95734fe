"""Drives torch.distributed.TCPStore as a client of the server at HOST PORT and prints a line for each case that went as it does with
PyTorch's own server. Cases whose operation this PyTorch does not know are printed as skipped.

    python torch_client.py HOST PORT
"""

import datetime
import sys
import threading

from torch.distributed import PrefixStore, TCPStore

host, port = sys.argv[1], int(sys.argv[2])
short = datetime.timedelta(milliseconds=200)
cases = []


def connect(**options):
    options.setdefault("timeout", datetime.timedelta(seconds=60))
    return TCPStore(host, port, is_master=False, **options)


def case(needs=None):
    def add(function):
        cases.append((function.__name__, needs, function))
        return function

    return add


def raises(message, function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        assert message in str(error), error
        return
    raise AssertionError(f"{function} did not raise {message!r}")


@case()
def set_get(store):
    for key, value in {"k": b"v", "empty": b"", "binary": bytes(range(256)), "big": b"x" * (8 << 20), "ü": "ü".encode()}.items():
        store.set(key, value)
        assert store.get(key) == value, key


@case()
def add(store):
    assert store.add("n", 5) == 5
    assert store.add("n", -7) == -2
    assert store.get("n") == b"-2"
    store.set("m", "41")
    assert store.add("m", 1) == 42


@case()
def compare_set(store):
    assert store.compare_set("cs", "expected", "desired") == b"expected"
    assert not store.check(["cs"])
    assert store.compare_set("cs", "", "one") == b"one"
    assert store.compare_set("cs", "one", "two") == b"two"
    assert store.compare_set("cs", "one", "three") == b"two"


@case()
def check_delete_numkeys(store):
    before = store.num_keys()
    store.set("gone", "x")
    assert store.num_keys() == before + 1
    assert store.check(["gone"]) and not store.check(["gone", "nothing"])
    assert store.delete_key("gone") and not store.delete_key("gone")
    assert store.num_keys() == before


@case("append")
def append(store):
    store.append("appended", "one")
    store.append("appended", " two")
    assert store.get("appended") == b"one two"


@case("multi_set")
def multi(store):
    keys = [f"multi{i}" for i in range(5000)]
    store.multi_set(keys, [str(i) for i in range(5000)])
    assert store.multi_get(keys) == [str(i).encode() for i in range(5000)]


@case()
def wait_times_out_and_connection_goes_on(store):
    for _ in range(3):
        raises("timeout", store.wait, ["never"], short)
        store.set("after", "x")
        assert store.get("after") == b"x"


@case()
def wait_for_another_client(store):
    other = connect()
    thread = threading.Thread(target=lambda: other.set("late", "x"))
    thread.start()
    store.wait(["late"])
    thread.join()


@case()
def prefixes(store):
    nested = PrefixStore("outer", PrefixStore("pre", store))
    nested.set("x", "nested")
    assert store.get("pre/outer/x") == b"nested", "the inner store's prefix comes first"
    assert nested.get("x") == b"nested"


@case()
def world_size(store):
    first = connect(world_size=2)
    second = connect(world_size=2)
    first.set("world", "x")
    assert second.get("world") == b"x"


@case("clone")
def clone(store):
    twin = store.clone()
    store.set("cloned", "x")
    assert twin.get("cloned") == b"x"


@case()
def threads(store):
    def work():
        mine = connect()
        for _ in range(200):
            mine.add("threads", 1)

    group = [threading.Thread(target=work) for _ in range(4)]
    for thread in group:
        thread.start()
    for thread in group:
        thread.join()
    assert store.add("threads", 0) == 800


@case("queue_push")
def queues(store):
    assert store.queue_len("q") == 0
    raises("empty", lambda: store.queue_pop("q", False))
    store.queue_push("q", "one")
    store.queue_push("q", b"")
    assert store.queue_len("q") == 2
    assert store.queue_pop("q") == b"one"
    assert store.queue_pop("q") == b""
    other = connect()
    thread = threading.Thread(target=lambda: other.queue_push("q", "late"))
    thread.start()
    assert store.queue_pop("q") == b"late"
    thread.join()


@case("list_keys")
def list_keys(store):
    keys = store.list_keys()
    assert "k" in keys and "multi4999" in keys and "q" not in keys, keys
    assert not [key for key in keys if "init" in key], keys


@case("barrier")
def barrier(store):
    others = [connect() for _ in range(3)]
    group = [threading.Thread(target=other.barrier, args=("b", 4)) for other in others]
    for thread in group:
        thread.start()
    store.barrier("b", 4)
    for thread in group:
        thread.join()
    store.barrier("b", 4)
    raises("timeout", store.barrier, "b2", 2, short)
    store.set("after", "barrier")


@case()
def from_go(store):
    assert store.get("from go") == b"hello"
    PrefixStore("shared", store).set("x", "from torch")
    store.set("from torch", "hello")


@case("barrier")
def barrier_with_go(store):
    store.barrier("with go", 2)
    PrefixStore("shared", store).barrier("with go", 2)


@case()
def counter_that_is_no_number(store):
    mine = connect()
    mine.set("text", "abc")
    raises("", mine.add, "text", 1)
    assert store.get("text") == b"abc", "only that connection has ended"


store = connect()
for name, needs, function in cases:
    if needs is not None and not hasattr(store, needs):
        print("skipped", name, flush=True)
        continue
    function(store)
    print("ok", name, flush=True)
print("end", flush=True)
