"""Shows what fresh buffers in every step cost, against buffers that are made once. The twin of examples/fragmentation.

    gorun -n 2 examples/torch/fragmentation.py

Memory that is new is mapped page by page when it is first touched (and, for RDMA, registered with the NIC): steps of ever new sizes do that again
and again. Python's page faults include those of Gloo's threads.
"""

import argparse
import random
import resource
import time

import torch
import torch.distributed as dist


def measure(buffer, size, steps):
    """Returns the seconds and the page faults of a step."""
    sizes = random.Random(1)  # the same on all ranks
    step(buffer(size))  # what is mapped once is not counted
    dist.barrier()
    faults, begun = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
    for _ in range(steps):
        step(buffer(size // 2 + sizes.randrange(size // 2)))
    return (time.perf_counter() - begun) / steps, (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults) / steps


def step(data):
    data.fill_(1)
    dist.all_reduce(data)
    assert data[-1].item() == dist.get_world_size()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=2 << 20, help="elements of the largest step (float32, 4 bytes each)")
    parser.add_argument("--steps", type=int, default=20, help="steps in each way")
    opts = parser.parse_args()
    dist.init_process_group("gloo")
    kept = torch.empty(opts.size)
    if dist.get_rank() == 0:
        largest = opts.size / (1 << 18)
        print(f"{dist.get_world_size()} ranks, {opts.steps} steps: all-reduce of {largest / 2:.1f} to {largest:.1f} MiB")
        print(f"{'the step buffer is':<34} {'ms a step':>9} {'page faults':>14}")
    for name, buffer in {"part of one tensor": lambda n: kept[:n], "a new tensor": torch.empty}.items():
        seconds, faults = measure(buffer, opts.size, opts.steps)
        if dist.get_rank() == 0:
            print(f"{name:<34} {1e3 * seconds:9.2f} {faults:14.0f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
