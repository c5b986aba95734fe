/*
 * flood BYTES: writes that many bytes to standard output, in lines of 100 bytes and writes of 64,000.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 100, BLOCK = 640 * LINE };

int main(int argc, char **argv) {
	static char block[BLOCK];
	long left = argc > 1 ? atol(argv[1]) : 0;

	memset(block, '.', sizeof block);
	for (int end = LINE; end <= BLOCK; end += LINE)
		block[end - 1] = '\n';
	while (left > 0) {
		ssize_t put = write(STDOUT_FILENO, block, left < BLOCK ? left : BLOCK);
		if (put < 0) {
			perror("flood: write");
			return 1;
		}
		left -= put;
	}
	return 0;
}
