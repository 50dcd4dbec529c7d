// SPDX-License-Identifier: BSD-3-Clause
#include "topo/nvlink_rate.hpp"

#include <cmath>
#include <iterator>

namespace xyl::topo {

double nvlink_rate_of_wire(double gigabytes_per_second) {
  if (!std::isfinite(gigabytes_per_second) || gigabytes_per_second <= 0 || gigabytes_per_second > 1e3) return 0;
  constexpr double most_coding = 1 + 1.0 / 15;
  for (const double data : {20.0, 25.0, 50.0})
    if (gigabytes_per_second >= data && gigabytes_per_second <= data * most_coding) return data;
  return gigabytes_per_second;
}

double nvlink_rate_of_nvml_version(unsigned version) {
  // Versions 1.0, 2.0, 2.2, 3.0, 3.1, 4.0 and 5.0. One that is newer is left to the driver to describe.
  constexpr double rates[] = {0, 20, 25, 25, 25, 25, 25, 50};
  return version < std::size(rates) ? rates[version] : 0;
}

double nvlink_rate_of_sm(unsigned sm) {
  if (sm >= 100) return 50;
  if (sm >= 70) return 25;
  return sm >= 60 ? 20 : 0;
}

}  // namespace xyl::topo
