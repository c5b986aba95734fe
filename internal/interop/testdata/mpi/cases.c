#include "cases.h"

#include <stdarg.h>

int rank, size;
char *self;

void wrong(const char *file, int line, const char *condition, const char *format, ...) {
	va_list values;
	fprintf(stderr, "%s:%d: rank %d of %d: not %s: ", file, line, rank, size, condition);
	va_start(values, format);
	vfprintf(stderr, format, values);
	va_end(values);
	fputc('\n', stderr);
	MPI_Abort(MPI_COMM_WORLD, 3);
	exit(3);
}

void *space(size_t bytes) {
	void *memory = malloc(bytes > 0 ? bytes : 1);
	CHECK(memory != NULL, "%zu bytes", bytes);
	return memory;
}

/* The last case where MPI_Finalize is not to be reached: Debian 12's MPICH hangs in it now and then over TCP, under any launcher. */
static void stop(void) {
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		MPI_Abort(MPI_COMM_WORLD, 5);
	MPI_Barrier(MPI_COMM_WORLD);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
    {"ring", ring},
    {"all-pairs", all_pairs},
    {"wildcards", wildcards},
    {"datatypes", datatypes},
    {"threads", threads},
    {"collectives", collectives},
    {"in-place", in_place},
    {"vectors", vectors},
    {"nonblocking", nonblocking},
    {"big", big},
    {"communicators", communicators},
    {"shared-type", shared_type},
    {"attributes", attributes},
    {"one-sided", one_sided},
    {"compare-and-swap", compare_and_swap},
    {"shared-window", shared_window},
    {"spawn", spawn},
    {"spawn-multiple", spawn_multiple},
    {"names", names},
    {"stop", stop},
};

static void run(const char *name) {
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (strcmp(cases[i].name, name) != 0)
			continue;
		cases[i].run();
		MPI_Barrier(MPI_COMM_WORLD);
		if (rank == 0)
			printf("%s ok\n", name);
		fflush(stdout);
		return;
	}
	CHECK(0, "there is no case %s", name);
}

int main(int argc, char **argv) {
	int provided;
	MPI_Comm parent;
	self = argv[0];
	/* Threads are a case as all others; a library that has none says so there. */
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_get_parent(&parent);
	if (parent != MPI_COMM_NULL)
		spawned(parent);
	for (int i = 1; i < argc && parent == MPI_COMM_NULL; i++)
		run(argv[i]);
	MPI_Finalize();
	return 0;
}
