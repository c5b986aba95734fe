/*
 * The requests of PyTorch's TCPStore protocol that storeload sends: a byte that says which operation, then its arguments back to back;
 * keys and values are a u64 length and the bytes, all numbers little-endian. SET has no answer, so a PING follows it in the same
 * packet.
 */
#ifndef STOREWIRE_H
#define STOREWIRE_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { VALIDATE = 0, SET = 1, GET = 3, ADD = 4, CHECK = 5, WAIT = 6, MULTI_GET = 10, PING = 13 };
enum { KEYS = 100, VALUE = 64, LISTED = 4, REQUEST = 192 }; /* LISTED: the keys of a MULTI_GET */

/* stage is one request, for each key, and the length of its answer, which begins with the bytes of proof. */
struct stage {
	unsigned char request[KEYS][REQUEST];
	int length[KEYS];
	unsigned char proof[8];
	int proves;
	uint64_t answer;
};

struct op {
	const char *name;
	int stages;
	struct stage stage[2];
};

static struct op ops[6];

static unsigned char *put(unsigned char *p, const void *data, size_t n) {
	memcpy(p, data, n);
	return p + n;
}

static unsigned char *put_byte(unsigned char *p, int byte) {
	*p = (unsigned char)byte;
	return p + 1;
}

static unsigned char *put_number(unsigned char *p, uint64_t n) {
	for (int i = 0; i < 8; i++, n >>= 8)
		p = put_byte(p, (int)(n & 255));
	return p;
}

static unsigned char *put_text(unsigned char *p, const char *text) {
	size_t n = strlen(text);

	return put(put_number(p, n), text, n);
}

static unsigned char *put_set(unsigned char *p, const char *key, const char *value) {
	return put_text(put_text(put_byte(p, SET), key), value);
}

/* put_listed is CHECK or WAIT of one key. */
static unsigned char *put_listed(unsigned char *p, int op, const char *key) {
	return put_text(put_number(put_byte(p, op), 1), key);
}

static const unsigned char greeting[] = {VALIDATE, 0xCE, 0xF7, 0x85, 0x3C};
static const unsigned char ping[] = {PING, 'p', 'o', 'n', 'g'};

static const char *value_of_keys(void) {
	static char value[VALUE + 1];

	memset(value, 'v', VALUE);
	return value;
}

static void name_key(char *key, size_t size, int index) { snprintf(key, size, "/load_group/0//cpu//0/%05d", index); }

static unsigned char *put_multi_get(unsigned char *p, int first) {
	char key[64];

	p = put_number(put_byte(p, MULTI_GET), LISTED);
	for (int i = 0; i < LISTED; i++) {
		name_key(key, sizeof key, (first + i) % KEYS);
		p = put_text(p, key);
	}
	return p;
}

/* build writes the requests of one stage for all keys. */
static void build(struct stage *stage, int op) {
	for (int i = 0; i < KEYS; i++) {
		char key[64];
		unsigned char *p = stage->request[i];

		name_key(key, sizeof key, i);
		if (op == SET)
			p = put(put_set(p, key, value_of_keys()), ping, sizeof ping);
		else if (op == GET)
			p = put_text(put_byte(p, op), key);
		else if (op == MULTI_GET)
			p = put_multi_get(p, i);
		else if (op == ADD)
			p = put_number(put_text(put_byte(p, op), "/counter"), 1);
		else
			p = put_listed(p, op, key);
		stage->length[i] = (int)(p - stage->request[i]);
	}
	int values = op == GET ? 1 : op == MULTI_GET ? LISTED : 0;
	stage->answer = op == SET ? 4 : values ? (uint64_t)values * (8 + VALUE) : op == ADD ? 8 : 1;
	stage->proves = op == SET ? 4 : values ? 8 : op == ADD ? 0 : 1; /* CHECK and WAIT: a zero */
	if (op == SET)
		memcpy(stage->proof, ping + 1, 4);
	else if (values)
		put_number(stage->proof, VALUE);
}

static void build_ops(void) {
	static const struct { const char *name; int stages, op[2]; } table[] = {
		{"set", 1, {SET, 0}}, {"get", 1, {GET, 0}}, {"add", 1, {ADD, 0}}, {"check", 1, {CHECK, 0}}, {"waitget", 2, {WAIT, GET}},
		{"multiget", 1, {MULTI_GET, 0}},
	};

	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		ops[i].name = table[i].name;
		ops[i].stages = table[i].stages;
		for (int j = 0; j < table[i].stages; j++)
			build(&ops[i].stage[j], table[i].op[j]);
	}
}

#endif
