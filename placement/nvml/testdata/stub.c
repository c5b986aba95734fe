/* What a very old or crippled libnvidia-ml.so.1 has: one GPU, its address, and nothing else. */

#include <string.h>

typedef struct {
	char bus_id_legacy[16];
	unsigned int domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
} pci_info;

int nvmlInit_v2(void) { return INIT; } /* given by the compiler's command line */
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int result) { return result == 9 ? "Driver Not Loaded" : "Something"; }

int nvmlDeviceGetCount_v2(unsigned int *count)
{
	*count = 1;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
	static int gpu;
	*device = &gpu;
	return index == 0 ? 0 : 2;
}

int nvmlDeviceGetPciInfo_v3(void *device, pci_info *info)
{
	(void)device;
	memset(info, 0, sizeof *info);
	info->bus = 0x1b;
	return 0;
}

int nvmlDeviceGetName(void *device, char *name, unsigned int length)
{
	(void)device;
	strncpy(name, "Tesla K80", length);
	return 0;
}
