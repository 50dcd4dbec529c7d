// SPDX-License-Identifier: BSD-3-Clause
//
// A group in which one thread drives all ranks of a communicator, all on one GPU. What they have to do there is
// done by launches for all of them, on one stream that the others are joined to by events: nothing on the device
// waits for anything else, so no queue of it, and no kernel as large as it, can be in the way. Where not all ranks
// are in the group, or not on one GPU, or where their calls do not fit together, each rank has launches of its own.
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.hpp"

namespace xyl {

// What one rank has recorded for its device.
struct joint_part {
  communicator* rank = nullptr;
  std::vector<request> calls;
  std::vector<request> transfers;
};

class joint_group {
 public:
  // What the ranks of one communicator that could work jointly have in common; null: this one's cannot.
  static const void* common_to(const communicator& rank);

  // parts: of ranks that have that in common, in any order.
  explicit joint_group(std::vector<joint_part> parts);

  // Whether these are all ranks, and what they have recorded can be done jointly.
  bool is_whole() const { return is_whole_; }
  // Enqueues all of it, or, after an error, nothing or only a part.
  result run();

 private:
  struct resolved;

  bool fits() const;
  static bool fits(const communicator& rank, const fused_request& r);
  result resolve(std::size_t call, resolved& out) const;
  result check_alike(const resolved& call) const;
  result enqueue(const resolved& call);
  result reduce(const resolved& call);
  result fused(const resolved& call);
  result move(const resolved& call);
  result join_streams(bool before);

  std::vector<joint_part> parts_;  // by rank
  bool is_whole_ = false;
  xylStream_t carrier_ = nullptr;
  std::vector<xylStream_t> others_;
};

}  // namespace xyl
