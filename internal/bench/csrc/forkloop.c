/*
 * forkloop N PROGRAM [ARGS...]: the least that a launcher with output can do.
 *
 * Starts N processes by posix_spawn, each with a pipe of its own for standard output and one for standard error and with RANK in
 * its environment, passes on what comes until every pipe has ended, and reaps. One thread, one poll; no sessions, no plan, no
 * report. It is the floor that gorun's start-up is measured against.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void fail(const char *what) {
	perror(what);
	exit(125);
}

/* start spawns one rank and leaves the reading ends of its two pipes in ends[0] and ends[1]. */
static pid_t start(int rank, char **argv, struct pollfd *ends) {
	int out[2], err[2];
	char number[16];
	pid_t pid;
	posix_spawn_file_actions_t actions;

	snprintf(number, sizeof number, "%d", rank);
	if (setenv("RANK", number, 1) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		fail("pipes");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
	if (posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ))
		fail(argv[0]);
	posix_spawn_file_actions_destroy(&actions);
	close(out[1]);
	close(err[1]);
	ends[0] = (struct pollfd){.fd = out[0], .events = POLLIN};
	ends[1] = (struct pollfd){.fd = err[0], .events = POLLIN};
	return pid;
}

/* pass copies one chunk to `to` and returns 0 at the end of the pipe. */
static int pass(int from, int to) {
	static char chunk[65536];
	ssize_t got = read(from, chunk, sizeof chunk);

	for (ssize_t done = 0; done < got;) {
		ssize_t put = write(to, chunk + done, got - done);
		if (put < 0)
			fail("write");
		done += put;
	}
	return got > 0;
}

static void pump(struct pollfd *ends, int count) {
	for (int open = count; open > 0;) {
		if (poll(ends, count, -1) < 0)
			fail("poll");
		for (int i = 0; i < count; i++) {
			if (!ends[i].revents || pass(ends[i].fd, i % 2 ? STDERR_FILENO : STDOUT_FILENO))
				continue;
			close(ends[i].fd);
			ends[i].fd = -1; /* poll leaves it out, and clears revents */
			open--;
		}
	}
}

int main(int argc, char **argv) {
	int ranks = argc > 2 ? atoi(argv[1]) : 0;
	int failed = 0;

	if (ranks < 1) {
		fprintf(stderr, "usage: forkloop N PROGRAM [ARGS...]\n");
		return 2;
	}
	pid_t *pids = calloc(ranks, sizeof *pids);
	struct pollfd *ends = calloc(2 * ranks, sizeof *ends);
	if (!pids || !ends)
		fail("memory");
	for (int rank = 0; rank < ranks; rank++)
		pids[rank] = start(rank, argv + 2, ends + 2 * rank);
	pump(ends, 2 * ranks);
	for (int rank = 0; rank < ranks; rank++) {
		int status;
		if (waitpid(pids[rank], &status, 0) < 0 || status)
			failed = 1;
	}
	free(ends);
	free(pids);
	return failed;
}
