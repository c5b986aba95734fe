#!/bin/bash
# A job array: 16 jobs of four ranks each, at most 4 at a time. Each is a job of gorun's of its own.
#SBATCH --job-name=array
#SBATCH --array=0-15%4
#SBATCH --ntasks=4
# One file per element.
#SBATCH --output=%x-%A_%a.out
#SBATCH --time=20

exec gorun ./trainer --seed "$SLURM_ARRAY_TASK_ID"
