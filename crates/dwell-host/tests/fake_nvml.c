// The part of NVIDIA's library that the meters of energy use, with two GPUs: the first has a counter, the second only its power.
#include <stddef.h>

typedef int Result;
enum { SUCCESS = 0, NOT_SUPPORTED = 3 };

static int gpus[2];
static int readings;

Result nvmlInit_v2(void) { return SUCCESS; }
Result nvmlInitWithFlags(unsigned flags) { (void)flags; return SUCCESS; }
Result nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(Result result) { (void)result; return "no"; }
Result nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return SUCCESS; }

Result nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = &gpus[index];
    return SUCCESS;
}

// 7,000 J before the first reading, 1.5 J between two.
Result nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
    if (device != &gpus[0]) return NOT_SUPPORTED;
    *millijoules = 7000000ULL + 1500ULL * readings++;
    return SUCCESS;
}

Result nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    *milliwatts = device == &gpus[0] ? 111000 : 250500;
    return SUCCESS;
}
