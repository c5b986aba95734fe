"""Ranks that start two children, of which the second one exits with 9."""

import os
import sys

from mpi4py import MPI

parent = MPI.Comm.Get_parent()
if parent == MPI.COMM_NULL:
    MPI.COMM_WORLD.Spawn(sys.executable, [os.path.abspath(__file__)], 2)
    MPI.COMM_WORLD.Barrier()
elif MPI.COMM_WORLD.rank == 1:
    os._exit(9)
MPI.COMM_SELF.Recv(bytearray(1), 0)  # for ever
