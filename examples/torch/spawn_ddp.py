"""DistributedDataParallel as many tutorials show it: the script starts its own ranks with torch.multiprocessing.

    python examples/torch/spawn_ddp.py
    gorun -n 1 examples/torch/spawn_ddp.py

The script names its own meeting point, localhost:12355, so its rank 0 must be the one that listens there. gorun reads that in the
text (the assignment to MASTER_PORT) and leaves the store to rank 0; `gorun -v` says so. See own_port.py for the same with ranks
that the launcher started.
"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def setup(rank, world_size, port):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = port
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


def train(rank, world_size, port):
    setup(rank, world_size, port)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(10, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = torch.nn.functional.mse_loss(model(torch.randn(20, 10)), torch.randn(20, 5))
    loss.backward()
    optimizer.step()
    print(f"spawned rank {rank} of {world_size}: loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--port", default="12355")
    opts = parser.parse_args()
    mp.spawn(train, args=(opts.ranks, opts.port), nprocs=opts.ranks)


if __name__ == "__main__":
    main()
