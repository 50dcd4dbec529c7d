// SPDX-License-Identifier: BSD-3-Clause
//
// The library's own host space, waits and reductions as one rank of the machines that run ranks as threads.
#pragma once

#include "exec/host_fused.hpp"
#include "exec/host_packet.hpp"
#include "exec/host_space.hpp"
#include "exec/host_transfer.hpp"
#include "proto/collective_machine.hpp"
#include "proto/kind_codes.hpp"
#include "proto/two_shot.hpp"

namespace xyl::test {

// Of the ranks that are made from now on.
inline instruction_set wanted_instructions = instruction_set::automatic;

struct host_parts {
  explicit host_parts(thread_rank& owner)
      : waits(controls(owner), owner.rank, {owner.deadline.count(), 0}, nullptr, nullptr) {}
  static std::vector<control_block*> controls(thread_rank& owner) {
    std::vector<control_block*> all;
    for (std::size_t p = 0; p < owner.workspaces.size(); ++p) all.push_back(&owner.control(static_cast<int>(p)));
    return all;
  }
  host_wait waits;
};

// What communicator::all_reduce_host does with one chunk.
class host_rank : private host_parts, public host_space {
 public:
  host_rank(thread_rank& owner, unsigned, unsigned, unsigned, std::uint64_t)
      : host_parts(owner), host_space(waits, owner.control(owner.rank), stores_of(owner.rank)) {
    reach(processes, read_own);
    expect_output(owner.rank % 3 == 1 ? UINT64_MAX : 0);
  }

  template <class Kind>
  bool all_reduce(const host_call& c, protocol how) {
    const host_reduction ranged = this->ranged<Kind>(c.ranks);
    switch (how) {
      case protocol::packet:
      case protocol::two_shot_packet:
      case protocol::grouped_two_shot:  // one lane is no group
        return host_packet(*this, c, how != protocol::packet, codes_of<Kind>().type, codes_of<Kind>().operation,
                           ranged.divisor);
      case protocol::one_shot:
      case protocol::line_packet:
      case protocol::wide_packet:  // not between processors, see selection::choose
        return one_shot_allreduce(*this, c, ranged);
      case protocol::two_shot:
        return two_shot_allreduce(*this, c, ranged);
      case protocol::ring:
        return ring_allreduce(*this, c, ranged);
      case protocol::barrier:
        return xyl::barrier(*this, c);
    }
    return false;
  }

  // What communicator::fused_host does with one launch.
  template <class T, class Inputs>
  bool fused(const host_call& c, const fused_work& w, const Inputs& inputs, fused_form form) {
    const int type = std::is_same_v<T, float> ? xylFloat32 : std::is_same_v<T, float16> ? xylFloat16 : xylBfloat16;
    return host_fused(*this, c, w, form, inputs.of, type, choose_host_rows(wanted_instructions));
  }

  template <class Kind>
  host_reduction ranged(int ranks) const {
    constexpr int type = element_types::index_of(codes_of<Kind>().type);
    constexpr int op = reduction_operations::index_of(codes_of<Kind>().operation);
    return {sizeof(typename Kind::element), choose_host_reductions(wanted_instructions).function[type][op],
            Kind::average ? static_cast<std::uint32_t>(ranks) : 1u};
  }

  // As a group does it.
  bool transfer_all(const host_call& c, const std::vector<host_transfer>& all) {
    call_record current = c.record;
    return transfers_.run(*this, waits, c, all, current);
  }
  bool transfer_both(const host_call& c, const transfer& out, const transfer& in) {
    return transfer_all(c, {{out, c.record}, {in, c.record}});
  }

 private:
  // Both kinds of stores meet in every test of several ranks.
  static store_choice stores_of(int rank) {
    return rank % 2 == 0 ? store_choice() : store_choice::streaming_for(UINT64_MAX);
  }

  host_transfers transfers_;
  // All ranks are this process; in small steps, and as ThreadSanitizer can see it.
  static inline const std::vector<std::int64_t> processes = std::vector<std::int64_t>(machine_capacity);
  static ssize_t read_own(std::int64_t, void* to, std::uint64_t address, std::size_t bytes) {
    const std::size_t step = std::min<std::size_t>(bytes, 1000);
    std::memcpy(to, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(address)), step);
    return static_cast<ssize_t>(step);
  }
};

}  // namespace xyl::test
