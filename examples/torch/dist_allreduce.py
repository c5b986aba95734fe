"""Times one all-reduce. The twin of examples/dist_allreduce.

    gorun -n 4 examples/torch/dist_allreduce.py --backend gloo --data-size 16777216
"""

import argparse
import os
import time

import torch
import torch.distributed as dist

ROUNDS = 5  # the best counts: the first ones meet cold memory


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["gloo", "nccl"], default="gloo")
    parser.add_argument("--data-size", type=int, default=16 << 20, help="elements (float32, 4 bytes each)")
    opts = parser.parse_args()
    device = torch.device("cpu")
    if opts.backend == "nccl":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group(opts.backend)
    size, best = dist.get_world_size(), float("inf")
    for _ in range(ROUNDS):
        data = torch.ones(opts.data_size, device=device)
        dist.barrier()
        begun = time.perf_counter()
        dist.all_reduce(data)
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begun)
        assert bool((data == size).all())
    slowest = torch.tensor([best], dtype=torch.float64, device=device)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        took, nbytes = slowest.item(), 4 * opts.data_size
        algorithm = nbytes / took / 1e9
        print(f"all-reduce of {opts.data_size} float32 ({nbytes / 1e6:.1f} MB) over {size} ranks (backend {opts.backend})")
        print(f"  time               {1e3 * took:8.3f} ms   best of {ROUNDS}")
        print(f"  algorithm bandwidth {algorithm:7.2f} GB/s")
        print(f"  bus bandwidth       {algorithm * 2 * (size - 1) / size:7.2f} GB/s")
        print(f"every element is {size} on every rank")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
