#include "cases.h"

#include <pthread.h>

/* A number goes around twice, and each rank adds its own. */
void ring(void) {
	const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
	int token = 0;
	for (int round = 0; round < 2; round++) {
		if (rank == 0) {
			token++;
			MPI_Sendrecv_replace(&token, 1, MPI_INT, next, round, previous, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			continue;
		}
		MPI_Recv(&token, 1, MPI_INT, previous, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		token += rank + 1;
		MPI_Send(&token, 1, MPI_INT, next, round, MPI_COMM_WORLD);
	}
	CHECK(rank != 0 || token == size * (size + 1), "token %d", token);
}

/* What a rank sends to another one: different for each pair, eager and by rendezvous. */
enum { SMALL = 3, LARGE = 40000 };

static void fill(int *to, int count, int from, int at) {
	for (int i = 0; i < count; i++)
		to[i] = from * 1000 + at + i;
}

static void exchange(int count) {
	int *sent = space((size_t)size * count * sizeof(int)), *came = space((size_t)size * count * sizeof(int)), *want = space(count * sizeof(int));
	MPI_Request *requests = space(2 * size * sizeof *requests);
	for (int peer = 0; peer < size; peer++) {
		fill(sent + (size_t)peer * count, count, rank, peer);
		MPI_Irecv(came + (size_t)peer * count, count, MPI_INT, peer, 7, MPI_COMM_WORLD, &requests[2 * peer]);
		MPI_Isend(sent + (size_t)peer * count, count, MPI_INT, peer, 7, MPI_COMM_WORLD, &requests[2 * peer + 1]);
	}
	MPI_Waitall(2 * size, requests, MPI_STATUSES_IGNORE);
	for (int peer = 0; peer < size; peer++) {
		fill(want, count, peer, rank);
		CHECK(memcmp(want, came + (size_t)peer * count, count * sizeof(int)) == 0, "%d numbers from rank %d", count, peer);
	}
	free(sent), free(came), free(want), free(requests);
}

void all_pairs(void) {
	exchange(SMALL);
	exchange(LARGE);
}

/* Rank 0 takes messages of lengths that it does not know, from whoever comes; each sort of sending is used. */
void wildcards(void) {
	int numbers[64];
	if (rank == 0) {
		int seen = 0;
		for (int i = 1; i < size; i++) {
			MPI_Status status;
			int count;
			MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
			MPI_Get_count(&status, MPI_INT, &count);
			CHECK(count == status.MPI_SOURCE % 60 + 1 && status.MPI_TAG == 40 + status.MPI_SOURCE, "%d numbers with tag %d", count, status.MPI_TAG);
			MPI_Recv(numbers, count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			CHECK(numbers[count - 1] == status.MPI_SOURCE, "%d", numbers[count - 1]);
			seen += status.MPI_SOURCE;
		}
		CHECK(seen == size * (size - 1) / 2, "ranks that add up to %d", seen);
		return;
	}
	const int count = rank % 60 + 1;
	numbers[count - 1] = rank;
	if (rank % 2 == 0)
		MPI_Ssend(numbers, count, MPI_INT, 0, 40 + rank, MPI_COMM_WORLD);
	else
		MPI_Send(numbers, count, MPI_INT, 0, 40 + rank, MPI_COMM_WORLD);
}

/* A column of a matrix goes to the next rank by a request that is started three times. */
void datatypes(void) {
	enum { ROWS = 5, COLUMNS = 4 };
	int matrix[ROWS][COLUMNS], column[ROWS];
	MPI_Datatype type;
	MPI_Request requests[2];
	const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
	MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &type);
	MPI_Type_commit(&type);
	MPI_Recv_init(column, ROWS, MPI_INT, previous, 9, MPI_COMM_WORLD, &requests[0]);
	MPI_Send_init(&matrix[0][2], 1, type, next, 9, MPI_COMM_WORLD, &requests[1]);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < ROWS * COLUMNS; i++)
			matrix[i / COLUMNS][i % COLUMNS] = rank * 10000 + round * 100 + i;
		MPI_Startall(2, requests);
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		for (int i = 0; i < ROWS; i++)
			CHECK(column[i] == previous * 10000 + round * 100 + i * COLUMNS + 2, "row %d of round %d is %d", i, round, column[i]);
	}
	MPI_Request_free(&requests[0]), MPI_Request_free(&requests[1]);
	MPI_Type_free(&type);
}

enum { THREADS = 4, ROUNDS = 20 };

/* One of several threads: it goes around the ring with a tag of its own. */
static void *one_thread(void *number) {
	const int tag = 100 + *(int *)number, next = (rank + 1) % size, previous = (rank + size - 1) % size;
	for (int round = 0; round < ROUNDS; round++) {
		int token = rank * 1000 + tag + round;
		MPI_Sendrecv_replace(&token, 1, MPI_INT, next, tag, previous, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		CHECK(token == previous * 1000 + tag + round, "thread %d has %d", tag, token);
	}
	return NULL;
}

void threads(void) {
	pthread_t running[THREADS];
	int numbers[THREADS], provided;
	MPI_Query_thread(&provided);
	CHECK(provided == MPI_THREAD_MULTIPLE, "level %d", provided);
	for (int i = 0; i < THREADS; i++) {
		numbers[i] = i;
		CHECK(pthread_create(&running[i], NULL, one_thread, &numbers[i]) == 0, "thread %d", i);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(running[i], NULL);
}
