#!/bin/bash
# A Go program with package comm on as many nodes as 64 ranks take: go build -o trainer ./examples/trainer
#SBATCH --job-name=cpus-many-nodes
#SBATCH --ntasks=64
#SBATCH --cpus-per-task=1
#SBATCH --time=30

# Nodes may have different numbers of ranks (SLURM_TASKS_PER_NODE=24(x2),16): gorun gives each what Slurm gave it.
exec gorun ./trainer
