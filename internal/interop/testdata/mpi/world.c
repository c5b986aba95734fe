/* Prints the rank in the job and in MPI_COMM_WORLD, and the application number. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size, *app, known;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app, &known);
    printf("RANK %s of %s: %d of %d, app %d\n", getenv("RANK"), getenv("WORLD_SIZE"), rank, size, known ? *app : -1);
    MPI_Finalize();
    return 0;
}
