// What a rank learns from its waits: after how many it stops spinning where others that wait, too, get its CPU, after how many it looks again, and
// after how many it is sure then.
#include <stdio.h>

#include "../../wait.h"

static int until(struct engine *e, int spinning, long switches, uint64_t ns) {
	int waits = 0;
	while ((e->spins > 0) != spinning && waits < 1 << 20) sharing_learn(e, switches, ns), waits++;
	return waits;
}

int main(void) {
	static struct engine e;
	temper(&e, 0);
	printf("alone or beside others that compute: ");
	for (int i = 0; i < 1000; i++) sharing_learn(&e, i % 2, 3000 * 1000);
	for (int i = 0; i < 1000; i++) sharing_learn(&e, i % 2 ? 0 : 3, 30 * 1000);
	printf("%s\n", e.spins ? "spins" : "yields");
	printf("beside others that wait: %d", until(&e, 0, 3, 30 * 1000));
	printf(", %d", until(&e, 1, 0, 0));
	printf(", %d\n", until(&e, 0, 3, 30 * 1000));
	return 0;
}
