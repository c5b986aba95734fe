#!/bin/bash
# One gorun per node, started by srun, as torchrun is used: for sites where only srun may start things, and for containers.
#SBATCH --job-name=srun-nodes
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=1:00:00

# Each gorun knows from Slurm which node it is and where the first one is. srun of Slurm 22.05 and later does not inherit --cpus-per-task.
exec srun --cpus-per-task="$SLURM_CPUS_PER_TASK" gorun --nproc-per-node 4 ./trainer
