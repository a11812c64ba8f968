/* A stand-in for libnvidia-ml.so.1 with the declarations of nvml.h, for the calling convention: two cards. */
#include <string.h>

typedef struct card *handle;
struct card { const char *uuid; unsigned int percent; };
static struct card cards[2] = {{"GPU-first", 10}, {"GPU-second", 90}};
typedef struct { unsigned int gpu, memory; } utilization;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned int pid; unsigned long long used; unsigned int instance, compute; } process;
typedef struct { unsigned int pid; unsigned long long time; unsigned int sm, memory, encoder, decoder; } sample;

int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, handle *device) { *device = cards + index; return index > 1 ? 2 : 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, handle *device) {
    for (int i = 0; i < 2; i++)
        if (!strcmp(uuid, cards[i].uuid)) { *device = cards + i; return 0; }
    return 6;
}
int nvmlDeviceGetUUID(handle device, char *text, unsigned int size) {
    if (size < strlen(device->uuid) + 1) return 7;
    strcpy(text, device->uuid);
    return 0;
}
int nvmlDeviceGetName(handle device, char *text, unsigned int size) { return nvmlDeviceGetUUID(device, text, size); }
int nvmlDeviceGetUtilizationRates(handle device, utilization *rates) { rates->gpu = device->percent; return 0; }
int nvmlDeviceGetMemoryInfo(handle device, memory *info) {
    info->total = 85000000000ull; info->used = 1000000000ull * device->percent; return 0;
}
int nvmlDeviceGetTemperature(handle device, int sensor, unsigned int *celsius) { *celsius = device->percent - 5 + sensor; return 0; }
int nvmlDeviceGetPowerUsage(handle device, unsigned int *milliwatts) { *milliwatts = device->percent * 1000; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(handle device, unsigned int *milliwatts) { *milliwatts = 700000; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(handle device, unsigned long long *reasons) { *reasons = 1ull << 40 | 4; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(handle device, unsigned int *count, process *infos) {
    if (*count < 2) return 7;
    for (int i = 0; i < 2; i++) infos[i] = (process){device->percent + i, 5000000000ull + i, ~0u, ~0u};
    *count = 2;
    return 0;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(handle device, unsigned int *count, process *infos) { *count = 0; return 0; }
int nvmlDeviceGetProcessUtilization(handle device, sample *samples, unsigned int *count, unsigned long long since) {
    if (since < 1600000000000000ull || since > 99000000000000000ull) return 2; /* microseconds since 1970 */
    samples[0] = (sample){device->percent, since + 1, 33, 1, 2, 3};
    *count = 1;
    return 0;
}
