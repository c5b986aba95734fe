/*
 * stand: says that it is there, then waits to be killed. A rank that costs next to nothing, so that hundreds can live at once.
 */
#include <stdio.h>
#include <unistd.h>

int main(void) {
	if (puts("here") < 0 || fflush(stdout) != 0)
		return 1;
	for (;;)
		pause();
}
