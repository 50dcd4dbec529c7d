// SPDX-License-Identifier: BSD-3-Clause
//
// What is measured of links between the helpers of a probe, whatever kind of memory they lend each other. The
// contract: no call lasts much longer than it is told to; what does not come back is `silent` and ends the
// usefulness of the object, which is said by an error of the call. Peers are rank numbers that were opened.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "topo/probe_messages.hpp"

namespace xyl::probe {

using verdicts = std::span<topo::probe_verdict, topo::probe_most_ranks>;

class link {
 public:
  virtual ~link() = default;

  // Makes the memory that others reach, with this rank's own pattern in it.
  virtual result create(const topo::probe_setup& about, topo::probe_handle& mine) = 0;
  virtual result open(int peer, const topo::probe_handle& theirs) = 0;

  // Patterns into the memory of these peers; what they have written here; what is read of them. A verdict is set
  // for each of them, also beside an error.
  virtual result write(std::span<const int> peers, verdicts out) = 0;
  virtual result verify(std::span<const int> peers, verdicts out) = 0;
  virtual result read(std::span<const int> peers, verdicts out) = 0;

  // GB/s.
  virtual result stream(int peer, bool pull, std::uint32_t duration_us, double& rate) = 0;
  // Host memory: GB/s of this rank's stores to memory of the peer, or of its loads from there (takes), while the
  // peer reads, or writes, the same in turn. `step` as for flags. Of the peer's side, not is_first, the rate is 0.
  virtual result hand_over(int peer, bool takes, bool is_first, std::uint32_t step, double& rate);
  // Microseconds one way; `step` is larger in every call.
  virtual result flags(int peer, bool is_first, std::uint32_t step, double& one_way_us) = 0;
  // GB/s to or from host memory of a NUMA node.
  virtual result host_stream(std::uint32_t node, bool read, std::uint32_t duration_us, double& rate) = 0;
};

// src/probe/host_link.cc; src/probe/cuda_link.cc, or an error that says why there is none.
std::unique_ptr<link> make_host_link();
result make_device_link(std::unique_ptr<link>& out);

}  // namespace xyl::probe
