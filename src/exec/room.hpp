// SPDX-License-Identifier: BSD-3-Clause
//
// Whether what a launch writes into workspaces stays in the regions that are its own. Callers cut messages so that
// it does; one that had cut wrongly would overwrite what another rank has written, and nobody could tell from the
// results who it was. So every launch is checked, which takes a few nanoseconds, and one that does not fit is an
// internal error that says what did not fit; nothing is launched then. What is counted here is what the protocols
// write, told by their own texts, and not how callers cut.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "proto/algorithm.hpp"
#include "proto/forms.hpp"
#include "proto/fused_work.hpp"
#include "proto/layout.hpp"
#include "proto/long_swap.hpp"

namespace xyl {

// `count` elements of each rank's, for each rank that gets a part: of a chunk.
[[nodiscard]] result check_room(const layout& map, algorithm how, unsigned element_bytes, std::uint64_t count);
// The same of a two-shot in steps of so many units of each share, on so many blocks.
[[nodiscard]] result check_steps(const layout& map, algorithm how, unsigned element_bytes, std::uint64_t count,
                                 std::uint32_t step_units, unsigned blocks);
[[nodiscard]] result check_room(const layout& map, reduce_form how, unsigned element_bytes, std::uint64_t count);
// Inputs are read in place.
[[nodiscard]] result check_room(const layout& map, pull_form how, unsigned element_bytes, std::uint64_t count);
// bytes: of a piece.
[[nodiscard]] result check_room(const layout& map, move_form how, std::uint64_t bytes);
// work: of one launch, spread over blocks.
[[nodiscard]] result check_room(const layout& map, fused_form how, unsigned element_bytes, const fused_work& work);
// The transfers of one launch of so many blocks, of this rank: also that no two have the same peer and direction.
[[nodiscard]] result check_room(const layout& map, std::span<const transfer> all, unsigned blocks, int rank);
// Two ranks' long messages to each other, in one launch.
[[nodiscard]] result check_room(const layout& map, const swapped& both, int rank);
// Scaled input, in scratch memory.
[[nodiscard]] result check_scratch(const layout& map, int pieces, std::uint64_t elements, unsigned element_bytes);

}  // namespace xyl
