// SPDX-License-Identifier: BSD-3-Clause
#include "comm/transfer_shape.hpp"

#include <algorithm>

namespace xyl {

namespace {

// Bytes of a message that make one more block worth while.
constexpr std::uint64_t short_bytes_of_block = 8 << 10, long_bytes_of_block = 16 << 10;
// Of a chunk of a long message: from 64 bytes for each lane, whose loads are on their way together, to what hides
// that a block waits for its flags (about 4 us a chunk), as long as there are enough chunks for both ends to work at
// the same time. Measured: 64M between two H200s 218 us with 28 KB, 200 with 56 KB.
constexpr std::uint64_t least_slot_bytes = 448 * 64, most_slot_bytes = 4 * least_slot_bytes, chunks_of_block = 8;

std::uint64_t slot_bytes_for(std::uint64_t bytes, std::uint64_t blocks, const layout& map) {
  const std::uint64_t wanted = bytes / blocks / chunks_of_block / 128 * 128;
  return std::min(map.long_slot_room(static_cast<unsigned>(blocks)),
                  std::clamp(wanted, least_slot_bytes, most_slot_bytes));
}

std::uint64_t blocks_for(std::uint64_t bytes, std::uint64_t each, std::uint64_t most) {
  return std::clamp<std::uint64_t>((bytes + each - 1) / each, 1, most);
}

}  // namespace

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
