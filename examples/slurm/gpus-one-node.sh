#!/bin/bash
# PyTorch on the GPUs of one node: a rank per GPU.
#SBATCH --job-name=gpus-one-node
#SBATCH --nodes=1
#SBATCH --gpus-per-node=4
# One task is counted, and these are its CPUs: gorun shares them among the ranks.
#SBATCH --cpus-per-task=32
#SBATCH --time=1:00:00

exec gorun --nproc-per-node gpu train.py --epochs 10
