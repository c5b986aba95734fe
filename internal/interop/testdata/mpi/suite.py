"""A broad suite of MPI in mpi4py: `suite.py [CASE...]` runs all cases, or the named ones, in the order of this file.

Rank 0 prints a line for each, "CASE: VALUES", with what every rank got. The lines depend on the number of ranks and on nothing else, so that two runs
under different launchers can be compared word for word. What a library cannot do is a line, too: "CASE: not supported by this library". An
exception ends the job with its name; the program starts itself again as the child of its spawn cases.
"""

import os
import sys
import tempfile
import threading

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
cases = {}

# Debian 12's MPICH is built for UCX, for which version 4.0 has no dynamic processes.
debian_mpich = MPI.get_vendor() == ("MPICH", (4, 0, 2))


class Unsupported(Exception):
    """The library lacks what a case needs."""


def case(function):
    """Adds a case under its function's name; what the function returns in each rank is the line's value."""
    cases[function.__name__] = function
    return function


def numbers(count=4, r=None):
    """What a rank brings: whole numbers, so that sums are exact."""
    return np.arange(count, dtype="d") + 10 * ((rank if r is None else r) + 1)


def plain(value):
    """Numpy's arrays as lists, and whole numbers without a point."""
    if isinstance(value, np.ndarray):
        return [plain(v) for v in value.tolist()]
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


# Point-to-point.


@case
def send_recv():
    next_one, previous = (rank + 1) % size, (rank - 1) % size
    got = np.zeros(4)
    world.Sendrecv(numbers(), next_one, 3, got, previous, 3)
    word = world.sendrecv({"from": rank}, next_one, 4, source=previous, recvtag=4)
    return got, word["from"]


@case
def nonblocking():
    got = [np.zeros(4) for _ in range(size)]
    requests = [world.Irecv(got[r], r, 5) for r in range(size)] + [world.Isend(numbers() + r, r, 5) for r in range(size)]
    MPI.Request.Waitall(requests)
    return [g[0] for g in got]


@case
def modes():
    """Synchronous, buffered, ready and persistent."""
    peer = rank ^ 1
    if peer >= size:
        return "alone"
    got = np.zeros(4)
    MPI.Attach_buffer(bytearray(1 << 16))
    seen = []
    for send in (world.Issend, world.Ibsend):
        receive = world.Irecv(got, peer, 6)
        request = send(numbers(), peer, 6)
        MPI.Request.Waitall([receive, request])
        seen.append(got[0])
    receive, request = world.Recv_init(got, peer, 7), world.Send_init(numbers() * 2, peer, 7)
    for _ in range(2):
        MPI.Prequest.Startall([receive, request])
        MPI.Request.Waitall([receive, request])
        seen.append(got[0])
    receive.Free(), request.Free()
    MPI.Detach_buffer()
    return seen


@case
def probe():
    """Rank 0 takes messages of lengths that it does not know."""
    if rank > 0:
        world.Send(numbers(rank + 1), 0, rank)
        return rank
    lengths, status = {}, MPI.Status()
    for _ in range(size - 1):
        message = world.Mprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        got = np.zeros(status.Get_count(MPI.DOUBLE))
        message.Recv(got)
        lengths[status.source] = (len(got), got[-1])
    return [lengths[r] for r in sorted(lengths)]


@case
def large():
    """8 MiB around the ring: by rendezvous, and by shared memory where there is some."""
    got = np.zeros(1 << 20)
    world.Sendrecv(np.full(1 << 20, rank + 1.0), (rank + 1) % size, 8, got, (rank - 1) % size, 8)
    return got.min(), got.max()


@case
def datatypes():
    matrix, column = np.arange(20, dtype="i").reshape(5, 4) + 100 * rank, np.zeros(5, dtype="i")
    vector = MPI.INT.Create_vector(5, 1, 4).Commit()
    world.Sendrecv([matrix.ravel()[1:], 1, vector], (rank + 1) % size, 9, column, (rank - 1) % size, 9)
    struct = MPI.Datatype.Create_struct([1, 2], [0, 8], [MPI.INT32_T, MPI.DOUBLE]).Commit()
    sizes = vector.size, vector.extent, struct.size, struct.extent
    vector.Free(), struct.Free()
    return column, sizes


# Collectives.


@case
def broadcast():
    seen = []
    for root in range(size):
        got = numbers() if rank == root else np.zeros(4)
        world.Bcast(got, root)
        seen.append(got[0])
    return seen, world.bcast({"from": rank}, size - 1)["from"]


@case
def reduce():
    got = np.zeros(4)
    world.Reduce(numbers(), got, MPI.SUM, size - 1)
    mine = numbers()
    world.Reduce(MPI.IN_PLACE if rank == 0 else mine, mine, MPI.MAX, 0)
    return got, mine, world.reduce([rank], MPI.SUM, 0)


@case
def allreduce():
    seen = []
    for op in (MPI.SUM, MPI.PROD, MPI.MIN, MPI.MAX):
        got = np.zeros(2)
        world.Allreduce(np.array([rank + 1.0, 2.0]), got, op)
        seen.append(got)
    for op in (MPI.LAND, MPI.LOR, MPI.LXOR, MPI.BAND, MPI.BOR, MPI.BXOR):
        whole = np.array([rank, rank % 2], dtype="i")
        world.Allreduce(MPI.IN_PLACE, whole, op)
        seen.append(whole)
    return seen, world.allreduce((rank * 7 % size, rank), MPI.MAXLOC)


@case
def own_operation():
    op = MPI.Op.Create(lambda a, b, _: np.frombuffer(b, "d").__iadd__(2 * np.frombuffer(a, "d")), commute=False)
    got = np.zeros(1)
    world.Scan(np.array([1.0]), got, op)
    op.Free()
    return got if rank < 2 else "grouped as the library likes"


@case
def gather_scatter():
    everything, part = np.zeros((size, 4)), np.zeros(4)
    world.Gather(numbers(), everything, size - 1)
    world.Scatter(everything, part, size - 1)
    if rank == 0:
        everything[0] = numbers()
        world.Gather(MPI.IN_PLACE, everything, 0)
        world.Scatter(everything, MPI.IN_PLACE, 0)
        again = everything[0]
    else:
        again = np.zeros(4)
        world.Gather(numbers(), None, 0)
        world.Scatter(None, again, 0)
    return everything[:, 0], part, again


@case
def allgather():
    got = np.zeros((size, 4))
    world.Allgather(numbers(), got)
    mine = np.zeros((size, 4))
    mine[rank] = numbers()
    world.Allgather(MPI.IN_PLACE, mine)
    return got[:, 1], mine[:, 2], world.allgather("r%d" % rank)


@case
def alltoall():
    sent, got = np.array([[100.0 * rank + r] * 2 for r in range(size)]), np.zeros((size, 2))
    world.Alltoall(sent, got)
    world.Alltoall(MPI.IN_PLACE, sent)
    return got[:, 0], sent[:, 1], world.alltoall(["%d>%d" % (rank, r) for r in range(size)])


def spread(counts):
    return [sum(counts[:r]) for r in range(len(counts))]


@case
def vector_forms():
    counts = [r + 1 for r in range(size)]
    total = sum(counts)
    gathered, everywhere, part = np.zeros(total), np.zeros(total), np.zeros(rank + 1)
    world.Gatherv(numbers(rank + 1), [gathered, counts, spread(counts), MPI.DOUBLE], 0)
    world.Allgatherv(numbers(rank + 1), [everywhere, counts, spread(counts), MPI.DOUBLE])
    world.Scatterv([gathered, counts, spread(counts), MPI.DOUBLE], part, 0)
    in_place = np.zeros(total)
    in_place[spread(counts)[rank]:][:rank + 1] = numbers(rank + 1)
    world.Allgatherv(MPI.IN_PLACE, [in_place, counts, spread(counts), MPI.DOUBLE])
    return gathered, everywhere.sum(), part, in_place.sum()


@case
def alltoall_vector():
    """Rank a sends b numbers to rank b."""
    give, take = list(range(size)), [rank] * size
    sent = np.concatenate([np.full(r, 100.0 * rank + r) for r in range(size)])
    got, again = np.zeros(rank * size), np.zeros(rank * size)
    world.Alltoallv([sent, give, spread(give), MPI.DOUBLE], [got, take, spread(take), MPI.DOUBLE])
    types = [MPI.DOUBLE] * size
    world.Alltoallw([sent, give, [8 * at for at in spread(give)], types], [again, take, [8 * at for at in spread(take)], types])
    return got, bool((got == again).all())


@case
def scans():
    through, before = np.zeros(2), np.zeros(2)
    world.Scan(np.array([rank + 1.0, 1.0]), through)
    world.Exscan(np.array([rank + 1.0, 1.0]), before)
    mine = np.array([1.0 * rank])
    world.Scan(MPI.IN_PLACE, mine, MPI.MAX)
    return through, before if rank else "none", mine


@case
def reduce_scatter():
    block, counts = np.zeros(2), [r % 3 for r in range(size)]
    world.Reduce_scatter_block(numbers(2 * size), block)
    part = np.zeros(counts[rank])
    world.Reduce_scatter(numbers(sum(counts)), part, counts)
    mine = numbers(size)
    world.Reduce_scatter_block(MPI.IN_PLACE, mine)
    return block, part, mine[0]


@case
def nonblocking_collectives():
    mine, summed, everywhere, from_last = numbers(), np.zeros(4), np.zeros((size, 4)), numbers()
    requests = [world.Iallreduce(mine, summed), world.Iallgather(mine, everywhere), world.Ibcast(from_last, size - 1), world.Ibarrier()]
    MPI.Request.Waitall(requests)
    return summed, everywhere[:, 0], from_last[0]


@case
def large_collectives():
    got = np.zeros(1 << 20)
    world.Allreduce(np.full(1 << 20, rank + 1.0), got)
    from_last = np.full(1 << 20, rank + 1.0)
    world.Bcast(from_last, size - 1)
    return got.min(), got.max(), from_last.min(), from_last.max()


# Communicators.


@case
def split():
    half = world.Split(rank % 2, -rank)
    found = half.rank, half.size, half.allgather(rank)
    half.Free()
    alone = world.Split(0 if rank == 0 else MPI.UNDEFINED)
    return found, alone == MPI.COMM_NULL


@case
def split_type():
    """How many of them share memory depends on the launcher's hosts: here, that they do."""
    host = world.Split_type(MPI.COMM_TYPE_SHARED)
    found = host.rank, host.size
    host.Free()
    return found


@case
def duplicates():
    copy, later = world.Dup(), world.Idup()
    later[1].Wait()
    same = MPI.Comm.Compare(world, copy) == MPI.CONGRUENT, MPI.Comm.Compare(copy, later[0]) == MPI.CONGRUENT
    got = copy.allreduce(rank), later[0].allreduce(rank)
    copy.Free(), later[0].Free()
    return same, got


@case
def groups():
    whole = world.Get_group()
    some = whole.Incl(list(range(0, size, 2)))
    rest = MPI.Group.Difference(whole, some)
    found = some.size, rest.size, MPI.Group.Translate_ranks(some, list(range(some.size)), whole)
    made = world.Create_group(some, 3) if rank % 2 == 0 else MPI.COMM_NULL
    if made != MPI.COMM_NULL:
        found += (made.allgather(rank),)
        made.Free()
    by_all = world.Create(rest)
    if by_all != MPI.COMM_NULL:
        found += (by_all.allgather(rank),)
        by_all.Free()
    for group in (whole, some, rest):
        group.Free()
    return found


@case
def intercommunicators():
    if size < 2:
        return "alone"
    half = world.Split(rank % 2, rank)
    between = half.Create_intercomm(0, world, 1 - rank % 2, 12)
    got = between.remote_size, between.allgather(rank), between.allreduce(rank)
    merged = between.Merge(rank % 2 == 1)
    got += (merged.allgather(rank),)
    merged.Free(), between.Free(), half.Free()
    return got


@case
def topologies():
    dims = MPI.Compute_dims(size, 2)
    cart = world.Create_cart(dims, [True, True])
    shifts = [cart.Shift(d, 1) for d in (0, 1)]
    places = cart.neighbor_allgather(rank)
    row = cart.Sub([False, True])
    found = dims, cart.coords, shifts, places, row.allgather(rank)
    row.Free(), cart.Free()
    graph = world.Create_dist_graph_adjacent([(rank - 1) % size], [(rank + 1) % size])
    found += (graph.neighbor_alltoall(["from %d" % rank]),)
    graph.Free()
    return found


@case
def attributes():
    key = MPI.Comm.Create_keyval(copy_fn=lambda comm, key, value: value + 1)
    world.Set_attr(key, rank)
    copy = world.Dup()
    found = world.Get_attr(key), copy.Get_attr(key)
    copy.Free()
    world.Delete_attr(key)
    MPI.Comm.Free_keyval(key)
    return found, world.Get_attr(MPI.APPNUM), world.Get_attr(MPI.TAG_UB) >= 32767, MPI.Get_processor_name() != ""


# One-sided.


@case
def window_fence():
    memory, got = np.zeros(64), np.zeros(1)
    window = MPI.Win.Create(memory, 8, comm=world) if size > 1 else MPI.Win.Allocate(memory.nbytes, 8, comm=world)
    np.frombuffer(window.tomemory(), "d")[0] = rank
    window.Fence()
    window.Put(np.array([rank + 1.0]), (rank + 1) % size, 1)
    window.Get(got, (rank - 1) % size, 0)
    window.Accumulate(np.array([rank + 1.0]), 0, 2)
    window.Fence()
    found = np.frombuffer(window.tomemory(), "d")[1:3].copy() if size > 1 else "alone"
    window.Free()
    return got, found


@case
def window_lock():
    window, ticket = MPI.Win.Allocate(4096, 8, comm=world), np.zeros(1, dtype="i8")
    memory = np.frombuffer(window.tomemory(), "i8")
    memory[:] = 0
    world.Barrier()
    window.Lock(size - 1, MPI.LOCK_SHARED)
    window.Fetch_and_op(np.ones(1, dtype="i8"), ticket, size - 1, 0, MPI.SUM)
    window.Unlock(size - 1)
    tickets = sorted(world.allgather(int(ticket[0])))
    world.Barrier()
    window.Lock(rank)
    counter = int(memory[0])
    window.Unlock(rank)
    window.Free()
    return tickets, counter


@case
def window_groups():
    """Post, start, complete, wait: rank 0 opens its window to the others."""
    window, mine = MPI.Win.Allocate(4096, 8, comm=world), np.array([rank], dtype="i8")
    memory = np.frombuffer(window.tomemory(), "i8")
    memory[:] = 0
    world.Barrier()
    whole = world.Get_group()
    if rank == 0:
        others = whole.Excl([0])
        window.Post(others)
        window.Wait()
        others.Free()
    else:
        zero = whole.Incl([0])
        window.Start(zero)
        window.Put(mine, 0, rank)
        window.Complete()
        zero.Free()
    found = memory[:size].copy()
    world.Barrier()
    whole.Free(), window.Free()
    return found


@case
def window_shared():
    host = world.Split_type(MPI.COMM_TYPE_SHARED)
    window = MPI.Win.Allocate_shared(64, 8, comm=host)
    memory, _ = window.Shared_query(host.rank)
    np.frombuffer(memory, "i8")[:] = 100 * rank + np.arange(8)
    window.Fence()
    found = [int(np.frombuffer(window.Shared_query(r)[0], "i8")[3]) for r in range(host.size)]
    window.Fence()
    window.Free(), host.Free()
    return found


# Files.


@case
def files():
    folder = world.bcast(tempfile.mkdtemp(prefix="suite-") if rank == 0 else None)
    path = os.path.join(folder, "data")
    file = MPI.File.Open(world, path, MPI.MODE_CREATE | MPI.MODE_RDWR)
    file.Set_size(0)
    file.Write_at_all(rank * 32, numbers())
    file.Sync()
    world.Barrier()
    got = np.zeros(4)
    file.Read_at_all((rank + 1) % size * 32, got)
    length = file.Get_size()
    file.Close()
    if rank == 0:
        os.remove(path), os.rmdir(folder)
    return got, length


@case
def file_views():
    """Each rank sees every size-th number of a file."""
    if debian_mpich:  # "Out of memory in file adio/common/flatten.c"
        raise Unsupported
    folder = world.bcast(tempfile.mkdtemp(prefix="suite-") if rank == 0 else None)
    file = MPI.File.Open(world, os.path.join(folder, "data"), MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE)
    view = MPI.DOUBLE.Create_vector(2, 1, size).Commit()
    file.Set_view(rank * 8, MPI.DOUBLE, view)
    file.Write_all(numbers(2))
    file.Sync()
    world.Barrier()
    file.Set_view(0, MPI.DOUBLE)
    got = np.zeros(2 * size)
    file.Read_at(0, got)
    file.Close()
    view.Free()
    if rank == 0:
        os.rmdir(folder)
    return got


@case
def shared_pointer():
    folder = world.bcast(tempfile.mkdtemp(prefix="suite-") if rank == 0 else None)
    path = os.path.join(folder, "data")
    file = MPI.File.Open(world, path, MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE)
    file.Write_ordered(np.full(2, rank, dtype="i"))
    file.Sync()
    world.Barrier()
    got = np.zeros(2 * size, dtype="i")
    file.Read_at_all(0, got)
    file.Close()
    if rank == 0:
        os.rmdir(folder)
    return got


# Dynamic processes.


@case
def spawn():
    if debian_mpich:
        raise Unsupported
    between = world.Spawn(sys.executable, [os.path.abspath(__file__), "--child", "with blanks"], 2)
    found = between.remote_size, between.bcast(None, 0)
    between.bcast("hello" if rank == 0 else None, MPI.ROOT if rank == 0 else MPI.PROC_NULL)
    merged = between.Merge(False)
    found += (merged.allgather(merged.rank),)
    merged.Free()
    between.Disconnect()
    return found


@case
def spawn_self():
    """Each rank has a child of its own."""
    if debian_mpich:
        raise Unsupported
    between = MPI.COMM_SELF.Spawn(sys.executable, [os.path.abspath(__file__), "--child", str(rank)], 1)
    found = between.remote_size, between.bcast(None, 0)
    between.bcast("hello", MPI.ROOT)
    merged = between.Merge(False)
    found += (merged.allgather(merged.rank),)
    merged.Free()
    between.Disconnect()
    return found


def child():
    """The other side of the spawn cases."""
    parent = MPI.Comm.Get_parent()
    parent.bcast([world.size, sys.argv[2:]] if rank == 0 else None, MPI.ROOT if rank == 0 else MPI.PROC_NULL)
    assert parent.bcast(None, 0) == "hello"
    merged = parent.Merge(True)
    merged.allgather(merged.rank)
    merged.Free()
    parent.Disconnect()


@case
def connect():
    """The lower half publishes a port, the upper half looks it up and comes."""
    if debian_mpich:
        raise Unsupported
    if size < 2:
        return "alone"
    is_upper = rank >= (size + 1) // 2
    half = world.Split(is_upper, rank)
    port = None
    if rank == 0:
        port = MPI.Open_port()
        MPI.Publish_name("gorun suite", port)
    world.Barrier()
    if is_upper:
        between = half.Connect(MPI.Lookup_name("gorun suite") if half.rank == 0 else None, root=0)
    else:
        between = half.Accept(port, root=0)
    found = between.remote_size, between.allgather(rank)
    between.Disconnect()
    world.Barrier()
    if rank == 0:
        MPI.Unpublish_name("gorun suite", port)
        MPI.Close_port(port)
    half.Free()
    return found


@case
def lost_names():
    """A name that nobody published."""
    if rank > 0:
        return None
    try:
        MPI.Lookup_name("nobody has published this")
    except MPI.Exception as error:
        return error.Get_error_class() in (MPI.ERR_NAME, MPI.ERR_SERVICE)
    return "found"


# The rest.


@case
def sessions():
    if MPI.Get_version() < (4, 0):
        raise Unsupported
    session = MPI.Session.Init()
    names = [session.Get_nth_pset(i) for i in range(session.Get_num_psets())]
    group = session.Create_group("mpi://WORLD")
    comm = MPI.Intracomm.Create_from_group(group, "gorun.suite")
    found = comm.rank, comm.allreduce(rank), {"mpi://WORLD", "mpi://SELF"} <= set(names)
    comm.Free(), group.Free()
    session.Finalize()
    return found


@case
def threads():
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise Unsupported
    seen = [None] * 4

    def around(tag):
        seen[tag] = [world.sendrecv((rank, i), (rank + 1) % size, 20 + tag, source=(rank - 1) % size, recvtag=20 + tag)[1] for i in range(5)]

    running = [threading.Thread(target=around, args=(tag,)) for tag in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return seen


@case
def errors():
    found = []
    for wrong in (
        lambda: world.Send(numbers(), size + 5),
        lambda: world.Bcast(numbers(), size + 5),
        lambda: world.Send(numbers(), 0, -7),
        lambda: world.Recv(np.zeros(1), rank) if world.Isend(numbers(), rank) else None,
    ):
        try:
            wrong()
            found.append("none")
        except MPI.Exception as error:
            found.append({MPI.ERR_RANK: "rank", MPI.ERR_ROOT: "root", MPI.ERR_TAG: "tag", MPI.ERR_TRUNCATE: "truncate"}.get(error.Get_error_class(), "other"))
    return found


@case
def barriers():
    for _ in range(50):
        world.Barrier()
    return "50"


def run(name):
    """One case: its line in rank 0."""
    try:
        value = plain(cases[name]())
        isolated = False
    except Unsupported:
        value, isolated = None, True
    values = world.gather(value)
    world.Barrier()  # nobody is in the next case while another one takes whatever comes
    if rank == 0:
        print(name + ": " + ("not supported by this library" if isolated else " | ".join(map(str, values))), flush=True)


def main():
    if sys.argv[1:2] == ["--child"]:
        child()
        return
    if rank == 0:
        print("%d ranks of %s %s" % (size, MPI.get_vendor()[0], ".".join(map(str, MPI.get_vendor()[1]))), flush=True)
    for name in sys.argv[1:] or cases:
        run(name)


main()
