"""A script that takes its rank from the launcher but names the meeting point itself, as many teaching texts do.

    gorun --nproc-per-node 2 examples/torch/own_port.py

Rank 0 must then host the store at that port. A launcher whose own store is announced to the ranks would make them all wait as
clients for a server that nobody starts; gorun sees the assignment to MASTER_PORT in the text and leaves the store to rank 0
(--store=rank0 says it by hand, --store=gorun forces the opposite).
"""

import os
import sys

import torch
import torch.distributed as dist

os.environ["MASTER_ADDR"] = "localhost"
os.environ["MASTER_PORT"] = sys.argv[1] if len(sys.argv) > 1 else "12355"


def main():
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", rank=rank, world_size=size)
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total)
    print(f"rank {rank} of {size} met at port {os.environ['MASTER_PORT']}: sum {total.item():g}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
