#!/bin/bash
# PyTorch DDP on the GPUs of two nodes. For more nodes change --nodes, and nothing else.
#SBATCH --job-name=gpus-two-nodes
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --time=4:00:00

# No MASTER_ADDR, no port, no srun: gorun finds the nodes in Slurm's variables and starts its agents there in one step.
exec gorun --nproc-per-node gpu train.py --epochs 10
