// SPDX-License-Identifier: BSD-3-Clause
#include "comm/transfer_shape.hpp"

#include <algorithm>

#include "proto/flagged.hpp"

namespace xyl {

namespace {

// Bytes of a message that make one more block worth while.
constexpr std::uint64_t short_bytes_of_block = 8 << 10, long_bytes_of_block = 16 << 10;
// Of a chunk of a long message: from 64 bytes for each lane, whose loads are on their way together, to what hides
// that a block waits for its flags (about 4 us a chunk), as long as there are enough chunks for both ends to work at
// the same time. Measured: 64M between two H200s 218 us with 28 KB, 200 with 56 KB.
constexpr std::uint64_t least_slot_bytes = 448 * 64, most_slot_bytes = 4 * least_slot_bytes, chunks_of_block = 8;

std::uint64_t slot_bytes_for(std::uint64_t bytes, std::uint64_t blocks, const layout& map) {
  const std::uint64_t wanted = std::clamp(bytes / blocks / chunks_of_block, least_slot_bytes, most_slot_bytes);
  const std::uint64_t most = std::min(map.long_slot_room(static_cast<unsigned>(blocks)), wanted);
  return most < least_slot_bytes ? most : most / least_slot_bytes * least_slot_bytes;
}

std::uint64_t blocks_for(std::uint64_t bytes, std::uint64_t each, std::uint64_t most) {
  return std::clamp<std::uint64_t>((bytes + each - 1) / each, 1, most);
}

// Units of a step, whole batches of the kernels' lanes. More would want a larger workspace; fewer meet more often.
// 64M in steps of 768 / 1152 / 1280 / 1536 / 1920 units: 2 ranks - / - / 142 / - / 155 us; of 4 and 8 ranks, with a
// fifth more lanes, 281 / 282 / - / 272 / 307 and 640 / 666 / - / 661 / 641.
constexpr std::uint64_t step_units(std::uint32_t ranks) { return ranks <= 4 ? 1280 : 1920; }
// The fewest, of which most_stepped_bytes are not too many steps.
constexpr std::uint64_t least_step_units = 128;
static_assert(most_stepped_bytes / 16 / 2 / least_step_units < most_steps);

// Units of a step that there is room for.
std::uint64_t step_room(const layout& map, unsigned blocks) {
  return map.bulk_stride / (std::uint64_t{2} * layout::step_places * blocks * 16);
}

}  // namespace

bool can_step(const layout& map) {
  return map.ranks > 1 && map.blocks > 1 && step_room(map, map.blocks) >= least_step_units;
}

std::uint32_t two_shot_step(std::uint64_t bytes, const layout& map, unsigned blocks) {
  if (!can_step(map)) return 0;
  const std::uint64_t step = std::min(step_units(map.ranks), step_room(map, blocks) / 8 * 8);
  return bytes <= step * 16 * blocks * map.ranks ? 0 : static_cast<std::uint32_t>(step);
}

transfer_shape shape_of_transfer(std::uint64_t bytes, const layout& map, unsigned max_blocks) {
  const std::uint64_t all = std::clamp<std::uint64_t>(max_blocks, 1, map.blocks);
  transfer_shape shape;
  if (map.ranks < 2) return shape;
  // Through the rings: a block for each peer and direction, or more. What half of a ring holds waits for nobody.
  const std::uint64_t with_everybody = std::clamp<std::uint64_t>(all / (2 * (map.ranks - 1)), 1, map.pair_blocks);
  shape.blocks = static_cast<std::uint16_t>(blocks_for(bytes, short_bytes_of_block, with_everybody));
  if (bytes <= with_everybody * map.pair_slots / 2 * map.pair_chunk) return shape;
  const std::uint64_t blocks = blocks_for(bytes, long_bytes_of_block, std::max<std::uint64_t>(all / 2, 1));
  const std::uint64_t room = slot_bytes_for(bytes, blocks, map);
  if (room == 0) return shape;
  shape.blocks = static_cast<std::uint16_t>(blocks);
  shape.slot_bytes = static_cast<std::uint32_t>(room);
  return shape;
}

transfer_shape shape_of_swap(std::uint64_t bytes, const layout& map, unsigned max_blocks) {
  const std::uint64_t all = std::clamp<std::uint64_t>(max_blocks, 1, map.blocks);
  transfer_shape shape;
  shape.blocks = static_cast<std::uint16_t>(blocks_for(bytes, long_bytes_of_block, all));
  shape.slot_bytes = static_cast<std::uint32_t>(slot_bytes_for(bytes, shape.blocks, map));
  return shape;
}

}  // namespace xyl
