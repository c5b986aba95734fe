/*
 * hello: every rank says who it is, from what MPI itself tells: its number, how many there are, how many of them share its memory, the number of its
 * program in an MPMD job (MPI_APPNUM), and how many ranks there could be (MPI_UNIVERSE_SIZE).
 */
#include <mpi.h>
#include <stdio.h>

/* An attribute of the world that is a number, -1 where it is not set. */
static int attribute(int key) {
	int *value, set;
	MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &set);
	return set ? *value : -1;
}

int main(int argc, char **argv) {
	int rank, size, here;
	MPI_Comm host;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
	MPI_Comm_size(host, &here);
	MPI_Comm_free(&host);
	printf("rank %d of %d, %d here, program %d, universe %d\n", rank, size, here, attribute(MPI_APPNUM), attribute(MPI_UNIVERSE_SIZE));
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}
