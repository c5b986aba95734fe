#!/bin/bash
# Four ranks of a program on one node, with two CPUs each.
#SBATCH --job-name=cpus-one-node
#SBATCH --nodes=1
#SBATCH --ntasks=4
#SBATCH --cpus-per-task=2
#SBATCH --time=10

# Slurm's tasks are gorun's ranks: the number is set above only.
exec gorun ./trainer
