"""Makes process groups one after the other at a port of its own. Rank 0 leaves each late."""

import os
import time

import torch
import torch.distributed as dist

os.environ["MASTER_ADDR"] = "localhost"
os.environ["MASTER_PORT"] = "12355"
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def meet(number):
    dist.init_process_group("gloo", rank=rank, world_size=size)
    total = torch.tensor([rank + 1 + number])
    dist.all_reduce(total)
    if rank == 0:
        time.sleep(0.2)
    dist.destroy_process_group()
    return total.item()


for number in range(4):
    total = meet(number)
if rank == 0:
    print(f"{number + 1} groups, sum {total}", flush=True)
