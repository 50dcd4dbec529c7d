// SPDX-License-Identifier: BSD-3-Clause
//
// The workspace: one allocation per rank, the same layout on all ranks, written by the peers and read by its owner
// (and, in the error path, read by the peers). Words used everywhere:
//
//   slot    one of two halves of the data areas, used by calls of even and of odd epochs in turn. Two suffice:
//           every call waits for every peer's header, so who is in call e+2 knows that all have finished call e.
//   source  the rank that writes; every (slot, source) is its own region, so a region has one writer.
//   line    16 bytes: two words of {4 bytes of data, 4 bytes of epoch}, each written in one atomic store.
//   header  the first line of a packet region; its payload is the call's fingerprint.
//   unit    what one lane moves at once: 8 bytes of payload in a packet, 16 bytes of bulk data.
//   pack    two lines of 128 bytes ("LL128"), each 120 bytes of data and an epoch: 15 units. See wide_pack.
//   sheet   lines of 16 bytes ("LL16"), each 12 bytes of data and an epoch, that the lanes of a warp move together:
//           96 units. See line_packet.hpp. A communicator has packs or sheets, in the same memory.
//   flag    a 64-bit epoch alone in 128 bytes, with one writer, never reset.
//   pair    a sender and a receiver. Only the two of them call, so they do not use epochs: each block numbers its
//           chunks from 1, on both sides alike, and has a ring of slots of its own at the receiver.
//
//   team line  where blocks of one rank that share a row meet (see row.hpp); only where there are several blocks.
//
//   [control][flags: family x source x block][pair counters][packets: slot x source][packs: slot x source]
//   [bulk: slot x source][messages: source x block x slot of the pair][team lines: slot][self-tests]
//   [copies: one of eight slots x source][one-way rings: source x slot of the ring][their counters]
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/function.hpp"
#include "proto/epoch.hpp"
#include "proto/poison.hpp"
#include "xylem/xylem.h"

namespace xyl {

struct alignas(16) line {
  std::uint64_t word[2];
};

struct alignas(128) flag {
  epoch_t epoch;
};

// Stored whole, by lanes together; the last word is a number that says that it has come.
struct alignas(128) wide_line {
  std::uint64_t word[16];
};

// Units 0 to 6 and 8 to 14 are whole in the first and in the second line; the halves of unit 7 share a word each
// with the numbers. Memory of packs is never anything else's: at the numbers' places there have only been epochs,
// so that nothing stale looks like one.
struct wide_pack {
  static constexpr unsigned units = 15;
  wide_line line[2];

  // The words of a unit that is not split, and of the one that is.
  static constexpr unsigned split_unit = 7, split_word = 14, number_word = 15;
  static XYL_FN constexpr unsigned line_of(unsigned unit) { return unit / 8; }
  static XYL_FN constexpr unsigned word_of(unsigned unit) { return 2 * (unit % 8); }
};

// Of a whole warp; at an epoch's place in the lines there have only been epochs, too.
struct line_sheet {
  static constexpr unsigned units = 96, bytes = 2048;
};

// Flags are never shared between protocols or between phases of one: each family has one flag per (source, block),
// but ring has one per (step, block), written by the previous rank of the ring.
enum class flag_family : int {
  one_shot,
  scatter,
  gather,
  exchange,        // of exchange()
  spread,          // of spread_broadcast(): from the root,
  forward,         // and onwards
  direct_reduce,   // of direct_reduce()
  reduce_scatter,  // of two_phase_reduce(): to the owners of shares,
  reduce_gather,   // and to the root
  message,         // of pairs, in numbers of chunks: written by the sender,
  credit,          // and by the receiver, who has taken them out
  taken,           // of single_copy_exchange(): by who has taken what this rank offered
  pulled,          // of pull.hpp: by who is done with this rank's buffers,
  pull_gather,     // and has a share of the result,
  pull_stage,      // or, as a root, has its data where the others read it
  copied_share,    // of copied.hpp, in numbers of chunks,
  copied_result,   // and the same of results
  one_way,         // of one_way.hpp, in numbers of messages: by who has taken them out
  one_shot_step,   // of one_shot_in_steps(), in numbers of steps
  two_shot_round,  // of two_shot_in_steps(), in numbers of rounds
  header,          // no flag: room for a header of each block, see header_line()
  ring             // the last, since it takes twice the room
};

// Of the self-test of sync paths (sync_trial.hpp): the peer's first launch has begun, and its data has come.
enum class trial_flag : int { meeting, data };

// What a wait was waiting for, in messages.
enum class phase : std::uint32_t {
  none,
  header,
  packet,
  one_shot,
  scatter,
  gather,
  ring,
  exchange,
  spread,
  forward,
  contribution,
  message,
  credit,
  control,
  team,
  taking,
  taken,
  pulled
};

// Who waited for whom, in which phase, wanting what and having seen what; and what call it was. Filled by the one
// waiter that gave up first on this rank; `state` is stored last, with release order, and read first, with acquire
// order: 0 empty, 1 being filled, 2 complete.
struct give_up_record {
  std::uint32_t state;
  std::int32_t code;  // xylResult_t
  std::int32_t peer;
  phase waited_in;
  std::uint64_t wanted;
  std::uint64_t seen;
  epoch_t epoch;
  std::uint64_t call[6];  // packed call_record of the call that failed
};

// Bits of control_block.identity.life. They outlast their process, because peers keep its memory mapped.
struct life {
  static constexpr std::uint32_t departed = 1;  // has destroyed its communicator: its end is no error
  static constexpr std::uint32_t aborted = 2;   // has called abort
};

// The first bytes of a workspace. Each member starts its own 128-byte line.
struct control_block {
  struct alignas(128) {
    epoch_t epoch;           // host: of the last call
    std::uint64_t turn;      // device: stands for the epoch and says who is inside, see turn.hpp
    std::uint32_t recorder;  // device: 1 once a lane was elected to fill the give_up_record
  } call;                    // written by the owner alone
  struct alignas(128) {
    std::uint64_t word;  // see poison
  } poisoned;            // written by anyone who gives up
  struct alignas(128) {
    give_up_record record;
  } gave_up;  // written by the owner alone
  struct alignas(128) {
    std::uint8_t nonce[32];   // proves, to who reached this memory by a path, that it is the right memory
    std::uint32_t life;       // see life; tells a peer that ends on purpose from one that dies
    std::uint32_t awaited;    // host: 1 + the rank that this one waits for, for more than a moment; 0: none
    std::int64_t awaited_ns;  // and when it last looked
  } identity;                 // written by the owner alone; the nonce before the memory is shared
};

struct layout {
  // From a header to the first packet. A GPU wants packets aligned to the 128 bytes that a warp moves at once; on
  // processors what the header leaves free carries tiny messages, which come with the header's own cache line or
  // with the next ones (an allreduce of 256 bytes took 0.20 us there, 0.24 elsewhere).
  static constexpr std::uint64_t header_bytes = 512;
  // Team lines: rows of a launch, meetings of a row, groups of a row.
  static constexpr unsigned team_rows = 16, team_sets = 2, team_groups = 128;
  // See place().
  static constexpr std::uint64_t near_bytes = 2 << 10;
  // Self-tests of sync paths: what a rank notes for itself, and what a peer sends it in a round.
  static constexpr std::uint64_t trial_state_bytes = 4096, trial_data_bytes = 4096;

  std::uint32_t ranks = 0;
  std::uint32_t blocks = 0;  // the most blocks a launch may have
  // Every block has headers of its own: where all of them would look at one line on the far side of PCIe, the looks
  // at a line follow each other, some 0.6 us each.
  bool headers_by_block = false;
  std::uint64_t packet_stride = 0;  // bytes of one (slot, source) packet region, header included
  std::uint64_t bulk_stride = 0;    // bytes of one (slot, source) bulk region
  std::uint64_t spread = 0;         // see place(); 0: none
  std::uint64_t packets = 0;        // offset of the packet regions
  std::uint64_t wide_stride = 0;    // bytes of one (slot, source) region of packs; 0: there are none
  std::uint64_t wide = 0;           // offset of those regions
  std::uint64_t bulk = 0;           // offset of the bulk regions
  std::uint32_t pair_blocks = 0;    // the most blocks of a message of a pair that goes through its rings
  std::uint32_t pair_slots = 0;     // of each block's ring; a power of two, so that 32 bits of a number are enough
  std::uint64_t pair_chunk = 0;     // bytes of data in such a slot; whole units
  std::uint64_t counters = 0;       // offset of the pairs' counters
  std::uint64_t messages = 0;       // offset of the pairs' rings
  std::uint64_t team = 0;           // offset of the team lines
  std::uint64_t copy_stride = 0;    // bytes of one (slot, source) region that copy engines write; 0: there are none
  std::uint64_t copies = 0;         // offset of those regions
  std::uint32_t one_way_slots = 0;  // of each source's ring of one-way calls, a power of two; 0: there are none
  std::uint64_t one_way_stride = 0;  // bytes of such a slot
  std::uint64_t one_way = 0;         // offset of those rings
  std::uint64_t bytes = 0;           // the whole workspace

  friend constexpr bool operator==(const layout&, const layout&) = default;

  static constexpr std::uint32_t most_pair_blocks(std::uint32_t blocks) {
    return blocks < 64 ? (blocks < 16 ? blocks : 16) : blocks / 4;
  }
  // As many chunks are on their way together, of copy engines and of each block of a long message.
  static constexpr unsigned copy_slots = 8, long_slots = 4;
  // Places that steps of a two-shot take turns in, scattered and gathered: see two_shot.hpp.
  static constexpr unsigned step_places = 2;

  // packet_bytes and bulk_bytes: budgets of one slot, shared by all sources. message_bytes: the same of all pairs'
  // rings. copy_bytes: of all that copy engines write. wide_bytes: of one slot of packs.
  static constexpr layout make(std::uint32_t ranks, std::uint32_t blocks, std::uint64_t packet_bytes,
                               std::uint64_t bulk_bytes, std::uint64_t message_bytes = 0,
                               std::uint32_t pair_slots = 4, std::uint64_t copy_bytes = 0,
                               std::uint64_t wide_bytes = 0) {
    layout l;
    l.ranks = ranks;
    l.blocks = blocks;
    l.packet_stride = round_up(header_bytes + packet_bytes / ranks, 128);
    l.bulk_stride = round_up(bulk_bytes / ranks, 4096);
    l.pair_blocks = most_pair_blocks(blocks);
    l.pair_slots = pair_slots;
    const std::uint64_t ring = message_bytes / ranks / l.pair_blocks / pair_slots / 128 * 128;
    l.pair_chunk = ring < 2 * header_bytes ? header_bytes : ring - header_bytes;
    l.counters = sizeof(control_block) + sizeof(flag) * flags(ranks, blocks);
    l.packets = round_up(l.counters + 2 * sizeof(std::uint64_t) * ranks * blocks, 128);
    l.wide = round_up(l.packets + 2 * ranks * l.packet_stride, 4096);
    l.wide_stride = wide_bytes / ranks / sizeof(wide_pack) * sizeof(wide_pack);
    l.bulk = round_up(l.wide + 2 * ranks * l.wide_stride, 4096);
    l.messages = l.bulk + 2 * ranks * l.bulk_stride;
    l.team = round_up(l.messages + ranks * l.pair_blocks * pair_slots * (header_bytes + l.pair_chunk), 4096);
    l.copies = l.team + (blocks > 1 ? round_up(2 * sizeof(line) * team_rows * team_sets * team_groups, 4096) : 0);
    if (blocks > 1) l.copies += l.trial_bytes();
    l.copy_stride = copy_bytes / copy_slots / ranks / 256 * 256;
    l.bytes = round_up(l.copies + copy_slots * ranks * l.copy_stride, 4096);
    return l;
  }

  // The same with rings of one-way calls behind it. budget: bytes of all of them, if slots of header_bytes fit into
  // that; most: payload of a slot.
  constexpr layout with_one_way(std::uint32_t slots, std::uint64_t budget, std::uint64_t most) const {
    layout l = *this;
    const std::uint64_t room = budget / ranks / slots / 128 * 128,
                        wanted = round_up(one_way_data(most) + most, 128);
    l.one_way_slots = slots;
    l.one_way_stride = room < header_bytes ? header_bytes : room < wanted ? room : wanted;
    l.one_way = bytes;
    l.bytes = round_up(l.one_way_counter(ranks, true), 4096);
    return l;
  }

  // The most payload, in bytes, that a packet region carries.
  XYL_FN constexpr std::uint64_t packet_capacity() const { return (packet_stride - header_bytes) / 2; }

  static XYL_FN constexpr unsigned slot(epoch_t epoch) { return static_cast<unsigned>(epoch & 1); }

  // source is the writing rank; for the ring family it is the step, 0 .. 2 * ranks - 3.
  XYL_FN constexpr std::uint64_t flag_offset(flag_family family, unsigned source, unsigned block) const {
    return sizeof(control_block) +
           sizeof(flag) *
               ((static_cast<unsigned>(family) * static_cast<std::uint64_t>(ranks) + source) * blocks + block);
  }
  // Where a block awaits the header of a source.
  XYL_FN constexpr std::uint64_t header_line(unsigned slot, unsigned source, unsigned block) const {
    return headers_by_block ? flag_offset(flag_family::header, source, block) + sizeof(line) * (1 + slot)
                            : header_offset(slot, source);
  }
  XYL_FN constexpr std::uint64_t header_offset(unsigned slot, unsigned source) const {
    return packets + (static_cast<std::uint64_t>(slot) * ranks + source) * packet_stride;
  }
  // Room for plain data behind a header. (Never among the packets: stale data could look like a packet.)
  static XYL_FN constexpr std::uint64_t inline_bytes() { return header_bytes - sizeof(line); }
  XYL_FN constexpr std::uint64_t inline_offset(unsigned slot, unsigned source) const {
    return header_offset(slot, source) + sizeof(line);
  }
  XYL_FN constexpr std::uint64_t packet_offset(unsigned slot, unsigned source, std::uint64_t unit) const {
    return header_offset(slot, source) + header_bytes + sizeof(line) * unit;
  }
  // Where a source's packs lie, and how many there is room for. The only peer of one of two ranks has the slot to
  // itself.
  XYL_FN constexpr std::uint64_t wide_offset(unsigned slot, unsigned source, std::uint64_t pack = 0) const {
    return wide + (std::uint64_t{slot} * ranks + (ranks == 2 ? 0 : source)) * wide_stride +
           sizeof(wide_pack) * pack;
  }
  XYL_FN constexpr std::uint64_t wide_packs() const {
    return (ranks == 2 ? 2 : 1) * wide_stride / sizeof(wide_pack);
  }
  // Sheets lie there instead.
  XYL_FN constexpr std::uint64_t line_sheets() const {
    return (ranks == 2 ? 2 : 1) * wide_stride / line_sheet::bytes;
  }
  XYL_FN constexpr std::uint64_t bulk_offset(unsigned slot, unsigned source) const {
    return bulk + (static_cast<std::uint64_t>(slot) * ranks + source) * bulk_stride;
  }
  // A one-shot message of a source. The only peer of one of two ranks has the slot to itself, so that launches are
  // fewer; a processor's caches would rather have it small.
  XYL_FN constexpr std::uint64_t one_shot_offset(unsigned slot, unsigned source) const {
    return bulk_offset(slot, has_one_writer() ? 0 : source);
  }
  XYL_FN constexpr std::uint64_t one_shot_capacity() const {
    return has_one_writer() ? 2 * bulk_stride : bulk_stride;
  }
  // The number of the last chunk that this rank's block has sent to a peer, or got from it; the owner's alone.
  XYL_FN constexpr std::uint64_t sent_offset(unsigned peer, unsigned block) const {
    return counters + sizeof(std::uint64_t) * (static_cast<std::uint64_t>(peer) * blocks + block);
  }
  XYL_FN constexpr std::uint64_t received_offset(unsigned peer, unsigned block) const {
    return sent_offset(ranks + peer, block);
  }
  // Of a long message (see long_transfer.hpp): the header of a block that has no ring, beside its flag, and the
  // room for its chunks, in the region of the sender. Between two ranks that is all there is, of both slots:
  // there is nobody who could be in the next call.
  XYL_FN constexpr std::uint64_t long_header_offset(unsigned source, unsigned block) const {
    return flag_offset(flag_family::message, source, block) + sizeof(flag) / 2;
  }
  XYL_FN constexpr std::uint64_t long_slots_offset(unsigned slot, unsigned source, unsigned block,
                                                   std::uint64_t slot_bytes) const {
    return (has_one_writer() ? bulk : bulk_offset(slot, source)) + std::uint64_t{block} * long_slots * slot_bytes;
  }
  // The most that such a chunk may have where so many blocks share the region; whole lines.
  constexpr std::uint64_t long_slot_room(unsigned of_blocks) const {
    return (has_one_writer() ? 4 : 1) * bulk_stride / (std::uint64_t{of_blocks} * long_slots) / 128 * 128;
  }
  // The header of a chunk in the receiver's workspace; data lies header_bytes behind it, or, if tiny, inside.
  XYL_FN constexpr std::uint64_t message_offset(unsigned source, unsigned block, std::uint64_t number) const {
    return messages + ((static_cast<std::uint64_t>(source) * pair_blocks + block) * pair_slots +
                       static_cast<std::uint32_t>(number) % pair_slots) *
                          (header_bytes + pair_chunk);
  }
  XYL_FN constexpr std::uint64_t team_offset(unsigned slot, unsigned row, unsigned set, unsigned group) const {
    return team +
           sizeof(line) * (((std::uint64_t{slot} * team_rows + row) * team_sets + set) * team_groups + group);
  }
  // Memory of the self-tests, which nothing else uses: the state, the flags, and two slots of data. Like team lines
  // it is there only where there are several blocks.
  XYL_FN constexpr std::uint64_t trial_offset() const { return copies - trial_bytes(); }
  XYL_FN constexpr std::uint64_t trial_flag_offset(trial_flag what, unsigned source) const {
    return trial_offset() + trial_state_bytes +
           sizeof(flag) * (static_cast<unsigned>(what) * std::uint64_t{ranks} + source);
  }
  XYL_FN constexpr std::uint64_t trial_data_offset(unsigned slot, unsigned source) const {
    return copies - trial_data_bytes * (std::uint64_t{2 - slot} * ranks - source);
  }
  // Where the share of a source's chunk lies; half a stride behind it, the result of the source's own.
  XYL_FN constexpr std::uint64_t copied_offset(std::uint64_t chunk, unsigned source) const {
    return copies + (chunk % copy_slots * ranks + source) * copy_stride;
  }
  // The header of a one-way message in the receiver's workspace, how far behind it the payload lies (right
  // behind it where it fits there), and the most that there is room for.
  XYL_FN constexpr std::uint64_t one_way_offset(unsigned source, std::uint64_t number) const {
    return one_way + (std::uint64_t{source} * one_way_slots + (number & (one_way_slots - 1))) * one_way_stride;
  }
  static XYL_FN constexpr std::uint64_t one_way_data(std::uint64_t payload) {
    return payload <= inline_bytes() ? sizeof(line) : 64;
  }
  constexpr std::uint64_t one_way_capacity() const {
    return one_way_slots == 0 ? 0 : one_way_stride - 64 < inline_bytes() ? inline_bytes() : one_way_stride - 64;
  }
  // Where a source that has waited for long in a one-way call says in which: beside its credits.
  XYL_FN constexpr std::uint64_t one_way_note(unsigned source) const {
    return flag_offset(flag_family::one_way, source, 0) + 64;
  }
  // The number of the last message that this rank has sent to a peer, or got from it; the owner's alone.
  XYL_FN constexpr std::uint64_t one_way_counter(unsigned peer, bool received) const {
    return one_way + (std::uint64_t{ranks} * one_way_slots * one_way_stride) +
           sizeof(std::uint64_t) * ((received ? ranks : 0u) + peer);
  }
  // Room for what only this rank reads: the ring of messages from itself, which nobody sends.
  XYL_FN constexpr std::uint64_t scratch_offset(unsigned rank) const { return message_offset(rank, 0, 0); }
  XYL_FN constexpr std::uint64_t scratch_bytes() const {
    return pair_blocks * pair_slots * (header_bytes + pair_chunk);
  }
  // Where in its region a call puts `bytes`. On processors, long messages of one slot take turns over so much that
  // their lines have left the second-level caches of who wrote and of who read them: to write a line that both hold
  // is what takes longest. (32 KB written and read by both of two ranks: over 64 KB 6 us, over 1 MB 3.9, over 2 to
  // 4 MB 2.5; on other days 3 us everywhere.) Short ones stay in the first-level caches: an allreduce of 512 bytes
  // took 0.26 us in one place, 0.38 over 96 KB and more, of 2 KB 0.42 and 0.50, of 4 KB 0.86 and 0.52.
  XYL_FN constexpr std::uint64_t place(epoch_t epoch, std::uint64_t bytes) const {
    const std::uint64_t step = (bytes + 127) / 128 * 128;
    const std::uint64_t room = spread < bulk_stride ? spread : bulk_stride;
    const std::uint64_t near = spread / 64 < near_bytes ? spread / 64 : near_bytes;
    return bytes <= near || room < 2 * step ? 0 : (epoch >> 1) % (room / step) * step;
  }

 private:
  XYL_FN constexpr bool has_one_writer() const { return ranks == 2 && blocks > 1; }
  XYL_FN constexpr std::uint64_t trial_bytes() const {
    return trial_state_bytes + (2 * sizeof(flag) * ranks + 4095) / 4096 * 4096 + 2 * trial_data_bytes * ranks;
  }
  static constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }
  // `ranks` sources in each family; ring: 2 * ranks steps.
  static constexpr std::uint64_t flags(std::uint64_t ranks, std::uint64_t blocks) {
    return (static_cast<std::uint64_t>(flag_family::ring) + 2) * ranks * blocks;
  }
};

}  // namespace xyl
