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

# The program saves when it gets USR1, exits with 85, and begins with what it finds saved. Slurm then runs the job again, also
# after a time limit.
exec gorun --preempt-signal USR1 --requeue-on 85 ./trainer --resume checkpoints
