// SPDX-License-Identifier: BSD-3-Clause
//
// What moves where, when one launch does the work of all ranks of a communicator: the calls of all ranks in, copies
// between their buffers out. Everything is known here, so mistakes of matching are found before anything runs.
#pragma once

#include <span>
#include <vector>

#include "comm/request.hpp"
#include "proto/joint.hpp"

namespace xyl {

// The same call of every rank, in rank order: one that only moves data. What is in its place already is left out.
std::vector<joint_piece> joint_pieces_of(std::span<const request> of_rank);

// The sends and receives of every rank, in rank order. The n-th send of a rank to another is what that one's n-th
// receive from it gets. is_complete: none is without its other end, which may come later and elsewhere; else
// nothing is put out. xylInvalidUsage, naming both, if two ends differ.
result match_transfers(std::span<const std::span<const request>> of_rank, bool& is_complete,
                       std::vector<joint_piece>& out);

}  // namespace xyl
