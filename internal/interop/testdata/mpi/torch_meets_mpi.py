"""Ranks that use mpi4py and torch.distributed in one job, and look for their number as DeepSpeed and Horovod do."""

import os

import torch
import torch.distributed as dist
from mpi4py import MPI

world = MPI.COMM_WORLD
dist.init_process_group("gloo")
by_torch = torch.tensor(float(dist.get_rank()))
dist.all_reduce(by_torch)
by_mpi = world.allreduce(world.rank)

# DeepSpeed's mpi_discovery asks MPI for the rank, and for the local rank by names of hosts; frameworks look for these variables.
local = sum(name == MPI.Get_processor_name() for name in world.allgather(MPI.Get_processor_name())[: world.rank])
assert local == int(os.environ["LOCAL_RANK"]) == int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]) == int(os.environ["MPI_LOCALRANKID"])
assert world.size == int(os.environ["OMPI_COMM_WORLD_SIZE"]) == int(os.environ["PMI_SIZE"])
seen = {os.environ[name] for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")}

print(
    f"rank {world.rank} of {world.size} for MPI, {dist.get_rank()} of {dist.get_world_size()} for PyTorch,"
    f" sums {by_mpi} and {by_torch.item():.0f}, seen as {' '.join(seen)}",
    flush=True,
)
world.Barrier()
dist.destroy_process_group()
