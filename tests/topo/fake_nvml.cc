// SPDX-License-Identifier: BSD-3-Clause
// A management library of two GPUs that are linked by NVLink: what NVML's functions return, with the layouts of its
// documentation. Built as a module that the test opens in place of the driver's. FAKE_NVML_SPEED in the environment
// says in which way it knows how fast a link is, as drivers differ in that: "link", "number", "common", "version",
// "wrong-version" or "nothing".
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct pci_info {
  char legacy_address[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char address[32];
};
struct bar1_memory {
  unsigned long long total, free, used;
};

struct field_value {
  unsigned field, scope;
  long long timestamp, latency;
  int type, status;
  union {
    double real;
    unsigned number;
    unsigned long long long_number;
  } value;
};

char devices[2];
constexpr int success = 0, invalid = 2, not_supported = 3;

bool speed_is(const char* way) {
  const char* wanted = std::getenv("FAKE_NVML_SPEED");
  return std::strcmp(wanted ? wanted : "version", way) == 0;
}

// NVML's order is the opposite of that of the addresses here.
long index_of(const void* device) { return static_cast<const char*>(device) - devices; }

void put_address(pci_info* out, long index) {
  std::memset(out, 0, sizeof *out);
  std::snprintf(out->address, sizeof out->address, "00000000:%02X:00.0", index == 0 ? 0x24 : 0x23);
}

}  // namespace

#define EXPORTED extern "C" [[gnu::visibility("default")]]

EXPORTED int nvmlInit_v2() { return success; }
EXPORTED int nvmlShutdown() { return success; }
EXPORTED int nvmlSystemGetDriverVersion(char* out, unsigned size) {
  std::snprintf(out, size, "999.1");
  return success;
}
EXPORTED int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return success;
}
EXPORTED int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** out) {
  *out = &devices[index];
  return index < 2 ? success : invalid;
}
EXPORTED int nvmlDeviceGetPciInfo_v3(void* device, pci_info* out) {
  put_address(out, index_of(device));
  return success;
}
EXPORTED int nvmlDeviceGetUUID(void* device, char* out, unsigned size) {
  std::snprintf(out, size, "GPU-%ld", index_of(device));
  return success;
}
EXPORTED int nvmlDeviceGetName(void*, char* out, unsigned size) {
  std::snprintf(out, size, "Fake GPU");
  return success;
}
EXPORTED int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = speed_is("nothing") ? 5 : 9;
  *minor = 0;
  return success;
}
EXPORTED int nvmlDeviceGetBAR1MemoryInfo(void*, bar1_memory* out) {
  *out = {1ull << 37, 0, 1ull << 37};
  return success;
}
EXPORTED int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  *current = *pending = index_of(device) == 0;
  return success;
}
EXPORTED int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void*) {
  *count = 3;
  return 7;  // the room given is too small
}
EXPORTED int nvmlDeviceGetNvLinkState(void*, unsigned link, unsigned* active) {
  *active = link != 1;  // one of five is down
  return link < 5 ? success : invalid;
}
EXPORTED int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned, pci_info* out) {
  put_address(out, 1 - index_of(device));
  return success;
}
EXPORTED int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int* out) {
  *out = 0;
  return success;
}
EXPORTED int nvmlDeviceGetNvLinkVersion(void*, unsigned, unsigned* out) {
  *out = speed_is("wrong-version") ? 7 : 6;
  return speed_is("nothing") ? not_supported : success;
}
EXPORTED int nvmlDeviceGetFieldValues(void*, int count, field_value* values) {
  for (int i = 0; i < count; ++i) {
    field_value& v = values[i];
    v.status = success;
    v.type = 1;
    if (speed_is("link") && v.field == 164)
      v.value.number = v.scope == 3 ? 19'000 : 26'562;
    else if (speed_is("number") && v.field >= 84 && v.field < 90)
      v.value.number = 25'781;
    else if (speed_is("common") && v.field == 90)
      v.type = 0, v.value.real = 53'125;
    else
      v.status = not_supported, v.value.number = 12'345;
  }
  return success;
}
EXPORTED int nvmlDeviceGetP2PStatus(void* from, void*, int capability, int* out) {
  *out = index_of(from) == 1 && capability == 1 ? 4 : 0;  // GPU 1 may read but not write
  return success;
}
