#!/bin/bash
# A script that was written for torchrun, with torchrun replaced by gorun and nothing else changed.
#SBATCH --job-name=torchrun-habits
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=1:00:00

nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
export MASTER_ADDR=${nodes[0]}

# "gorun --nproc-per-node 4 ./trainer" alone would do the same: see gpus-two-nodes.sh.
srun gorun --nnodes "$SLURM_NNODES" --nproc-per-node 4 \
	--rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$MASTER_ADDR:29500" ./trainer
