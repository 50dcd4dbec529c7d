// SPDX-License-Identifier: BSD-3-Clause
//
// Whether every rank of a group may read every other rank's own memory, found out by doing it: each reads the nonce
// of each peer's workspace through that peer's own address of it. All ranks come to the same verdict.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "os/process_memory.hpp"
#include "peer/peer_group.hpp"

namespace xyl {

class reading_proof {
 public:
  // Room for everything, so that a lack of memory cannot keep a rank from an exchange.
  explicit reading_proof(int ranks);

  // Collective, during initialisation.
  result attempt(const peer_group& group, process_reader read);

  bool allowed() const;
  // "rank 1 cannot read the memory of rank 0: ..."; empty if allowed.
  std::string why_not() const;
  // Of the ranks, as this one calls them.
  const std::vector<std::int64_t>& processes() const { return processes_; }

 private:
  // What kept a rank from reading a peer: errno, or other_memory. Peer -1 if nothing did.
  struct finding {
    static constexpr std::int32_t other_memory = -1;  // something was read, but not the nonce
    std::int32_t peer = 0;
    std::int32_t error = 0;
  };
  finding try_all(const peer_group& group, process_reader read) const;

  std::vector<std::int64_t> processes_;
  std::vector<std::uint64_t> addresses_;
  std::vector<finding> findings_;
};

}  // namespace xyl
