/*
 * commmpi BYTES: MPI's side of internal/bench, with buffers of that many bytes; compiled by each MPI's own mpicc. With 0 bytes it only joins: it
 * says hello behind its first barrier.
 */
#include <mpi.h>

#include "commloop.h"

static void meet(const struct loop *l) {
	(void)l;
	MPI_Barrier(MPI_COMM_WORLD);
}

/* The first and the last rank send the vector there and back. */
static void ping_pong(const struct loop *l, const struct task *t) {
	const int last = l->ranks - 1, count = (int)t->count;
	if (l->rank == 0)
		MPI_Send(l->send[0], count, MPI_FLOAT, last, 0, MPI_COMM_WORLD);
	if (l->rank == 0 || l->rank == last)
		MPI_Recv(l->recv[0], count, MPI_FLOAT, last - l->rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (l->rank == last)
		MPI_Send(l->send[0], count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
}

static void call(const struct loop *l, const struct task *t) {
	float *send = l->send[0], *recv = l->recv[0];
	const int count = (int)t->count, next = (l->rank + 1) % l->ranks, previous = (l->rank + l->ranks - 1) % l->ranks;
	switch (t->operation) {
	case ALLREDUCE: MPI_Allreduce(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
	case REDUCE: MPI_Reduce(send, recv, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD); break;
	case BROADCAST: MPI_Bcast(send, count, MPI_FLOAT, 0, MPI_COMM_WORLD); break;
	case ALLGATHER: MPI_Allgather(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, MPI_COMM_WORLD); break;
	case REDUCESCATTER: MPI_Reduce_scatter_block(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
	case ALLTOALL: MPI_Alltoall(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, MPI_COMM_WORLD); break;
	case SENDRECV: MPI_Sendrecv(send, count, MPI_FLOAT, next, 0, recv, count, MPI_FLOAT, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); break;
	case BARRIER: MPI_Barrier(MPI_COMM_WORLD); break;
	case PINGPONG: ping_pong(l, t); break;
	case OPERATIONS: break;
	}
}

int main(int argc, char **argv) {
	struct loop l = {.call = call, .meet = meet};
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &l.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &l.ranks);
	size_t bytes = argc > 1 ? (size_t)atoll(argv[1]) : 0;
	MPI_Barrier(MPI_COMM_WORLD);
	if (bytes > 0) {
		l.send[0] = private_floats(bytes);
		l.recv[0] = private_floats(bytes);
	}
	open_control(&l);
	serve_tasks(&l);
	MPI_Finalize();
	return 0;
}
