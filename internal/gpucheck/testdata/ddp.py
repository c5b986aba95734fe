"""Trains a small network by DistributedDataParallel on GPUs, and compares what the ranks have in the end."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
torch.cuda.set_device(device)
dist.init_process_group("nccl")
torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to(device), device_ids=[device.index])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())  # each rank has data of its own
first = last = None
for _ in range(200):
    images = torch.randn(64, 64, device=device)
    loss = torch.nn.functional.cross_entropy(model(images), images[:, :10].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    first, last = loss.item() if first is None else first, loss.item()
mine = torch.cat([p.detach().flatten() for p in model.parameters()])
whole = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
dist.all_gather(whole, mine)
assert all(torch.equal(mine, other) for other in whole), "the ranks' parameters differ"
assert last < first, f"the loss went from {first} to {last}"
if dist.get_rank() == 0:
    print(f"ddp: the ranks agree; the loss went from {first:.3f} to {last:.3f} on {dist.get_world_size()} GPUs", flush=True)
dist.destroy_process_group()
