// SPDX-License-Identifier: BSD-3-Clause
// What the cost model takes for granted where neither the graph nor a probe says better. Each has a physical reason
// or was seen on more than one machine; none makes a single published point come out.
#pragma once

namespace xyl::topo {

struct cost_constants {
  // An empty kernel in a CUDA graph takes 0.58 us alone and 0.8 us when ranks share the device.
  double launch_us = 0.8;
  // A block-wide barrier, and issuing the flags, once a round.
  double sync_us = 0.2;
  // A copy of a copy engine between two one-block kernels, beside the flag's own time.
  double copy_engine_step_us = 3.0;

  // One way of a flag, by class of path: between GPUs of one switch, of several, below one root complex, across
  // root complexes, across sockets; NVLink; the same GPU; through host memory.
  double flag_same_gpu_us = 0.75;
  double flag_nvlink_us = 1.3;
  double flag_one_switch_us = 0.68;
  double flag_switches_us = 0.72;
  double flag_root_complex_us = 1.07;
  double flag_sockets_us = 1.3;
  double flag_host_us = 1.9;

  // Share of a nominal capacity that payload gets. PCIe: a store of a warp travels as packets of 128 bytes with
  // about 24 of header and framing, a copy engine's as packets of 256. NVLink and what is inside a processor: by
  // what peers' tables and public measurements agree on, about four fifths.
  double pcie_store_share = 128.0 / (128 + 24);
  double pcie_copy_engine_share = 256.0 / (256 + 28);
  double nvlink_share = 0.8;
  double socket_share = 0.8;

  // GB/s that ranks on one GPU pass through its memory, and what a link of which nothing is known is taken for: a
  // Gen4 x16 link.
  double same_gpu_capacity = 800;
  double unknown_capacity = 26;

  // Pipelined trees and chains: in how many parts a message is cut.
  double pipeline_parts = 16;
};

}  // namespace xyl::topo
