#!/bin/bash
# A heterogeneous job: one rank with much memory, and four others elsewhere, in one gorun job.
#SBATCH --job-name=heterogeneous
#SBATCH --ntasks=1 --mem=64G --time=30
#SBATCH hetjob
#SBATCH --ntasks=4 --mem=8G

# Ranks are numbered through the components: rank 0 is the server.
exec gorun -n 1 ./server : -n 4 ./trainer
