"""Shows how a monitored barrier names the rank for which all others wait. The twin of examples/straggler.

    gorun -n 4 examples/torch/straggler.py
    gorun -n 4 examples/torch/straggler.py --late 2 --delay 5 --timeout 1

Only Gloo has it; the timeout is a timedelta (a number works, with a warning).
"""

import argparse
import datetime
import time

import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--late", type=int, default=-1, help="the rank that dawdles; -1: none")
    parser.add_argument("--delay", type=float, default=5, help="for how many seconds it does")
    parser.add_argument("--timeout", type=float, default=1, help="how many seconds the others wait in the barrier")
    opts = parser.parse_args()
    dist.init_process_group("gloo")
    dist.barrier()
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank == opts.late:
        time.sleep(opts.delay)  # a batch that is larger, a disk that is slower
    begun = time.perf_counter()
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=opts.timeout), wait_all_ranks=True)
    waited = 1000 * (time.perf_counter() - begun)
    print(f"rank {rank} waited {waited:.0f}ms: all {size} ranks came within {opts.timeout:g}s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
