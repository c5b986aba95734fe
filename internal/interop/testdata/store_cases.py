"""Does the same with a store that gorun serves and with PyTorch's own libuv server, both through PyTorch's client, and prints for each
case one line of JSON: its name, and what came of it with either. What came is data, not a verdict: the Go test beside compares.

    python store_cases.py HOST PORT        the store of `gorun store`
"""

import json
import os
import socket
import struct
import sys
import threading
from datetime import timedelta

import torch
from torch.distributed import PrefixStore, TCPStore

SHORT = timedelta(milliseconds=150)
LONG = timedelta(seconds=60)
CASES = []


def case(function):
    CASES.append(function)
    return function


class Server:
    """One of the two servers. Its connections end with it."""

    def __init__(self, host, port):
        self.host, self.port = host, port

    def connect(self, **options):
        return TCPStore(self.host, self.port, is_master=False, **{"timeout": LONG, **options})

    def raw(self, *parts):
        """A connection that has sent these bytes, each part as a packet of its own."""
        peer = socket.create_connection((self.host, self.port), timeout=60)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            peer.sendall(part)
        return peer


def tried(function, *arguments):
    """What a call returns, or the kind of its error, with the words that programs look for."""
    try:
        result = function(*arguments)
    except Exception as error:
        words = [word for word in ("wait timeout", "empty", "not implemented") if word in str(error).lower()]
        return " ".join([type(error).__name__, *words])
    return repr(result) if not isinstance(result, bytes) or len(result) < 100 else f"{len(result)} bytes, sum {sum(result)}"


def briefly(store, function, *arguments):
    """What came of a call that cannot succeed: it has little time, those after it have plenty again."""
    store.set_timeout(SHORT)
    result = tried(function, *arguments)
    store.set_timeout(LONG)
    return result


def together(*functions):
    """Runs functions in threads of their own and returns what came of each."""
    results = [None] * len(functions)

    def run(i):
        results[i] = tried(functions[i])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


# One client


@case
def set_and_get(server, store):
    values = {"k": b"v", "empty": b"", "binary": bytes(range(256)), "ü/ \n\0 key": "ü\0".encode(), "": b"of no name", "/": b"slash"}
    for key, value in values.items():
        store.set(key, value)
    return [tried(store.get, key) for key in values]


@case
def set_again(server, store):
    store.set("again", "a" * 1000)
    store.set("again", "b")
    return tried(store.get, "again")


@case
def value_of_8_mib(server, store):
    store.set("big", bytes(range(256)) * (8 << 12))
    return tried(store.get, "big")


@case
def value_beyond_8_mib(server, store):
    mine = server.connect()
    tried(mine.set, "bigger", b"x" * ((8 << 20) + 1))
    return [tried(mine.check, ["bigger"]), tried(store.check, ["bigger"])]


@case
def appended_beyond_8_mib(server, store):
    for _ in range(3):
        store.append("long", b"y" * (4 << 20))
    return tried(store.get, "long")


@case
def key_of_8_kib(server, store):
    store.set("k" * 8191, "x")  # the client puts a slash before it
    return tried(store.get, "k" * 8191)


@case
def key_beyond_8_kib(server, store):
    mine = server.connect()
    tried(mine.set, "K" * 8192, "x")
    return [tried(mine.check, ["K" * 8192]), tried(store.check, ["k"])]


@case
def missing_key(server, store):
    mine = server.connect()
    return [briefly(mine, mine.get, "missing"), briefly(mine, mine.get, "missing"), tried(mine.check, ["missing"]), tried(mine.set, "came", "x"), tried(mine.get, "came")]


@case
def multi_get_of_a_missing_key(server, store):
    mine = server.connect()
    mine.set("there", "x")
    return [briefly(mine, mine.multi_get, ["there", "missing"]), tried(mine.multi_get, ["there", "there"]), tried(mine.multi_get, [])]


@case
def add(server, store):
    results = [tried(store.add, "n", delta) for delta in (5, -7, 0, 1 << 62)]
    return results + [tried(store.get, "n"), tried(store.add, "zero", 0), tried(store.check, ["zero"])]


@case
def add_wraps(server, store):
    store.set("most", str((1 << 63) - 1))
    return [tried(store.add, "most", 1), tried(store.get, "most")]


@case
def add_to_text(server, store):
    results = []
    for i, text in enumerate(["41", " 12x", "+3", "-0", "\t 7", "0x10", "007"]):
        store.set(f"text{i}", text)
        results.append(tried(store.add, f"text{i}", 1))
    return results


@case
def add_to_no_number(server, store):
    results = []
    for i, text in enumerate(["", "abc", "-", "9" * 30]):
        mine = server.connect()
        mine.set(f"word{i}", text)
        results.append([tried(mine.add, f"word{i}", 1).split()[0], tried(store.get, f"word{i}")])
    return results


@case
def compare_set(server, store):
    steps = [("", "one"), ("one", "two"), ("one", "three"), ("", "four"), ("two", ""), ("", "five")]
    return [tried(store.compare_set, "cs", "expected", "x"), tried(store.check, ["cs"])] + [tried(store.compare_set, "cs", *step) for step in steps]


@case
def append(server, store):
    store.append("appended", "one")
    store.append("appended", b"\0")
    store.append("appended", "")
    return tried(store.get, "appended")


@case
def delete(server, store):
    store.set("gone", "x")
    return [tried(store.delete_key, "gone"), tried(store.delete_key, "gone"), tried(store.check, ["gone"]), tried(store.add, "gone", 1)]


@case
def thousands_of_keys(server, store):
    keys = [f"many{i}" for i in range(10000)]
    before = store.num_keys()
    store.multi_set(keys, [str(i) for i in range(10000)])
    values = store.multi_get(keys)
    for key in keys[:100]:
        store.delete_key(key)
    return [values == [str(i).encode() for i in range(10000)], store.num_keys() - before, tried(store.check, keys[100:]), tried(store.check, keys)]


@case
def check(server, store):
    store.set("checked", "")
    return [tried(store.check, keys) for keys in (["checked"], ["checked", "not"], [], ["checked", "checked"])]


@case
def list_keys(server, store):
    store.queue_push("listed queue", "x")
    mine = PrefixStore("listing", store)
    mine.set("a", "1")
    mine.set("b/c", "2")
    PrefixStore("deeper", mine).set("d", "3")
    all_keys = store.list_keys()
    return [sorted(mine.list_keys()), "listed queue" in all_keys, sorted(k for k in all_keys if "listing" in k), any("init" in k for k in all_keys)]


@case
def num_keys(server, store):
    before = store.num_keys()
    store.set("counted", "x")
    store.queue_push("counted queue", "x")
    return store.num_keys() - before


# Waiting


@case
def wait_times_out_and_the_connection_goes_on(server, store):
    mine, results = server.connect(), []
    for i in range(4):
        results.append(tried(mine.wait, ["never", "k"], SHORT))
        mine.set("after", str(i))
        results.append(tried(mine.get, "after"))
    store.set("never now", "x")
    return results + [tried(mine.wait, ["never now"], LONG)]


@case
def a_late_key_answers_nobody_who_gave_up(server, store):
    mine = server.connect()
    gave_up = tried(mine.wait, ["later"], SHORT)
    store.set("later", "x")
    return [gave_up, tried(mine.add, "a counter", 3), tried(mine.get, "later"), tried(mine.check, ["later"])]


@case
def wait_for_others(server, store):
    others = [server.connect() for _ in range(4)]
    waits = [lambda o=o: o.wait(["one", "two", "one"]) for o in others]
    return together(*waits, lambda: store.set("one", "x"), lambda: store.add("two", 1))


@case
def what_wakes(server, store):
    acts = {
        "append": lambda: store.append("append", "x"),
        "add": lambda: store.add("add", 0),
        "compare_set": lambda: store.compare_set("compare_set", "", "x"),
        "multi_set": lambda: store.multi_set(["other", "multi_set"], ["x", "x"]),
        "queue_push": lambda: store.queue_push("queue_push", "x"),
    }
    return {key: together(lambda k=key: server.connect().wait([k]), act)[0] for key, act in acts.items()}


@case
def wait_for_nothing(server, store):
    return [tried(store.wait, []), tried(store.wait, [], LONG)]


@case
def a_waiter_who_left(server, store):
    leaver = server.raw(greeting(), operation(6, number(1), text("/left")))
    leaver.close()
    store.set("left", "x")
    return tried(store.get, "left")


@case
def large_value_to_waiters(server, store):
    others = [server.connect() for _ in range(8)]
    gets = [lambda o=o: o.get("to all") for o in others]
    return together(*gets, lambda: store.set("to all", b"z" * (8 << 20)))


# Queues and barriers


@case
def queue(server, store):
    results = [tried(store.queue_len, "q"), tried(store.queue_pop, "q", False)]
    for value in ("one", b"", bytes(range(256))):
        store.queue_push("q", value)
    results += [tried(store.queue_len, "q"), tried(store.check, ["q"])]
    results += [tried(store.queue_pop, "q") for _ in range(3)]
    return results + [tried(store.check, ["q"]), tried(store.queue_len, "q"), tried(store.queue_pop, "q", False)]


@case
def queue_pop_times_out(server, store):
    mine = server.connect()
    results = [briefly(mine, mine.queue_pop, "empty q")]
    store.queue_push("empty q", "x")
    return results + [tried(mine.queue_pop, "empty q")]


@case
def queue_and_key_of_one_name(server, store):
    store.set("both", "key")
    store.queue_push("both", "queued")
    return [tried(store.get, "both"), tried(store.delete_key, "both"), tried(store.check, ["both"]), tried(store.queue_pop, "both"), tried(store.check, ["both"])]


@case
def queue_served_to_each_waiter_once(server, store):
    others = [server.connect() for _ in range(4)]
    pops = [lambda o=o: o.queue_pop("shared q") for o in others]
    results = together(*pops, *[lambda i=i: server.connect().queue_push("shared q", str(i)) for i in range(4)])
    return [sorted(results[:4]), tried(store.queue_len, "shared q")]


@case
def barrier(server, store):
    others = [server.connect() for _ in range(4)]
    results = together(*[lambda o=o: o.barrier("b", 4) for o in others])
    return results + [tried(store.barrier, "b", 4), tried(store.get, "b"), tried(store.barrier, "alone", 1), tried(store.barrier, "none", 0)]


@case
def barrier_times_out(server, store):
    mine = server.connect()
    results = [tried(mine.barrier, "b2", 3, SHORT), tried(mine.get, "b2"), tried(mine.barrier, "b2", 3, SHORT)]
    return results + [tried(mine.barrier, "b2", 3, SHORT), tried(mine.set, "after b2", "x")]


# Several of them


@case
def clone(server, store):
    twin = store.clone()
    twin.set("cloned", "x")
    third = twin.clone()
    del twin
    return [tried(store.get, "cloned"), tried(third.add, "by clones", 1), tried(store.add, "by clones", 1)]


@case
def threads_on_one_key_of_one_client(server, store):
    results = together(*[lambda: [store.add("one client", 1) for _ in range(200)]] * 8)
    return [len(results), tried(store.get, "one client")]


@case
def clients_on_one_key(server, store):
    def work():
        mine = server.connect()
        for _ in range(100):
            mine.append("many appends", "x")
            mine.add("many clients", 1)  # is answered, so that the other is done as well

    together(*[work] * 8)
    return [tried(store.get, "many clients"), tried(store.get, "many appends")]


@case
def processes_on_one_key(server, store):
    for process in PROCESSES:
        process.tell(server)
    seen = sorted(n for process in PROCESSES for n in process.received())
    return [seen == list(range(1, 101)), tried(store.get, "processes")]


@case
def world(server, store):
    before = store.num_keys()
    clients = [server.connect(world_size=3, wait_for_workers=False) for _ in range(3)]
    clients[0].set("the world", "x")
    return [tried(clients[2].get, "the world"), store.num_keys() - before]


@case
def prefixes(server, store):
    inner = PrefixStore("pre", store)
    nested = PrefixStore("outer", inner)
    nested.set("x", "nested")
    results = [tried(store.get, "pre/outer/x"), tried(inner.get, "outer/x"), tried(nested.get, "x"), tried(nested.wait, ["y"], SHORT)]
    results += [tried(nested.add, "n", 2), tried(nested.compare_set, "x", "nested", "new"), tried(nested.check, ["x", "n"])]
    nested.multi_set(["a", "b"], ["1", "2"])
    nested.append("a", "1")
    nested.queue_push("q", "queued")
    results += [tried(nested.multi_get, ["a", "b"]), tried(nested.delete_key, "a"), tried(nested.queue_len, "q"), tried(store.queue_pop, "pre/outer/q")]
    return results + [sorted(nested.list_keys()), tried(nested.clone().get, "b")]


@case
def prefixed_barrier(server, store):
    others = [PrefixStore("barriers", server.connect()) for _ in range(3)]
    return together(*[lambda o=o: o.barrier("b", 3) for o in others])


# Bytes that PyTorch's client never sends, or not in this way


def number(n):
    return struct.pack("<q", n)


def text(s):
    return number(len(s)) + s.encode()


def operation(code, *arguments):
    return bytes([code]) + b"".join(arguments)


def greeting():
    return operation(0, struct.pack("<I", 0x3C85F7CE))


def came(peer, count=1, patience=60):
    """What a server sends, until it has that number of bytes, or it closes the connection, or it has nothing to say for too long."""
    peer.settimeout(patience)
    got = b""
    try:
        while len(got) < count and (more := peer.recv(count - len(got))):
            got += more
    except TimeoutError:
        return f"{got!r}, open"
    except ConnectionError:
        pass
    return repr(got)


@case
def all_at_once(server, store):
    peer = server.raw(greeting() + operation(13, b"\1\2\3\4") + operation(1, text("/raw"), text("v")) + operation(3, text("/raw")) + operation(12))
    return came(peer, 14)


@case
def byte_by_byte(server, store):
    peer = server.raw(greeting())
    for byte in operation(1, text("/bytes"), text("v")) + operation(3, text("/bytes")):
        peer.sendall(bytes([byte]))
    return came(peer, 9)


@case
def greeting_in_two_packets(server, store):
    peer = server.raw(greeting()[:3])
    later = server.raw(greeting(), operation(13, b"\1\2\3\4"))
    came(later, 4)  # it came second, so the server has seen the first piece of the other by now
    peer.sendall(greeting()[3:] + operation(13, b"\1\2\3\4"))
    return came(peer, 4)


@case
def noise(server, store):
    return [came(server.raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), patience=2), came(server.raw(b"\x16\x03\x01\x02\x00\x01\x00"), patience=2), tried(store.get, "k")]


@case
def unknown_operation(server, store):
    return [came(server.raw(greeting(), operation(99))), tried(store.get, "k")]


def ping(n):
    """An operation whose answer, the last four bytes, says that all before it was done, and that nothing else was sent."""
    return operation(13, bytes([n] * 4))


@case
def compare_set_that_stores_nothing_wakes_nobody(server, store):
    peer = server.raw(greeting(), operation(6, number(1), text("/unset")) + ping(1))
    results = [came(peer, 4), tried(store.compare_set, "unset", "not this", "x")]
    peer.sendall(ping(2))
    return results + [came(peer, 4)]


@case
def served_queue_waiter_waits_for_another_key(server, store):
    peer = server.raw(greeting(), operation(6, number(1), text("/served")) + ping(1))
    results = [came(peer, 4)]
    store.queue_push("served", "1")
    results.append(came(peer, 1))
    peer.sendall(operation(15, text("/served")) + operation(6, number(1), text("/another")) + ping(2))
    results.append(came(peer, 8 + 9 + 4))
    store.queue_push("served", "2")
    store.check(["k"])  # now the push is done, too
    peer.sendall(ping(3))
    return results + [came(peer, 4)]


@case
def half_a_request_holds_up_nobody(server, store):
    half = server.raw(greeting(), operation(1, text("/half"), number(1000)) + b"x" * 10)
    results = [tried(store.check, ["half"])]
    half.sendall(b"x" * 990)
    return results + [tried(store.get, "half")]


class Process:
    """Adds to a counter on request, in a process of its own that was forked before there were threads."""

    def __init__(self):
        ask, self.questions = os.pipe()
        self.answers, answer = os.pipe()
        if os.fork() == 0:
            self.serve(os.fdopen(ask), answer)
            os._exit(0)
        os.close(ask)
        os.close(answer)
        self.answers = os.fdopen(self.answers)

    def serve(self, questions, answer):
        os.close(self.questions)
        for line in iter(questions.readline, ""):
            host, port = line.split()
            store = Server(host, int(port)).connect()
            os.write(answer, (json.dumps([store.add("processes", 1) for _ in range(25)]) + "\n").encode())

    def tell(self, server):
        os.write(self.questions, f"{server.host} {server.port}\n".encode())

    def received(self):
        return json.loads(self.answers.readline())


PROCESSES = [Process() for _ in range(4)]


def attempted(case, *arguments):
    """What comes of a case; an older PyTorch's client lacks some operations."""
    try:
        return case(*arguments)
    except (AttributeError, TypeError) as error:
        return f"not in PyTorch {torch.__version__}: {error}"


def main():
    oracle = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=True)
    servers = {"gorun": Server(sys.argv[1], int(sys.argv[2])), "libuv": Server("127.0.0.1", oracle.port)}
    stores = {name: server.connect() for name, server in servers.items()}
    for one in CASES:
        outcome = {name: attempted(one, server, stores[name]) for name, server in servers.items()}
        print(json.dumps({"case": one.__name__, **outcome}), flush=True)


main()
