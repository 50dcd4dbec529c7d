// SPDX-License-Identifier: BSD-3-Clause
// The NVLinks of one GPU as NVML knows them.
#pragma once

#include <vector>

#include "topo/nvml.hpp"
#include "topo/nvml_library.hpp"

namespace xyl::topo {

// Those that are up. sm: the GPU's compute capability, 0 if unknown.
[[nodiscard]] std::vector<nvml_link> read_nvlinks(const nvml_api::library& nvml, nvml_api::device_handle device,
                                                  unsigned sm);

}  // namespace xyl::topo
