#!/bin/bash
# One gorun per rank, started by srun, as MPI programs are: each is the rank that Slurm made it.
#SBATCH --job-name=srun-ranks
#SBATCH --ntasks=8
#SBATCH --time=1:00:00

exec srun gorun ./trainer
