#!/bin/bash
# A job that is warned a minute before its end, saves, and is put back into the queue after a preemption.
#SBATCH --job-name=preemption
#SBATCH --ntasks=8
#SBATCH --time=2:00:00
# USR1 comes to this shell alone, in whose place exec puts gorun, which passes it to every rank.
#SBATCH --signal=B:USR1@60
# Back into the queue after a preemption, or the failure of a node.
#SBATCH --requeue
# The next run goes on in the same output file.
#SBATCH --open-mode=append

# The program saves when it gets USR1, and begins with what it finds saved. For a time limit, after which Slurm puts nothing
# back by itself, rank 0 may run "scontrol requeue $SLURM_JOB_ID" when it has saved.
exec gorun --grace 20 ./trainer --resume checkpoints
