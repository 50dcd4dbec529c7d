// SPDX-License-Identifier: BSD-3-Clause
#include "comm/selection.hpp"

#include <algorithm>
#include <cstring>

#include "proto/call.hpp"
#include "proto/stand_in.hpp"

namespace xyl {

namespace {

// Of GPUs that meet in host memory. Measured between two, copies / one-shot in steps of 256K: 4M 212 / 173 us, 16M
// 548 / 633, 64M 1828 / 2418.
constexpr std::uint64_t staged_copy_bytes = 32 << 20;

// Where somebody wants every allreduce in lines of 128 bytes; a longer one is cut.
constexpr std::uint64_t most_wide_bytes = 4 << 20, wide_bytes_per_block = 4 << 10;

// Where they are measured to be the fastest way. Packets / lines / one-shot between two GPUs with NVLink: 16K 2.3 /
// 2.3 / 4.2 us, 64K 2.6 / 2.4 / 4.4, 256K 3.8 / 3.0 / 5.0, 512K 6.1 / 3.8 / 5.9, 1M - / 6.1 / 7.7, 2M - / 9.9 / 11,
// 4M - / 19 / 18; on one GPU 128K 2.2 / 2.3, 256K 3.1 / 2.4, 1M - / 4.9, where two-shot takes 5.0. Among four ranks
// of one GPU, one-shot packets or two-shot ones were as fast or faster (64K 3.2, lines 3.8; 256K 4.5 and 6.3).
struct wide_range {
  std::uint64_t from_bytes, up_to_bytes;
};
constexpr wide_range wide_range_of(std::uint32_t ranks, bool on_one_gpu) {
  if (ranks != 2) return {0, 0};
  return on_one_gpu ? wide_range{144 << 10, 1 << 20} : wide_range{16 << 10, 2 << 20};
}

// In lines of 16 bytes, between two GPUs that meet in host memory. Packets / lines / one-shot: 8K 3.4 / 3.7 us, 16K
// 4.4 / 3.9 / 7.3, 64K 7.7 / 6.7 / 9.1, 128K 12.2 / 9.8 / 11.5, 256K 20.9 / 15.4 / 15.8, 512K 38.7 / 26.6 / 26.2,
// 1M 79 / 43.6 / 46.5, on up to 32 blocks (1M on 16 of them 55, on 24 49). Over NVLink and on one GPU lines of 128
// bytes are faster at every size.
constexpr wide_range staged_line_range = {12 << 10, 192 << 10};
constexpr std::uint64_t line_bytes_per_block = 4 << 10;
constexpr unsigned most_line_blocks = 32;

algorithm without_lines(algorithm how) {
  return uses_wide_packets(how) || uses_line_packets(how) ? algorithm::one_shot : how;
}

unsigned even_blocks(std::uint64_t bytes, std::uint64_t per_block, unsigned limit) {
  const std::uint64_t blocks = (bytes + per_block - 1) / per_block;
  // An even number of blocks makes even parts: 32 were faster than 33.
  const unsigned most = limit >= 8 ? limit / 8 * 8 : std::max(1u, limit);
  return static_cast<unsigned>(std::clamp<std::uint64_t>(blocks, 1, most));
}

}  // namespace

selection selection::defaults(int ranks, const parameters& p, unsigned blocks, bool can_read, bool staged,
                              unsigned pull_blocks) {
  // Filled as bytes, so that the hash never sees padding.
  selection s;
  std::memset(&s, 0, sizeof s);
  // A tiny one-shot message travels beside its header: packets, at twice the bytes, have nothing to add.
  const auto thresholds = [](std::uint64_t packet, std::uint64_t two_shot_packet, std::uint64_t one_shot,
                             std::uint64_t chunk) {
    limits l;
    std::memset(&l, 0, sizeof l);
    l.packet_bytes = packet;
    l.two_shot_packet_bytes = two_shot_packet;
    l.one_shot_bytes = one_shot;
    l.chunk_bytes = chunk;
    return l;
  };
  const auto per_block = [&s](std::uint64_t packet, std::uint64_t two_shot_packet, std::uint64_t one_shot) {
    s.device.packet_bytes_per_block = packet;
    s.device.two_shot_packet_bytes_per_block = two_shot_packet;
    s.device.one_shot_bytes_per_block = one_shot;
    s.device.wide_bytes_per_block = wide_bytes_per_block;
    s.device.other_bytes_per_block = 1;
  };
  s.host = thresholds(0, 0, 64 << 10, 1 << 20);
  // Measured with several ranks on one GPU. Packets cost twice the bytes to every peer, one-shot once; the more
  // peers, the sooner a share for each is better.
  if (staged) {
    // Measured between two GPUs, packets / one-shot / two-shot: 1K 2.8 / 5.8 / 11 us, 16K 4.3 / 7.3 / 12, 64K 7.5 /
    // 9.3 / 14, 256K 21 / 16 / 20, 1M 79 / 47 / 55, 4M - / 169 / 173. Several ranks of one GPU share its link:
    // packets took 5.3 us for 1K, 7.9 for 4K, 20 for 16K with 4 ranks, and 8.6, 27 and 99 with 8.
    s.device = ranks <= 2   ? thresholds(96 << 10, 0, UINT64_MAX, 16 << 20)
               : ranks <= 4 ? thresholds(4 << 10, 0, 16 << 10, 8 << 20)
                            : thresholds(1 << 10, 0, 16 << 10, 8 << 20);
    per_block(2 << 10, 4 << 10, 8 << 10);
    s.device.from = origin::staged;
  } else if (ranks <= 2) {
    // Chunks of 16 MB are faster between two GPUs (64M in 232 us, in chunks of 8 MB 259), which have more blocks
    // than ranks of one GPU; those take one shot up to 8 MB (see planning.cc).
    s.device = thresholds(208 << 10, 512 << 10, UINT64_MAX, blocks > 96 ? 16 << 20 : 8 << 20);
    per_block(2 << 10, 8 << 10, 4 << 10);
  } else if (ranks <= 4) {
    s.device = thresholds(64 << 10, 512 << 10, 0, 8 << 20);
    per_block(1 << 10, 4 << 10, 4 << 10);
  } else {
    // Packets / two-shot packets / two-shot: 8K 3.9 / 4.1 us, 16K 4.3 / 4.2, 64K 5.2 / 4.7 / 10.6, 128K 9.4 / 6.4 /
    // 10.6, 256K - / 9.8 / 11.0, 512K - / 19 / 12.0.
    s.device = thresholds(12 << 10, 288 << 10, 0, 8 << 20);
    per_block(1 << 10, 2 << 10, 4 << 10);
  }
  // Whoever sets a threshold chooses between the one-shot forms and two-shot.
  if (p.packet_bytes || p.one_shot_bytes) s.device.two_shot_packet_bytes = 0;
  if (p.packet_bytes || p.one_shot_bytes || p.forced_algorithm) s.host.from = s.device.from = origin::variable;
  if (p.packet_bytes) s.host.packet_bytes = s.device.packet_bytes = *p.packet_bytes;
  if (p.one_shot_bytes) s.host.one_shot_bytes = s.device.one_shot_bytes = *p.one_shot_bytes;
  // Staged / through the kernel, between 2 ranks of one node: allgather 256K 12 / 18 us, 1M 46 / 68, 16M 1790 /
  // 2240; gather 256K 7.7 / 18, 16M 1130 / 2080; 256K sent and received at once 20 / 26, 64M 3900 / 4800; broadcast
  // 128M 16.8 ms / 24.1.
  s.single_copy_bytes = ranks > 1 && can_read && !p.forced_algorithm && p.single_copy == single_copy_use::always
                            ? 64 << 10
                            : UINT64_MAX;
  s.one_way_bytes = ranks > 1 && !p.forced_algorithm ? most_one_way_bytes : 0;
  // Measured with rows of 14 KB, several ranks on one GPU: a second launch costs 2.3 us and more, but the first is
  // as fast as the bare allreduce, which the forms in one step are only while a block or two have each row. Between
  // two ranks one-shot is faster than either (32 rows 6.0 us, in two steps 6.7) while each row has a block. Among
  // eight, packets in two shots / two steps: 4 rows 8.8 / 7.2 us, 8 9.6 / 9.4, 16 12.4 / 12.9.
  s.fused_packet_bytes = ranks <= 2 ? 240 << 10 : ranks <= 4 ? 128 << 10 : 40 << 10;
  s.two_step_bytes = p.two_step_bytes.value_or(ranks <= 2 ? 8 << 20 : ranks <= 4 ? 96 << 10 : 40 << 10);
  s.fused_two_shot_packet_bytes = p.two_step_bytes.value_or(ranks <= 2   ? 8 << 20
                                                            : ranks <= 4 ? 96 << 10
                                                                         : 256 << 10);
  // Four ranks of one GPU, two steps / slices: 16 rows 7.4 / 7.9 us, 24 9.4 / 8.1, 32 9.8 / 8.7, 64 14.9 / 12.2,
  // 128 21.9 / 21.2, 256 37 / 40. Eight take as long or longer, from few blocks.
  s.fused_slices_bytes = ranks == 4 && !staged && !p.two_step_bytes ? 280 << 10 : UINT64_MAX;
  s.most_fused_slices_bytes = 1536 << 10;
  // Registered inputs, between two ranks of one GPU, pushed / pulled in one shot: 64 rows 7.1 / 7.6 us, 128 10.0 /
  // 9.8, 256 17.3 / 14.5.
  s.fused_pull_bytes = 1536 << 10;
  s.most_fused_pull_bytes = 8 << 20;
  // Meetings of the ranks cost less than a copy from here on. One-shot reads everything everywhere, but nobody
  // writes to others; on hosts two ranks gain by that, on one GPU (2, 4, 8 ranks, 256K to 64M) nobody.
  s.host.pull_bytes = 64 << 10;
  // Between two GPUs, pushed / pulled: 2M 9.9 / 11.8 us, 4M 17.8 / 18.4, 16M 61 / 56, 64M 216 / 205; between two
  // ranks of one 1M 4.56 / 4.34.
  s.device.pull_bytes = ranks <= 2 ? (blocks > 96 ? 8 << 20 : 1 << 20) : ranks <= 4 ? 512 << 10 : 256 << 10;
  s.device.one_shot_pull_bytes[false] = ranks <= 2 ? UINT64_MAX : ranks <= 4 ? 512 << 10 : 256 << 10;
  s.host.one_shot_pull_bytes[false] = ranks <= 2 ? UINT64_MAX : 0;
  s.host.fetched_bytes = UINT64_MAX;
  s.device.fetched_bytes = p.pull == pull_use::staged ? 0 : UINT64_MAX;
  for (limits* of : {&s.host, &s.device}) {
    const bool one_shot = p.pull == pull_use::one_shot;
    if (p.pull == pull_use::never || (p.pull == pull_use::automatic && p.forced_algorithm))
      of->pull_bytes = s.fused_pull_bytes = UINT64_MAX;
    if (p.pull != pull_use::one_shot && p.pull != pull_use::two_shot) continue;
    of->pull_bytes = 0;
    for (std::uint64_t& bytes : of->one_shot_pull_bytes) bytes = one_shot ? UINT64_MAX : 0;
    s.fused_pull_bytes = one_shot ? 0 : UINT64_MAX;
    s.most_fused_pull_bytes = UINT64_MAX;
  }
  // Where devices reach each other, multiprocessors are faster: there copy engines are for those who say so.
  const std::uint64_t copied = p.copy_engine_bytes.value_or(staged ? staged_copy_bytes : 0);
  s.copy_engine_bytes = ranks > 1 && copied != 0 && !p.forced_algorithm ? copied : UINT64_MAX;
  s.ranks = static_cast<std::uint32_t>(ranks);
  s.lines = automatic;
  s.forced = p.forced_algorithm ? static_cast<std::uint32_t>(*p.forced_algorithm) : automatic;
  const auto at_most = [&](unsigned n) {
    return p.max_blocks ? std::min<std::uint32_t>(n, static_cast<std::uint32_t>(*p.max_blocks)) : n;
  };
  s.max_blocks = at_most(blocks);
  s.max_pull_blocks = at_most(pull_blocks);
  return s;
}

void selection::avoid_packets() {
  const auto flagged = [](algorithm how) {
    if (how == algorithm::packet) return algorithm::one_shot;
    return how == algorithm::two_shot_packet ? algorithm::two_shot : how;
  };
  device.one_shot_bytes = std::max(device.one_shot_bytes, device.packet_bytes);
  device.packet_bytes = device.two_shot_packet_bytes = 0;
  for (std::uint32_t i = 0; i < device.ranges; ++i)
    device.by_size[i].how = static_cast<std::uint64_t>(flagged(static_cast<algorithm>(device.by_size[i].how)));
}

void selection::use_lines(algorithm kind, bool always, bool on_one_gpu) {
  use_lines_alone(kind);
  if (always) {
    device.wide_from_bytes = 0;
    device.wide_bytes = most_wide_bytes;
  } else if (uses_line_packets(kind) ? device.from == origin::staged
                                     : device.from == origin::defaults || device.from == origin::model) {
    const wide_range best = uses_line_packets(kind) ? staged_line_range : wide_range_of(ranks, on_one_gpu);
    device.wide_from_bytes = best.from_bytes;
    device.wide_bytes = best.up_to_bytes;
  }
}

void selection::use_lines_alone(std::optional<algorithm> kind) {
  lines = kind ? static_cast<std::uint32_t>(*kind) : automatic;
  const auto is_other = [&](std::uint64_t how) {
    return how != lines && without_lines(static_cast<algorithm>(how)) != static_cast<algorithm>(how);
  };
  if (is_other(forced)) forced = automatic;
  for (std::uint32_t i = 0; i < device.ranges; ++i)
    if (is_other(device.by_size[i].how)) device.by_size[i].how = static_cast<std::uint64_t>(algorithm::one_shot);
}

// Lines of 16 bytes have kernels for sums alone.
bool selection::has_lines_for(int type, int operation) const {
  return has_all_ways(type) && (lines != static_cast<std::uint32_t>(algorithm::line_packet) || operation == xylSum);
}

algorithm selection::choose(const limits& of, std::uint64_t bytes, bool in_lines) const {
  if (ranks == 1) return algorithm::one_shot;  // a copy; the others need a peer
  const bool can_be_wide = in_lines && &of != &host;
  const auto possible = [&](std::uint64_t how) {
    const auto wished = static_cast<algorithm>(how);
    return can_be_wide ? wished : without_lines(wished);
  };
  if (forced != automatic) return possible(forced);
  if (can_be_wide && bytes > of.wide_from_bytes && bytes <= of.wide_bytes) return static_cast<algorithm>(lines);
  for (std::uint32_t i = 0; i < of.ranges; ++i)
    if (bytes <= of.by_size[i].up_to_bytes) return possible(of.by_size[i].how);
  if (bytes <= of.packet_bytes) return algorithm::packet;
  if (bytes <= of.two_shot_packet_bytes) return algorithm::two_shot_packet;
  if (bytes <= of.one_shot_bytes) return algorithm::one_shot;
  return algorithm::two_shot;
}

std::optional<pull_form> selection::choose_pull(const limits& of, std::uint64_t bytes, bool has_outputs,
                                                bool in_place) const {
  if (ranks == 1 || bytes < of.pull_bytes) return std::nullopt;
  if (!in_place && bytes <= of.one_shot_pull_bytes[has_outputs]) return pull_form::one_shot;
  return has_outputs ? pull_form::two_shot : pull_form::gathered;
}

std::optional<fused_form> selection::choose_fused_pull(bool device, std::uint64_t bytes, bool needs_owners) const {
  if (!device) {
    const std::optional<pull_form> like = choose_pull(host, bytes, false, needs_owners);
    if (!like) return std::nullopt;
    return like == pull_form::one_shot ? fused_form::one_shot_pull : fused_form::two_shot_pull;
  }
  // Among more than two ranks, a first step that pulls is what gains.
  if (ranks != 2 || needs_owners || bytes < fused_pull_bytes || bytes > most_fused_pull_bytes) return std::nullopt;
  return fused_form::one_shot_pull;
}

bool selection::set_ranges(limits& of, std::span<const range> wanted, origin from) {
  if (wanted.empty() || wanted.size() > most_ranges || wanted.back().up_to_bytes != UINT64_MAX) return false;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i].how >= static_cast<std::uint64_t>(algorithms) ||
        (i > 0 && wanted[i].up_to_bytes <= wanted[i - 1].up_to_bytes))
      return false;
  std::copy(wanted.begin(), wanted.end(), of.by_size);
  of.ranges = static_cast<std::uint32_t>(wanted.size());
  of.from = from;
  return true;
}

std::vector<selection::range> selection::ranges_of(const limits& of) const {
  std::vector<std::uint64_t> ends = {of.packet_bytes, of.two_shot_packet_bytes, of.one_shot_bytes,
                                     UINT64_MAX,      of.wide_from_bytes,       of.wide_bytes};
  for (std::uint32_t i = 0; i < of.ranges; ++i) ends.push_back(of.by_size[i].up_to_bytes);
  std::sort(ends.begin(), ends.end());
  std::vector<range> all;
  for (std::uint64_t end : ends) {
    if (end == 0) continue;
    const auto how = static_cast<std::uint64_t>(choose(of, end, true));
    if (!all.empty() && all.back().how == how)
      all.back().up_to_bytes = end;
    else
      all.push_back({end, how});
  }
  return all;
}

const char* name_of(selection::origin from) {
  switch (from) {
    case selection::origin::defaults:
      return "measured defaults of the library";
    case selection::origin::variable:
      return "XYLEM_* variables";
    case selection::origin::plan_file:
      return "XYLEM_PLAN";
    case selection::origin::cache:
      return "measured on this machine";
    case selection::origin::model:
      return "predicted from the topology";
    case selection::origin::staged:
      return "estimated for GPUs that meet in host memory";
  }
  return "?";
}

unsigned selection::blocks_for(algorithm how, std::uint64_t bytes) const {
  const auto bytes_per_block = [&] {
    switch (how) {
      case algorithm::packet:
        return device.packet_bytes_per_block;
      case algorithm::two_shot_packet:
        return device.two_shot_packet_bytes_per_block;
      case algorithm::one_shot:
        return device.one_shot_bytes_per_block;
      case algorithm::wide_packet:
        return device.wide_bytes_per_block;
      default:
        return device.other_bytes_per_block;
    }
  };
  if (uses_line_packets(how))
    return even_blocks(bytes, line_bytes_per_block, std::min<unsigned>(max_blocks, most_line_blocks));
  const std::uint64_t per_block = bytes_per_block();
  return even_blocks(bytes, per_block, max_blocks);
}

unsigned selection::pull_blocks_for(pull_form how, std::uint64_t bytes) const {
  // Half of what a block's lanes load at once; between two ranks, who have blocks enough, all of it (of one GPU, 1M
  // took 4.34 us so, and 4.91 on a few blocks less, whose lanes load twice).
  const std::uint64_t each = ranks <= 2 ? 20 << 10 : 8 << 10;
  return even_blocks(how == pull_form::one_shot ? bytes : bytes / ranks, each, max_pull_blocks);
}

std::uint64_t selection::hash() const {
  static_assert(sizeof(selection) % sizeof(std::uint64_t) == 0);
  std::uint64_t words[sizeof(selection) / sizeof(std::uint64_t)];
  std::memcpy(words, this, sizeof words);
  std::uint64_t h = 0;
  for (std::uint64_t w : words) h = mix64((h + 0x9e3779b97f4a7c15ull) ^ w);
  return h;
}

bool selection::plausible(std::uint32_t of_ranks) const {
  for (const limits* of : {&host, &device}) {
    if (of->from > origin::staged) return false;
    limits copy;
    if (of->ranges != 0 && (of->ranges > most_ranges || !set_ranges(copy, {of->by_size, of->ranges}, of->from)))
      return false;
  }
  return ranks == of_ranks && (forced == automatic || forced < static_cast<std::uint32_t>(algorithms)) &&
         (lines == automatic ? device.wide_bytes == 0
                             : lines == static_cast<std::uint32_t>(algorithm::wide_packet) ||
                                   lines == static_cast<std::uint32_t>(algorithm::line_packet)) &&
         host.chunk_bytes != 0 && device.chunk_bytes != 0 && max_pull_blocks != 0;
}

std::uint64_t chunk_elements(algorithm how, const layout& map, std::uint64_t wanted_bytes, unsigned element_bytes,
                             bool all_reduces) {
  const std::uint64_t ranks = map.ranks;
  std::uint64_t held = 0;
  switch (how) {
    case algorithm::packet:
      held = map.packet_capacity();
      break;
    case algorithm::one_shot:
      held = all_reduces ? map.one_shot_capacity() : map.bulk_stride;
      break;
    case algorithm::wide_packet:
      held = map.wide_packs() * wide_pack::units * 16;
      break;
    case algorithm::line_packet:
      held = map.line_sheets() * line_sheet::units * 16;
      break;
    case algorithm::two_shot:
      held = map.bulk_stride / 2 * ranks;
      break;  // a region holds a scattered and a gathered share
    case algorithm::two_shot_packet:
      held = map.packet_capacity() / 16 * 8 * ranks;
      break;  // likewise
    case algorithm::ring:
      held = ranks * map.bulk_stride / (2 * ranks - 2) * ranks;
      break;  // a share per step
  }
  // Units are 16 bytes, and shares whole units.
  const std::uint64_t whole = has_shares(how) ? 16 * ranks : 16;
  const std::uint64_t bytes = std::max(whole, std::min(held, wanted_bytes) / whole * whole);
  return bytes / element_bytes;
}

std::uint64_t gathered_pull_bytes(const layout& map) {
  // A share of the result fills what bulk data there is; shares are whole units.
  return map.bulk_stride * map.ranks / 16 * 16 * map.ranks;
}

}  // namespace xyl
