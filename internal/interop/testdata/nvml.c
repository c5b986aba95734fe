/*
 * A libnvidia-ml.so.1 that serves four GPUs at 0000:01:00.0 to 0000:04:00.0, linked through NVSwitch. INTEROP_NVML says how it
 * fails: "nodriver", "lost" (GPU 2, in the middle), "crash", "hang" (which it says on the pipe INTEROP_PIPE). INTEROP_BUSY has the
 * numbers of the GPUs that a process uses, INTEROP_MIG of those that are divided into two parts.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15 };
enum { GPUS = 4, LINKS = 18, SWITCH = 2 };

typedef struct {
	char bus_id_legacy[16];
	unsigned int domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
} pci_info;

typedef struct {
	unsigned long long total, free, used;
} memory;

typedef struct {
	unsigned int pid;
	unsigned long long used;
} process;

typedef struct {
	unsigned int number;
	int part; /* 0: the whole GPU */
} gpu;

static gpu gpus[GPUS], parts[GPUS][2];

static int is(const char *how)
{
	const char *value = getenv("INTEROP_NVML");
	return value && strcmp(value, how) == 0;
}

static int listed(const char *variable, const gpu *g)
{
	const char *value = getenv(variable);
	return value && strchr(value, (int)('0' + g->number)) != NULL;
}

static void hang(void)
{
	const char *path = getenv("INTEROP_PIPE");
	FILE *pipe = path ? fopen(path, "w") : NULL;
	if (pipe) {
		fprintf(pipe, "%d\n", (int)getpid());
		fclose(pipe);
	}
	for (;;)
		pause();
}

int nvmlInit_v2(void)
{
	for (unsigned int i = 0; i < GPUS; i++) {
		gpus[i].number = parts[i][0].number = parts[i][1].number = i;
		parts[i][0].part = 1;
		parts[i][1].part = 2;
	}
	return is("nodriver") ? DRIVER_NOT_LOADED : OK;
}

int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int result) { return result == GPU_IS_LOST ? "GPU is lost" : "Driver Not Loaded"; }

int nvmlDeviceGetCount_v2(unsigned int *count)
{
	*count = GPUS;
	return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, gpu **g)
{
	if (index >= GPUS)
		return INVALID_ARGUMENT;
	*g = &gpus[index];
	return OK;
}

int nvmlDeviceGetPciInfo_v3(gpu *g, pci_info *info)
{
	memset(info, 0, sizeof *info);
	info->bus = g->number + 1;
	return OK;
}

int nvmlDeviceGetUUID(gpu *g, char *uuid, unsigned int length)
{
	if (g->part)
		snprintf(uuid, length, "MIG-%u.%d", g->number, g->part);
	else
		snprintf(uuid, length, "GPU-%u", g->number);
	return OK;
}

int nvmlDeviceGetName(gpu *g, char *name, unsigned int length)
{
	if (is("crash") && g->number == 2)
		raise(SIGSEGV);
	if (is("hang") && g->number == 2)
		hang();
	snprintf(name, length, "NVIDIA Fake %u", g->number);
	return OK;
}

int nvmlDeviceGetMemoryInfo(gpu *g, memory *m)
{
	if (is("lost") && g->number == 2)
		return GPU_IS_LOST;
	m->total = 80ULL << 30;
	return OK;
}

int nvmlDeviceGetMigMode(gpu *g, unsigned int *current, unsigned int *pending)
{
	*current = *pending = (unsigned int)listed("INTEROP_MIG", g);
	return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(gpu *g, unsigned int *count)
{
	(void)g;
	*count = 7;
	return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(gpu *g, unsigned int index, gpu **part)
{
	if (index >= 2)
		return NOT_FOUND;
	*part = &parts[g->number][index];
	return OK;
}

int nvmlDeviceGetComputeRunningProcesses(gpu *g, unsigned int *count, process *list)
{
	if (listed("INTEROP_BUSY", g) && *count > 0) {
		*count = 1;
		list[0].pid = 1;
		list[0].used = 1 << 20;
	} else {
		*count = 0;
	}
	return OK;
}

int nvmlDeviceGetNvLinkState(gpu *g, unsigned int link, unsigned int *up)
{
	(void)g;
	*up = 1;
	return link < LINKS ? OK : INVALID_ARGUMENT;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(gpu *g, unsigned int link, unsigned int *type)
{
	(void)g;
	(void)link;
	*type = SWITCH;
	return OK;
}
