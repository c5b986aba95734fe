"""Shows what it costs to make a process group anew for every step, against making it once. The twin of examples/reinit.

    gorun -n 4 examples/torch/reinit.py --steps 20

Each new group has keys of its own in the store, hence the prefix: under torchrun ranks would find the addresses of a group that is gone. gorun's store tells
such groups apart by itself.
"""

import argparse
import time

import torch
import torch.distributed as dist

ELEMENTS = 1024  # 4 KiB


def step():
    data = torch.full((ELEMENTS,), float(dist.get_rank()))
    dist.all_reduce(data)
    assert data[-1].item() == dist.get_world_size() * (dist.get_world_size() - 1) / 2


def average(steps, do):
    """The seconds of one of many steps on the slowest rank."""
    begun = time.perf_counter()
    for number in range(steps):
        do(number)
    return (time.perf_counter() - begun) / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20, help="steps in each way")
    steps = parser.parse_args().steps
    store, rank, size = next(dist.rendezvous("env://"))

    def anew(number):
        dist.init_process_group("gloo", store=dist.PrefixStore(f"step {number}", store), rank=rank, world_size=size)
        step()
        dist.barrier()
        dist.destroy_process_group()

    every = average(steps, anew)
    dist.init_process_group("gloo", store=dist.PrefixStore("once", store), rank=rank, world_size=size)
    dist.barrier()
    once = average(steps, lambda number: step())
    slowest = torch.tensor([every, once], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    if rank == 0:
        every, once = (1e6 * slowest).tolist()
        print(f"{size} ranks, {steps} steps with an all-reduce of {4 * ELEMENTS // 1024} KiB each")
        print(f"  a group for every step   {every:10.1f} µs a step")
        print(f"  one group for all steps  {once:10.1f} µs a step")
        print(f"making a group costs {every - once:.1f} µs, as much as {(every - once) / once:.0f} steps: make it once")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
