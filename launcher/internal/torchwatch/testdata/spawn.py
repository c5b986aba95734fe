"""The same in a process that torch.multiprocessing starts."""

import os
import sys

import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=rank, world_size=2)


if __name__ == "__main__":
    mp.spawn(worker, args=(sys.argv[1],), nprocs=2)
