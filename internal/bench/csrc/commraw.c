/*
 * commraw BYTES RANK ADDRESS PORT: what internal/bench's operations between two hosts would cost if nothing but one TCP connection and send and
 * recv were there. An all-reduce is the exchange of the vectors, nothing is added; a barrier is the exchange of one byte.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include "commloop.h"

static int line;

enum { STEP = 256 << 10 }; /* bytes a system call: fastest of 64 KiB to 64 MiB over a veth */

static size_t step_of(size_t left) { return left < STEP ? left : STEP; }

/* exchange sends and receives at once; it sleeps where neither can go on. */
static void exchange(const void *send_from, size_t out, void *recv_to, size_t in) {
	const char *from = send_from;
	char *to = recv_to;
	while (out || in) {
		struct pollfd p = {.fd = line, .events = (short)((out ? POLLOUT : 0) | (in ? POLLIN : 0))};
		ssize_t sent = out ? send(line, from, step_of(out), MSG_DONTWAIT | MSG_NOSIGNAL) : -1;
		if (sent > 0)
			from += sent, out -= (size_t)sent;
		ssize_t come = in ? recv(line, to, step_of(in), MSG_DONTWAIT) : -1;
		if (come == 0 || (in && come < 0 && errno != EAGAIN))
			give_up("the other rank");
		if (come > 0)
			to += come, in -= (size_t)come;
		if (sent <= 0 && come <= 0 && (out || in))
			poll(&p, 1, -1);
	}
}

static void ping_pong(const struct loop *l, size_t bytes) {
	if (l->rank == 0)
		exchange(l->send[0], bytes, NULL, 0);
	exchange(NULL, 0, l->recv[0], bytes);
	if (l->rank == 1)
		exchange(l->send[0], bytes, NULL, 0);
}

static void call(const struct loop *l, const struct task *t) {
	size_t bytes = t->count * sizeof(float);
	char byte = 0;
	switch (t->operation) {
	case BARRIER: exchange(&byte, 1, &byte, 1); break;
	case PINGPONG: ping_pong(l, bytes); break;
	case BROADCAST: exchange(l->send[0], l->rank ? 0 : bytes, l->send[0], l->rank ? bytes : 0); break;
	default: exchange(l->send[0], bytes, l->recv[0], bytes); break;
	}
}

static void meet(const struct loop *l) {
	char byte = 0;
	(void)l;
	exchange(&byte, 1, &byte, 1);
}

static int accepted(int fd, struct sockaddr_in *address) {
	int one = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(fd, (struct sockaddr *)address, sizeof *address) != 0 || listen(fd, 1) != 0)
		give_up("listen");
	return accept(fd, NULL, NULL);
}

/* dialled waits for a server that is about to come. */
static int dialled(const struct sockaddr_in *address) {
	for (int i = 0; i < 1000; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0)
			return fd;
		close(fd);
		usleep(10000);
	}
	return -1;
}

int main(int argc, char **argv) {
	if (argc != 5)
		return 2;
	struct loop l = {.call = call, .meet = meet, .ranks = 2, .rank = atoi(argv[2])};
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[4]))};
	int one = 1;
	if (inet_pton(AF_INET, argv[3], &address.sin_addr) != 1)
		return 2;
	line = l.rank == 0 ? accepted(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), &address) : dialled(&address);
	if (line < 0)
		give_up("the connection");
	setsockopt(line, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	l.send[0] = private_floats((size_t)atoll(argv[1]));
	l.recv[0] = private_floats((size_t)atoll(argv[1]));
	open_control(&l);
	serve_tasks(&l);
	return 0;
}
