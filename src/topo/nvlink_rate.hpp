// SPDX-License-Identifier: BSD-3-Clause
// What one NVLink carries in one direction, in GB/s of data, from whatever is known of it. 0: nothing follows. The
// rates are those of NVIDIA's data sheets: 20 for NVLink 1, 25 for 2 to 4, 50 for 5.
#pragma once

namespace xyl::topo {

// NVML gives what is on the wire, 25.78 and 26.56 GB/s for what carries 25: line coding and error correction take
// up to a sixteenth. A rate of no known generation is taken as it is.
[[nodiscard]] double nvlink_rate_of_wire(double gigabytes_per_second);

// By the number that nvmlDeviceGetNvLinkVersion returns, which is not the generation's.
[[nodiscard]] double nvlink_rate_of_nvml_version(unsigned version);

// By compute capability, 10 * major + minor: the NVLink that a chip was made with.
[[nodiscard]] double nvlink_rate_of_sm(unsigned sm);

}  // namespace xyl::topo
