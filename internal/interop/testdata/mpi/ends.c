/*
 * ends WAY [RANK [CODE]]: ways to begin and to end MPI, most of them wrong; RANK is the one that does it, 0 if none is given.
 *
 *   well              as it should be
 *   abort RANK CODE   RANK calls MPI_Abort, the others wait for it in a barrier
 *   leave RANK CODE   RANK exits without MPI_Finalize, the others wait in a barrier
 *   leave-all CODE    all ranks exit without MPI_Finalize
 *   crash RANK        RANK gets SIGSEGV, the others wait in a barrier
 *   only RANK         RANK alone calls MPI_Init, the others exit with 0 at once
 *   without RANK      RANK exits with 0 at once, the others call MPI_Init
 *   never             nobody calls MPI_Init
 *   child             a child of each rank calls MPI_Init, and the rank waits for it
 *   after-child       each rank had a child that knew nothing of MPI, and then calls MPI_Init
 *   both RANK         RANK has a child, which calls MPI_Init when RANK has done so
 *   twice RANK        RANK calls MPI_Init a second time, which is an error of the program's
 *   again RANK        RANK calls MPI_Init after MPI_Finalize, which is one, too
 *   wait              all ranks say their process id and wait for ever
 *   finalized CODE    all ranks end with CODE behind MPI_Finalize
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *way;
static int chosen, code;

/* The child of `both`, and a pipe that gives it its turn. */
static pid_t second;
static int turn[2];

static int is(const char *name) { return strcmp(way, name) == 0; }

/* This rank's number before MPI_Init, from whichever launcher: gorun, Open MPI, MPICH. */
static int number_before(void) {
	const char *names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (getenv(names[i]) != NULL)
			return atoi(getenv(names[i]));
	return -1;
}

/* Waits for a child and returns its code. */
static int code_of(pid_t child) {
	int status;
	if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status))
		return 99;
	return WEXITSTATUS(status);
}

/* What happens before MPI_Init. */
static void begin(void) {
	const int mine = number_before() == chosen;
	if (is("never"))
		exit(0);
	if ((is("only") && !mine) || (is("without") && mine))
		exit(0);
	if (is("both") && mine && pipe(turn) == 0 && (second = fork()) == 0 && read(turn[0], &code, 1) != 1)
		_exit(97);
	if (is("child") || is("after-child")) {
		const pid_t child = fork();
		if (child == 0 && is("after-child"))
			_exit(0);
		if (child > 0 && is("child"))
			exit(code_of(child));
		if (child > 0 && is("after-child") && code_of(child) != 0)
			exit(98);
	}
}

/* What happens between MPI_Init and MPI_Finalize, where all are. */
static void middle(int rank) {
	if (is("leave-all"))
		exit(chosen);
	if (is("wait")) {
		printf("pid %d\n", getpid());
		fflush(stdout);
		for (;;)
			pause();
	}
	if (is("linger"))
		sleep(1); /* gorun inspects libraries 20 and 200 ms after the start */
	if (rank != chosen)
		return;
	if (is("abort"))
		MPI_Abort(MPI_COMM_WORLD, code);
	if (is("leave"))
		exit(code);
	if (is("both") && second == 0)
		_exit(0); /* it was taken for the rank itself, which its parent is, and tells nobody */
	if (is("both") && write(turn[1], "!", 1) == 1)
		code_of(second);
	if (is("crash"))
		raise(SIGSEGV);
	if (is("twice"))
		MPI_Init(NULL, NULL);
}

int main(int argc, char **argv) {
	int rank, size, sum;
	way = argc > 1 ? argv[1] : "well";
	chosen = argc > 2 ? atoi(argv[2]) : 0;
	code = argc > 3 ? atoi(argv[3]) : 0;
	begin();
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	printf("rank %d of %d: sum %d\n", rank, size, sum);
	fflush(stdout);
	middle(rank);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	if (is("again") && rank == chosen)
		MPI_Init(NULL, NULL);
	return is("finalized") ? chosen : 0;
}
