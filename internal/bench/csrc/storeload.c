/*
 * storeload: load on servers of PyTorch's TCPStore protocol, from one epoll loop.
 *
 * A client sends a request only after the answer to the one before, as PyTorch's clients do. Results are JSON objects, one a line:
 * times in seconds of the monotonic clock, "cpu" in seconds of the server's own CPU clock (user and system), 0 where no PID was given.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "storewire.h"

static const char usage[] =
	"usage: storeload MODE -s HOST:PORT[:PID] [OPTIONS]\n"
	"\n"
	"  ops     every operation of -o on -c connections, -r rounds of -w ms unmeasured and -t ms (or -n operations) measured.\n"
	"          With several -s the servers take turns within each round. A line a turn: op, server (0 is the first -s),\n"
	"          operations, seconds, cpu.\n"
	"  join    \"the world joins\": -c clients connect, VALIDATE, PING, ADD, WAIT until all have come, then GET -n times:\n"
	"          seconds until the last has its last answer, cpu, and the longest pause between two answers.\n"
	"  fanout  -c clients WAIT for a key, one more SETs it to -b bytes, all GET it: seconds from the SET until all have it, cpu.\n"
	"  tail    one connection GETs for -t ms while -c others do nothing else: samples, p50 and p99 in seconds.\n"
	"  idle    -c connections, greeted and then silent, until standard input ends: a line when they stand.\n"
	"\n"
	"  -s HOST:PORT[:PID]  the server, an IPv4 address, and the process whose CPU time is read; ops takes several\n"
	"  -c CONNECTIONS      default 16\n"
	"  -o OPS              of set,get,add,check,waitget (the WAIT and GET of PyTorch's get),multiget; default all\n"
	"  -r ROUNDS           default 1\n"
	"  -t MILLISECONDS     default 250\n"
	"  -w MILLISECONDS     default 50\n"
	"  -n COUNT            operations instead of a time; in join GETs a client, default 100\n"
	"  -b BYTES            of fanout's value, default 8388608\n";

enum { SERVERS = 4, EVENTS = 512, CONNECTING = 1024, PATIENCE = 60, PER_SOURCE = 12000 };

struct client {
	int fd, step;
	unsigned turn;
	uint64_t missing; /* bytes of the answer that are still to come */
	struct server *server;
};

struct server {
	struct sockaddr_in at;
	const char *name;
	clockid_t clock;
	int has_clock, epoll, busy, stop;
	uint64_t done; /* requests answered; an operation may be two, and all clients be at the same one of them */
	struct client *clients;
};

static const char *mode = "storeload";
static struct server servers[SERVERS];
static int server_count;
static int connections = 16, rounds = 1;
static long measure_ms = 250, warm_ms = 50, count;
static uint64_t bytes = 8 << 20;
static char all_ops[] = "set,get,add,check,waitget,multiget", *op_names = all_ops;
static const struct op *doing;
static char prefix[64];                   /* of keys of this run alone */
static unsigned char scratch[256 << 10]; /* what was received last */
static void (*answered)(struct client *);  /* an answer is whole */
static void (*connected)(struct client *); /* connected */

static _Noreturn void fail(const char *format, ...) {
	int error = errno;
	va_list args;

	fprintf(stderr, "storeload: %s: ", mode);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, error ? ": %s\n" : "\n", strerror(error));
	exit(1);
}

static _Noreturn void misused(const char *why) {
	fprintf(stderr, "storeload: %s\n\n%s", why, usage);
	exit(2);
}

static double seconds(clockid_t clock) {
	struct timespec t = {0, 0};

	if (clock_gettime(clock, &t))
		fail("read a clock");
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double now(void) { return seconds(CLOCK_MONOTONIC); }
static double cpu(const struct server *s) { return s->has_clock ? seconds(s->clock) : 0; }

static const struct op *op_named(const char *name) {
	for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
		if (!strcmp(ops[i].name, name))
			return &ops[i];
	errno = 0;
	fail("no operation \"%s\": it is one of set, get, add, check, waitget, multiget", name);
}

/* Connections. */

static int dial(const struct server *s, int index, int flags) {
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	struct linger reset = {1, 0}; /* a connection that is reset leaves no TIME_WAIT: the next round finds its ports free */
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)(index / PER_SOURCE))};

	if (fd < 0)
		fail("socket %d of %d", index, connections);
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) || setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset))
		fail("setsockopt");
	if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one) || bind(fd, (struct sockaddr *)&from, sizeof from))
		fail("bind to %s", inet_ntoa(from.sin_addr));
	if (connect(fd, (const struct sockaddr *)&s->at, sizeof s->at) && errno != EINPROGRESS)
		fail("connect to %s", s->name);
	return fd;
}

/* transmit sends a small request, for which a socket has always room. */
static void transmit(int fd, const void *data, size_t n) {
	ssize_t put = send(fd, data, n, MSG_NOSIGNAL);

	if (put != (ssize_t)n)
		fail("send %zu bytes: %zd", n, put);
}

static void read_all(int fd, void *to, size_t n) {
	for (size_t have = 0; have < n;) {
		ssize_t got = recv(fd, (char *)to + have, n - have, 0);
		if (got == 0)
			errno = 0;
		if (got <= 0)
			fail("the server closed a connection");
		have += (size_t)got;
	}
}

/* hello opens one connection that blocks, and greets. */
static int hello(const struct server *s, int index) {
	unsigned char b[sizeof greeting + sizeof ping], pong[4];
	int fd = dial(s, index, 0);

	put(put(b, greeting, sizeof greeting), ping, sizeof ping);
	transmit(fd, b, sizeof b);
	read_all(fd, pong, sizeof pong);
	return fd;
}

/* populate sets the keys that the operations are about. */
static void populate(const struct server *s) {
	int fd = hello(s, 0);

	for (int i = 0; i < KEYS; i++) {
		unsigned char pong[4];
		transmit(fd, ops[0].stage[0].request[i], (size_t)ops[0].stage[0].length[i]);
		read_all(fd, pong, sizeof pong);
	}
	close(fd);
}

static void watch(const struct client *c, int act, uint32_t events) {
	struct epoll_event event = {.events = events, .data.ptr = (void *)c};

	if (epoll_ctl(c->server->epoll, act, c->fd, &event))
		fail("epoll_ctl");
}

/* ask sends a request whose answer has that many bytes. */
static void ask(struct client *c, const void *data, size_t n, uint64_t answer) {
	c->missing = answer;
	transmit(c->fd, data, n);
}

static void receive(struct client *c) {
	ssize_t got = recv(c->fd, scratch, c->missing < sizeof scratch ? c->missing : sizeof scratch, MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got == 0)
		errno = 0;
	if (got <= 0)
		fail("%s closed a connection", c->server->name);
	const struct stage *stage = doing ? &doing->stage[c->step] : NULL;
	if (stage && c->missing == stage->answer && got >= stage->proves && memcmp(scratch, stage->proof, (size_t)stage->proves))
		fail("%s gave a wrong answer, which begins with byte %d", c->server->name, scratch[0]);
	c->missing -= (uint64_t)got;
	if (c->missing == 0)
		answered(c);
}

static void come(struct client *c) {
	int error = 0;
	socklen_t size = sizeof error;

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size) || error) {
		errno = error;
		fail("connect to %s", c->server->name);
	}
	watch(c, EPOLL_CTL_MOD, EPOLLIN);
	connected(c);
}

/* turn waits for events of one server's clients and serves them. */
static void turn(struct server *s) {
	struct epoll_event events[EVENTS];
	int n = epoll_wait(s->epoll, events, EVENTS, PATIENCE * 1000);

	if (n < 0 && errno != EINTR)
		fail("epoll_wait");
	if (n == 0) {
		errno = 0;
		fail("no answer of %s in %d s", s->name, PATIENCE);
	}
	for (int i = 0; i < n; i++) {
		struct client *c = events[i].data.ptr;
		if (events[i].events & EPOLLOUT)
			come(c);
		else
			receive(c);
	}
}

/* gather opens the clients of a server, at most CONNECTING at a time between their SYN and what `busy` counts, so that no queue of
 * connections overflows: the kernel would drop a SYN then and repeat it after a second. */
static void gather(struct server *s, int clients) {
	int begun = 0;

	if ((s->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0 || !(s->clients = calloc((size_t)clients, sizeof *s->clients)))
		fail("memory");
	while (begun < clients || s->busy > 0) {
		for (; begun < clients && s->busy < CONNECTING; begun++, s->busy++) {
			struct client *c = &s->clients[begun];
			*c = (struct client){.fd = dial(s, begun, SOCK_NONBLOCK), .server = s, .turn = (unsigned)begun};
			watch(c, EPOLL_CTL_ADD, EPOLLOUT);
		}
		turn(s);
	}
}

static void say_hello(struct client *c) {
	transmit(c->fd, greeting, sizeof greeting);
	ask(c, ping, sizeof ping, 4);
}

static void said_hello(struct client *c) { c->server->busy--; }

static void gather_greeted(struct server *s) {
	connected = say_hello;
	answered = said_hello;
	gather(s, connections);
}

/* ops */

static void request(struct client *c) {
	const struct stage *stage = &doing->stage[c->step];
	int key = (int)(c->turn % KEYS);

	ask(c, stage->request[key], (size_t)stage->length[key], stage->answer);
}

static void next_request(struct client *c) {
	c->server->done++;
	if (++c->step == doing->stages) {
		c->step = 0;
		c->turn++;
		if (c->server->stop) {
			c->server->busy--;
			return;
		}
	}
	request(c);
}

static void pump(struct server *s, long ms, uint64_t most) {
	double until = now() + (double)ms / 1000;
	uint64_t end = s->done + most;

	while (most ? s->done < end : now() < until)
		turn(s);
}

/* set_going has all clients of a server do one operation over and over. */
static void set_going(struct server *s, const struct op *op) {
	doing = op;
	answered = next_request;
	s->stop = 0;
	for (s->busy = 0; s->busy < connections; s->busy++)
		request(&s->clients[s->busy]);
}

static void measure_op(struct server *s, const struct op *op) {
	set_going(s, op);
	pump(s, warm_ms, 0);
	double begin = now(), spent = cpu(s);
	uint64_t done = s->done;
	pump(s, measure_ms, (uint64_t)(count * op->stages));
	double end = now();
	printf("{\"op\":\"%s\",\"server\":%d,\"operations\":%.1f,\"seconds\":%.6f,\"cpu\":%.6f}\n", op->name, (int)(s - servers),
	       (double)(s->done - done) / op->stages, end - begin, cpu(s) - spent);
	for (s->stop = 1; s->busy > 0;)
		turn(s);
}

static void run_ops(struct server *all) {
	const struct op *wanted[16];
	int many = 0;

	for (char *name = strtok(op_names, ","); name && many < 16; name = strtok(NULL, ","))
		wanted[many++] = op_named(name);
	for (int i = 0; i < server_count; i++) {
		populate(&all[i]);
		gather_greeted(&all[i]);
	}
	for (int i = 0; i < many; i++)
		for (int round = 0; round < rounds; round++)
			for (int j = 0; j < server_count; j++)
				measure_op(&all[(j + round) % server_count], wanted[i]);
}

/* join */

enum { AT_PING, AT_ADD, AT_WAIT, AT_GET };

static char all_here[96], arrivals[96];
static int finished;
static double last_answer, longest_pause;

/* arrive follows the answer to ADD: the last to come sets the key that all wait for. */
static void arrive(struct client *c) {
	unsigned char b[512], *p = b, here[8];

	put_number(here, (uint64_t)connections);
	if (!memcmp(scratch, here, sizeof here))
		p = put_set(p, all_here, "1");
	p = put_listed(p, WAIT, all_here);
	ask(c, b, (size_t)(p - b), 1);
}

static void next_step(struct client *c) {
	unsigned char b[256], *p = b;
	double at = now();

	longest_pause = at - last_answer > longest_pause ? at - last_answer : longest_pause;
	last_answer = at;
	switch (c->step) {
	case AT_PING:
		c->server->busy--;
		p = put_number(put_text(put_byte(p, ADD), arrivals), 1);
		ask(c, b, (size_t)(p - b), 8);
		break;
	case AT_ADD:
		arrive(c);
		break;
	default:
		if (c->step - AT_WAIT == count) {
			finished++;
			return;
		}
		const struct stage *get = &ops[1].stage[0];
		int key = (int)(c->turn++ % KEYS);
		ask(c, get->request[key], (size_t)get->length[key], get->answer);
	}
	c->step++;
}

static void run_join(struct server *s) {
	count = count ? count : 100;
	populate(s);
	snprintf(all_here, sizeof all_here, "%sall", prefix);
	snprintf(arrivals, sizeof arrivals, "%sarrivals", prefix);
	connected = say_hello;
	answered = next_step;
	double begin = last_answer = now(), spent = cpu(s);
	gather(s, connections);
	while (finished < connections)
		turn(s);
	double end = now();
	printf("{\"clients\":%d,\"seconds\":%.6f,\"cpu\":%.6f,\"pause\":%.6f}\n", connections, end - begin,
	       cpu(s) - spent, longest_pause);
}

/* fanout */

/* next_of_value: the WAIT is over, then the value has come. */
static void next_of_value(struct client *c) {
	unsigned char b[256], *p = b;

	if (c->step++) {
		finished++;
		return;
	}
	p = put_text(put_byte(p, GET), all_here);
	ask(c, b, (size_t)(p - b), 8 + bytes);
}

/* send_value sets the key to a large value, over a connection that blocks. */
static void send_value(int fd) {
	unsigned char *b = malloc(bytes + 512), *p;

	if (!b)
		fail("memory");
	p = put_number(put_text(put_byte(b, SET), all_here), bytes);
	memset(p, 'v', bytes);
	for (const unsigned char *at = b, *end = p + bytes; at < end;) {
		ssize_t put = send(fd, at, (size_t)(end - at), MSG_NOSIGNAL);
		if (put < 0)
			fail("send the value");
		at += put;
	}
	free(b);
}

static void run_fanout(struct server *s) {
	unsigned char b[256], *p = b, pong[4];
	int setter = hello(s, 0);

	snprintf(all_here, sizeof all_here, "%svalue", prefix);
	gather_greeted(s);
	answered = next_of_value;
	p = put_listed(p, WAIT, all_here);
	for (int i = 0; i < connections; i++)
		ask(&s->clients[i], b, (size_t)(p - b), 1);
	transmit(setter, ping, sizeof ping);
	read_all(setter, pong, sizeof pong);
	double begin = now(), spent = cpu(s);
	send_value(setter);
	while (finished < connections)
		turn(s);
	double end = now();
	printf("{\"clients\":%d,\"bytes\":%llu,\"seconds\":%.6f,\"cpu\":%.6f}\n", connections, (unsigned long long)bytes, end - begin, cpu(s) - spent);
}

/* tail */

static volatile sig_atomic_t enough;
static void end_load(int sig) { enough = sig; }
/* keep_loading GETs until SIGTERM; what is under way then is awaited, since a server may complain of clients that leave before. */
static _Noreturn void keep_loading(struct server *s, int ready) {
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGTERM, end_load);
	gather_greeted(s);
	set_going(s, &ops[1]);
	pump(s, warm_ms, 0);
	if (write(ready, "!", 1) != 1)
		fail("report that the load is complete");
	while (s->busy > 0) {
		s->stop = enough;
		turn(s);
	}
	_exit(0);
}

/* hammer is a process of its own: what is measured must be the server's queue, not this loop's. */
static pid_t hammer(struct server *s, int *ready) {
	int ends[2];
	pid_t pid;

	if (pipe(ends) || (pid = fork()) < 0)
		fail("fork");
	if (!pid)
		keep_loading(s, ends[1]);
	close(ends[1]);
	*ready = ends[0];
	return pid;
}

static int by_size(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void run_tail(struct server *s) {
	enum { MOST = 1 << 22 };
	const struct stage *get = &ops[1].stage[0];
	double *took = malloc(MOST * sizeof *took);
	int ready, samples = 0;
	unsigned char answer[8 + VALUE];
	char go;

	populate(s);
	int fd = hello(s, 0);
	pid_t others = hammer(s, &ready);
	if (!took || read(ready, &go, 1) != 1)
		fail("the load ended");
	for (double at = now(), until = at + (double)measure_ms / 1000; at < until && samples < MOST; samples++) {
		int key = samples % KEYS;
		transmit(fd, get->request[key], (size_t)get->length[key]);
		read_all(fd, answer, sizeof answer);
		double then = now();
		took[samples] = then - at;
		at = then;
	}
	kill(others, SIGTERM);
	waitpid(others, NULL, 0);
	qsort(took, (size_t)samples, sizeof *took, by_size);
	printf("{\"clients\":%d,\"samples\":%d,\"p50\":%.6f,\"p99\":%.6f}\n", connections, samples, took[samples / 2], took[samples * 99 / 100]);
	free(took);
}

/* idle */

static void run_idle(struct server *s) {
	char b[64];

	gather_greeted(s);
	printf("{\"clients\":%d}\n", connections);
	fflush(stdout);
	while (read(STDIN_FILENO, b, sizeof b) > 0)
		;
}

/* The command line. */

static void add_server(char *spec) {
	struct server *s = &servers[server_count++];
	char *host = strdup(spec), *port, *pid;

	if (server_count > SERVERS || !host || !(port = strchr(host, ':')))
		misused("-s wants HOST:PORT or HOST:PORT:PID");
	*port++ = 0;
	pid = strchr(port, ':');
	*s = (struct server){.at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))}, .name = spec};
	if (!inet_aton(host, &s->at.sin_addr))
		misused("-s: the host must be an IPv4 address");
	if (pid && (errno = clock_getcpuclockid(atoi(pid + 1), &s->clock)))
		fail("the CPU clock of process %s", pid + 1);
	s->has_clock = pid != NULL;
	free(host);
}

static long positive(const char *text) {
	char *end;
	long n = strtol(text, &end, 10);

	if (n <= 0 || *end)
		misused("an option wants a positive number");
	return n;
}

static void options(int argc, char **argv) {
	for (int option; (option = getopt(argc, argv, "s:c:o:r:t:w:n:b:")) != -1;) {
		switch (option) {
		case 's': add_server(optarg); break;
		case 'c': connections = (int)positive(optarg); break;
		case 'o': op_names = optarg; break;
		case 'r': rounds = (int)positive(optarg); break;
		case 't': measure_ms = positive(optarg); break;
		case 'w': warm_ms = positive(optarg); break;
		case 'n': count = positive(optarg); break;
		case 'b': bytes = (uint64_t)positive(optarg); break;
		default: misused("no such option, or no such value");
		}
	}
	if (optind < argc || !server_count)
		misused("-s names the server, and every other word is an option");
}

int main(int argc, char **argv) {
	static const struct { const char *name; void (*run)(struct server *); } modes[] = {
		{"ops", run_ops}, {"join", run_join}, {"fanout", run_fanout}, {"tail", run_tail}, {"idle", run_idle},
	};
	struct rlimit files;

	if (argc < 2)
		misused("no mode");
	mode = argv[1];
	options(argc - 1, argv + 1);
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	snprintf(prefix, sizeof prefix, "/storeload/%d/%.6f/", (int)getpid(), now());
	build_ops();
	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
		if (strcmp(mode, modes[i].name))
			continue;
		modes[i].run(servers);
		return fflush(stdout) ? 1 : 0;
	}
	misused("the mode is ops, join, fanout, tail or idle");
}
