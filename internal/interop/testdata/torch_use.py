"""What PyTorch programs do with the store, one after the other in one job of 4 ranks. Each rank prints "rank N: STEP" when it is past
a step, so that a hang shows where it is.
"""

import os
import re
import select
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import rpc
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def past(step):
    print(f"rank {rank}: {step}", flush=True)


def connect():
    """A client of the job's store."""
    return dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)


def total(group=None):
    """The sum of the ranks in a group, as the group computes it."""
    ranks = torch.tensor([rank])
    dist.all_reduce(ranks, group=group)
    return ranks.item()


def collectives():
    assert total() == sum(range(world))
    everybody = [None] * world
    dist.all_gather_object(everybody, {"rank": rank, "blob": b"x" * rank})
    assert [one["rank"] for one in everybody] == list(range(world))
    received = torch.zeros(1)
    if rank % 2 == 0:
        dist.send(torch.tensor([float(rank)]), rank + 1)
    else:
        dist.recv(received, rank - 1)
        assert received.item() == rank - 1
    past("collectives")


def subgroups():
    halves = [dist.new_group(list(range(first, world, 2))) for first in (0, 1)]
    assert total(halves[rank % 2]) == sum(range(rank % 2, world, 2))
    mine, _ = dist.new_subgroups(2)
    assert total(mine) == 2 * (rank // 2 * 2) + 1
    alone = dist.new_group([rank], use_local_synchronization=True)
    assert total(alone) == rank
    dist.destroy_process_group(mine)
    past("subgroups")


def monitored_barrier():
    dist.monitored_barrier(timeout=timedelta(seconds=60))
    some = dist.new_group(timeout=timedelta(seconds=60))
    if rank == 0:
        try:
            dist.monitored_barrier(some, timeout=timedelta(seconds=1), wait_all_ranks=True)
        except RuntimeError as error:
            assert re.search(r"Ranks .*\b3 failed", str(error)), error  # and who else was slow
        else:
            raise AssertionError("rank 3 never came")
    elif rank < 3:
        try:
            dist.monitored_barrier(some, timeout=timedelta(seconds=60))
        except RuntimeError:
            pass  # rank 0 gave up
    dist.barrier()
    past("monitored_barrier")


def mesh():
    grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "shard"))
    assert total(grid.get_group("shard")) == 2 * (rank // 2 * 2) + 1
    assert total(grid.get_group("replica")) == 2 * (rank % 2) + 2
    past("mesh")


def ddp():
    torch.manual_seed(rank)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    weights = [torch.zeros(1, 4) for _ in range(world)]
    dist.all_gather(weights, model.module.weight.detach())
    assert all(torch.equal(weights[0], other) for other in weights)
    past("ddp")


def again():
    """Each process group has its keys under a prefix of its own: PyTorch numbers groups from 0 again when the last one is destroyed, and
    finds the addresses of the one before in any store that outlives it, torchrun's as well."""
    store = connect()
    for generation in range(3):
        dist.destroy_process_group()
        dist.init_process_group("gloo", store=dist.PrefixStore(f"generation {generation}", store), rank=rank, world_size=world)
        assert total() == sum(range(world))
        dist.new_group([0, 1])
        dist.barrier()  # else rank 0 may close the new group's connections while rank 1 still makes them
    dist.destroy_process_group()
    past("again")


def square(n):
    return n * n, rank


def remote_calls():
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world)
    neighbour = (rank + 1) % world
    assert rpc.rpc_sync(f"worker{neighbour}", square, (rank,)) == (rank * rank, neighbour)
    assert rpc.remote(f"worker{neighbour}", square, (7,)).to_here() == (49, neighbour)
    rpc.shutdown()
    past("rpc")


def rank_0_leaves_first():
    store = connect()
    if rank == 0:
        store.set("the first", str(os.getpid()))
        store.barrier("it is held", world)
        past("end")
        return
    gone = os.pidfd_open(int(store.get("the first")))
    store.barrier("it is held", world)
    poll = select.poll()
    poll.register(gone, select.POLLIN)
    poll.poll()
    assert store.add("without rank 0", 1) > 0
    store.barrier("the others", world - 1)
    assert store.get("without rank 0") == str(world - 1).encode()
    others = dist.PrefixStore("others", store.clone())
    dist.init_process_group("gloo", store=others, rank=rank - 1, world_size=world - 1)
    assert total() == sum(range(world))
    dist.destroy_process_group()
    past("end")


dist.init_process_group("gloo")
for step in (collectives, subgroups, monitored_barrier, mesh, ddp, again, remote_calls, rank_0_leaves_first):
    step()
