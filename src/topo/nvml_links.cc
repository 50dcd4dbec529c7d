// SPDX-License-Identifier: BSD-3-Clause
// Drivers say how fast a link is in one of four ways, or in none: a field of the link (Hopper and later), a field
// with the link in its number (the first twelve links of older GPUs), a field common to all links, and the version
// of the link. The first three are a statement of the driver about this machine, the last one is looked up in a
// table, and trusted less.
#include "topo/nvml_links.hpp"

#include <algorithm>

#include "topo/nvlink_rate.hpp"

namespace xyl::topo {
namespace {

using namespace nvml_api;

constexpr unsigned most_links = 36;
constexpr int remote_gpu = 0, remote_switch = 2;

// MB/s.
constexpr unsigned field_speed_of_first = 84, field_speed_of_seventh = 132;  // six links each
constexpr unsigned field_speed_common = 90;
constexpr unsigned field_speed = 164;  // of the link in scope

enum value_type : int { as_double, as_unsigned, as_unsigned_long, as_unsigned_long_long };

struct field_value {
  unsigned field;
  unsigned scope;
  long long timestamp, latency;
  int type;
  int status;
  union {
    double real;
    unsigned number;
    unsigned long long long_number;
  } value;
};
static_assert(sizeof(field_value) == 40);

double rate_of_field(const library& nvml, device_handle device, unsigned field, unsigned scope) {
  field_value one{};
  one.field = field;
  one.scope = scope;
  if (nvml.call<int(device_handle, int, field_value*)>("nvmlDeviceGetFieldValues", device, 1, &one) != success ||
      one.status != success)
    return 0;
  const double megabytes = one.type == as_double     ? one.value.real
                           : one.type == as_unsigned ? static_cast<double>(one.value.number)
                           : one.type == as_unsigned_long || one.type == as_unsigned_long_long
                               ? static_cast<double>(one.value.long_number)
                               : 0;
  return nvlink_rate_of_wire(megabytes / 1000);
}

figure rate_of_link(const library& nvml, device_handle device, unsigned link, unsigned sm) {
  double rate = rate_of_field(nvml, device, field_speed, link);
  if (rate == 0 && link < 6) rate = rate_of_field(nvml, device, field_speed_of_first + link, 0);
  if (rate == 0 && link >= 6 && link < 12) rate = rate_of_field(nvml, device, field_speed_of_seventh + link - 6, 0);
  if (rate == 0) rate = rate_of_field(nvml, device, field_speed_common, 0);
  if (rate > 0) return {rate, source::nominal, confidence::medium};
  // Some drivers name a version that the chip cannot have.
  const double of_chip = nvlink_rate_of_sm(sm);
  unsigned version = 0;
  if (nvml.call<int(device_handle, unsigned, unsigned*)>("nvmlDeviceGetNvLinkVersion", device, link, &version) ==
      success)
    rate = nvlink_rate_of_nvml_version(version);
  if (rate == 0 || (of_chip > 0 && of_chip < rate)) rate = of_chip;
  return rate > 0 ? figure{rate, source::nominal, confidence::low} : figure{};
}

}  // namespace

std::vector<nvml_link> read_nvlinks(const library& nvml, device_handle device, unsigned sm) {
  std::vector<nvml_link> links;
  for (unsigned link = 0; link < most_links; ++link) {
    unsigned active = 0;
    if (nvml.call<int(device_handle, unsigned, unsigned*)>("nvmlDeviceGetNvLinkState", device, link, &active) !=
        success)
      break;
    if (!active) continue;
    nvml_link found;
    int remote = -1;
    pci_info info{};
    if (nvml.call<int(device_handle, unsigned, pci_info*)>("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, link,
                                                           &info) == success)
      found.peer = address_of(info);
    if (nvml.call<int(device_handle, unsigned, int*)>("nvmlDeviceGetNvLinkRemoteDeviceType", device, link,
                                                      &remote) == success)
      found.what = remote == remote_gpu      ? nvml_link::end::gpu
                   : remote == remote_switch ? nvml_link::end::nv_switch
                                             : nvml_link::end::other;
    found.rate = rate_of_link(nvml, device, link, sm);
    links.push_back(found);
  }
  return links;
}

}  // namespace xyl::topo
