"""Data-parallel training with mpi4py: gorun -n 4 examples/mpi/data_parallel.py, or under any mpirun.

Each rank has its share of the data and computes the gradient of a linear model on it; MPI's Allreduce sums the gradients, so that all ranks take the
same step and keep the same weights. What comes out does not depend on the number of ranks, but for rounding.
"""

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()

ROWS, COLUMNS, STEPS, RATE = 4096, 16, 50, 0.1

# Rank 0 makes the data and deals it out, in parts that may differ by one row.
counts = [ROWS // size + (r < ROWS % size) for r in range(size)]
inputs, targets, answer = None, None, None
if rank == 0:
    random = np.random.default_rng(7)
    inputs, answer = random.standard_normal((ROWS, COLUMNS)), random.standard_normal(COLUMNS)
    targets = inputs @ answer + 0.01 * random.standard_normal(ROWS)
own_inputs, own_targets = np.empty((counts[rank], COLUMNS)), np.empty(counts[rank])
world.Scatterv([inputs, [c * COLUMNS for c in counts]] if rank == 0 else None, own_inputs, root=0)
world.Scatterv([targets, counts] if rank == 0 else None, own_targets, root=0)
print(f"rank {rank} of {size} on {MPI.Get_processor_name()} has {counts[rank]} rows", flush=True)

weights, gradient = np.zeros(COLUMNS), np.empty(COLUMNS)
for step in range(STEPS):
    errors = own_inputs @ weights - own_targets
    world.Allreduce(own_inputs.T @ errors, gradient, op=MPI.SUM)
    weights -= RATE / ROWS * gradient

loss = world.allreduce(float(np.sum((own_inputs @ weights - own_targets) ** 2))) / ROWS
everybodys = world.gather(weights.tobytes(), root=0)
if rank == 0:
    assert all(theirs == everybodys[0] for theirs in everybodys), "ranks have different weights"
    print(f"{size} ranks have the same weights")
    print(f"after {STEPS} steps: loss {loss:.5f}, off by {np.abs(weights - answer).max():.4f} at most", flush=True)
