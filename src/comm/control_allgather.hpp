// SPDX-License-Identifier: BSD-3-Clause
//
// An allgather between ranks that already have a communicator, over a few pages of the workspaces that all of them
// have mapped: for deriving communicators, when the allgather of initialisation may no longer exist. Not fast, but
// with all that a collective's wait has: deadline, abort, death and departure of a peer.
//
// Every rank has a board, which it alone writes, with two slots. An exchange number n is written to slot n % 2 and
// then announced; whoever announces n + 1 has read everybody's n, so that n + 2 overwrites nothing that is still to
// be read. Exchanges of all ranks and exchanges of a part of them (one colour of a split) have slots of their own:
// parts exchange between two exchanges of all, and number theirs from where that left off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "exec/host_wait.hpp"
#include "os/interruption.hpp"
#include "proto/layout.hpp"

namespace xyl {

struct control_board {
  static constexpr std::size_t slot_bytes = 1024;
  struct slot {
    alignas(128) std::uint64_t number;  // of the exchange that `data` belongs to; 0: none yet
    alignas(128) std::uint8_t data[slot_bytes];
  };
  slot whole[2];
  slot part[2];
  alignas(128) std::uint64_t left;  // the exchange of all after which this rank takes part in no more of parts

  // Behind the workspace proper: what a layout is extended by, and where the board then begins.
  static layout behind(layout map);
  static std::uint64_t offset_in(const layout& extended);
};

class control_allgather {
 public:
  // boards and waits: of all ranks of the communicator.
  control_allgather(std::vector<control_board*> boards, int rank, host_wait& waits)
      : boards_(std::move(boards)), rank_(rank), waits_(waits) {}

  // Collective over all ranks. `epoch`: of the communicator's last call, for give-up records.
  result of_all(const void* mine, void* all, std::size_t bytes, epoch_t epoch);

  // Collective over `members` (which hold this rank), in that order. stop may be null.
  result of_part(const std::vector<int>& members, const void* mine, void* all, std::size_t bytes, epoch_t epoch,
                 const interruption* stop);
  // This rank takes part in no further exchange of parts until the next one of all: whoever waits for it fails.
  void leave_part();

 private:
  result round(control_board::slot (control_board::*slots)[2], const std::vector<int>& members,
               std::uint64_t number, const std::uint8_t* mine, std::uint8_t* all, std::size_t bytes,
               std::size_t stride, epoch_t epoch, const interruption* stop);

  const std::vector<control_board*> boards_;
  const int rank_;
  host_wait& waits_;
  std::uint64_t whole_ = 0;  // number of the last exchange of all
  std::uint64_t part_ = 0;   // and of parts
};

}  // namespace xyl
