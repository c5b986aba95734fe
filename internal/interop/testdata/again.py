"""Makes process groups one after the other, some of which an object keeps alive. Nobody calls meet_elsewhere."""

import os

import torch
import torch.distributed as dist


def meet_elsewhere():
    os.environ["MASTER_PORT"] = "12355"


rank = int(os.environ["RANK"])
kept = []
for number in range(6):
    dist.init_process_group("gloo")
    total = torch.tensor([rank + number])
    dist.all_reduce(total)
    both = dist.new_group([0, 1])
    if rank < 2:
        dist.all_reduce(total, group=both)
    if number % 2:
        kept.append(dist.group.WORLD)
    dist.destroy_process_group()
if rank == 0:
    print(f"{number + 1} groups, sum {total.item()}", flush=True)
os._exit(0)  # PyTorch aborts now and then when groups that were kept go with the interpreter
