/*
 * cases: parts of MPI with checked results. `cases NAME...` runs the named ones, one after the other, in every rank; rank 0 says "NAME ok" behind
 * each. What is wrong is said by the rank that sees it, and ends the job by MPI_Abort with code 3.
 */
#ifndef CASES_H
#define CASES_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of this rank and of all in MPI_COMM_WORLD, and this program's path. */
extern int rank, size;
extern char *self;

/* Ends the job unless a condition holds, saying where and, in the words of printf, what. */
#define CHECK(condition, ...) \
	do { \
		if (!(condition)) \
			wrong(__FILE__, __LINE__, #condition, __VA_ARGS__); \
	} while (0)

void wrong(const char *file, int line, const char *condition, const char *format, ...) __attribute__((noreturn, format(printf, 4, 5)));

/* Memory that is there. */
void *space(size_t bytes);

/* What rank r has at place i: small whole numbers, so that sums are exact. */
static inline double value_of(int r, int i) { return (r + 1) * 100 + i % 97; }

/* points.c */
void ring(void);
void all_pairs(void);
void wildcards(void);
void datatypes(void);
void threads(void);

/* collectives.c */
void collectives(void);
void in_place(void);
void vectors(void);
void nonblocking(void);
void big(void);

/* communicators.c */
void communicators(void);
void shared_type(void);
void attributes(void);

/* onesided.c */
void one_sided(void);
void compare_and_swap(void);
void shared_window(void);

/* dynamic.c */
void spawn(void);
void spawn_multiple(void);
void spawned(MPI_Comm parent); /* what those that spawn and spawn_multiple start do */
void names(void);

#endif
