// SPDX-License-Identifier: BSD-3-Clause
//
// Allreduce with bulk data and one flag per (source, block): one-shot and ring (two_shot.hpp has two-shot). Data is
// written with plain stores; the flag's release and the reader's acquire order it. A block's flag covers what that
// block wrote, and block b of the reader reads nothing else, so no wait is wider than it must be.
#pragma once

#include "proto/shares.hpp"

namespace xyl {

// After sync(): everything this block wrote to the peers is covered. One peer per lane.
template <class S, class Call>
XYL_FN void post_all(S& s, const Call& c, flag_family family, std::uint64_t number) {
  s.sync();  // the lane that posts must speak for the stores of all lanes
  const std::uint64_t mine = c.map.flag_offset(family, static_cast<unsigned>(c.rank), s.block());
  for (int p = static_cast<int>(s.lane()); p < c.ranks; p += static_cast<int>(s.lanes()))
    if (p != c.rank) s.post(at<flag>(c, p, mine), number);
}
template <class S, class Call>
XYL_FN void post_all(S& s, const Call& c, flag_family family) {
  post_all(s, c, family, s.epoch());
}

// This lane's part; the caller joins the lanes with all(), which also lets every lane read what one lane awaited.
template <class S, class Call>
XYL_FN bool await_all(S& s, const Call& c, flag_family family, phase what, std::uint64_t number) {
  bool good = true;
  for (int p = static_cast<int>(s.lane()); p < c.ranks && good; p += static_cast<int>(s.lanes()))
    if (p != c.rank)
      good = s.await(at<const flag>(c, c.rank, c.map.flag_offset(family, static_cast<unsigned>(p), s.block())),
                     number, waiting{p, what});
  return good;
}
template <class S, class Call>
XYL_FN bool await_all(S& s, const Call& c, flag_family family, phase what) {
  return await_all(s, c, family, what, s.epoch());
}

// Sends what this block has pushed, and waits for the same of every peer; `family` is that of the first phase.
// Where a launch is one lane, the header, put behind the data, is the flag at the same time: one line less to wait
// for. (Such a space puts with release and gets with acquire order, see launch boundaries in space.hpp.) bytes,
// data: what was pushed to every peer, see meet().
template <class S, class Call, class Data>
XYL_FN bool exchange_first_phase(S& s, const Call& c, flag_family family, phase what, std::uint64_t bytes,
                                 Data data) {
  sent(s);
  if constexpr (is_single_lane<S>) {
    return meet(s, c, bytes, data);
  } else {
    post_all(s, c, family);
    const bool good = s.all(check_headers(s, c) && await_all(s, c, family, what));
    received(s);
    return good;
  }
}
template <class S, class Call>
XYL_FN bool exchange_first_phase(S& s, const Call& c, flag_family family, phase what) {
  return exchange_first_phase(s, c, family, what, 0, [](epoch_t) { return 0; });
}

// Where in each region this call's bulk data begins.
template <class S, class Call>
XYL_FN std::uint64_t place_of(const S& s, const Call& c, std::uint64_t bytes) {
  if constexpr (is_single_lane<S>)
    return c.map.place(s.epoch(), bytes);
  else
    return 0;
}

// Where the one-shot message of rank p lies in its readers' workspaces.
template <class S, class Call>
XYL_FN std::uint64_t one_shot_offset(const S&, const Call& c, epoch_t e, int p, std::uint64_t bytes) {
  const unsigned slot = c.map.slot(e);
  const std::uint64_t region = c.map.one_shot_offset(slot, static_cast<unsigned>(p));
  if constexpr (is_single_lane<S>)
    return bytes <= c.map.inline_bytes() ? c.map.inline_offset(slot, static_cast<unsigned>(p))
                                         : region + c.map.place(e, bytes);
  else
    return region;
}

// Steps of a block, in a flag beside the epoch, which gets that far in no lifetime of a communicator.
inline constexpr unsigned step_number_bits = 16;
inline constexpr std::uint64_t most_steps = (1u << step_number_bits) - 1;

// Steps count from 1.
XYL_FN std::uint64_t step_number(epoch_t e, std::uint32_t step) { return (e << step_number_bits) + step; }

// One-shot where the memory in between lies behind a link that carries both ways at once: two GPUs that met in host
// memory wrote and then read 26 GB/s, or 42 while they did both. A block sends a step before it takes the one
// before that, and tells of it once that is done: by then it has nearly arrived, and there is little to wait for.
template <class S, class Call, class R, class From>
XYL_FN bool one_shot_in_steps(S& s, const Call& c, const R& red, const range mine, From staged) {
  const int ranks = R::ranks ? R::ranks : c.ranks;
  // Units of this block's part, which a workspace has room for: 32 bits are enough.
  const auto size = static_cast<std::uint32_t>(mine.size());
  std::uint32_t begin = 0, end = c.step_units, number = 1;
  const auto units = [&](std::uint32_t from, std::uint32_t to) {
    return range{mine.begin + from, mine.begin + to};
  };
  const auto number_of_step = [&] { return step_number(s.epoch(), number); };
  const auto send = [&](std::uint32_t from, std::uint32_t to) {
    push_input(s, c, red, units(from, to), staged(c.rank) + from * std::uint64_t{16}, 1, ranks - 1);
  };
  put_headers(s, c);
  send(begin, end);
  post_all(s, c, flag_family::one_shot_step, number_of_step());
  sent(s);
#pragma unroll 1
  while (true) {
    const std::uint32_t next = size - end > c.step_units ? end + c.step_units : size;
    if (next != end) send(end, next);
    const bool good = (number != 1 || check_headers(s, c)) &&
                      await_all(s, c, flag_family::one_shot_step, phase::one_shot, number_of_step());
    if (!s.all(good)) return false;
    if (number == 1) received(s);
    reduce_in_rank_order(s, c, red, units(begin, end),
                         [&](int p) { return staged(p) + begin * std::uint64_t{16}; });
    if (next == end) return true;
    ++number;
    post_all(s, c, flag_family::one_shot_step, number_of_step());
    begin = end;
    end = next;
  }
}

// One-shot: the whole message to every peer, then everything is reduced here.
template <class S, class Call, class R>
XYL_FN bool one_shot_allreduce_block(S& s, const Call& c, const R& red) {
  const int ranks = R::ranks ? R::ranks : c.ranks;
  const std::uint64_t total = units_of(c.count, per_unit(red));
  const range mine = part_of_block(s, total);
  const auto staged = [&](int p) { return one_shot_offset(s, c, s.epoch(), p, total * 16) + mine.begin * 16; };
  const auto pushed = [&](epoch_t e) { return one_shot_offset(s, c, e, c.rank, total * 16); };

  if constexpr (!is_single_lane<S>) {
    // Among more ranks long messages are never one-shot there: kernels for so many are spared this code.
    if constexpr (R::ranks == 0 || R::ranks == 2)
      if (c.step_units != 0 && mine.size() > c.step_units) return one_shot_in_steps(s, c, red, mine, staged);
    put_headers(s, c);
  }
  push_input(s, c, red, mine, staged(c.rank), 1, ranks - 1);
  if (!exchange_first_phase(s, c, flag_family::one_shot, phase::one_shot, total * 16, pushed)) return false;
  reduce_in_rank_order(s, c, red, mine, staged);
  return true;
}

// Ring, of two ranks or more: 2 (ranks - 1) steps, each with staging and a flag of its own, so that no step waits
// for a credit. In the first half a share travels the ring and is added to; it starts at the rank after its owner
// and ends at its owner (share p is finished by the rank at place p). In the second half the finished shares travel
// on.
template <class S, class Call, class R>
XYL_FN bool ring_allreduce_block(S& s, const Call& c, const R& red) {
  const epoch_t e = s.epoch();
  const int ranks = c.ranks;
  const ring_seat seat = c.ring.is_set() ? c.ring : ring_seat::in_rank_order(c.rank, ranks);
  const int next = seat.next, previous = seat.previous;
  const int hop = next > c.rank ? next - c.rank : next - c.rank + ranks;
  const std::uint64_t total = units_of(c.count, per_unit(red));
  const std::uint64_t share = part_of(total, static_cast<unsigned>(ranks), 0).size();
  const shares cut{share, total, part_of_block(s, share)};
  const auto staged = [&](int step) {
    return c.map.bulk_offset(c.map.slot(e), 0) + (static_cast<std::uint64_t>(step) * share + cut.part.begin) * 16;
  };
  const auto post = [&](int step) {
    s.sync();  // the lane that posts speaks for the stores of all lanes
    if (s.lane() == 0)
      s.post(at<flag>(c, next, c.map.flag_offset(flag_family::ring, static_cast<unsigned>(step), s.block())), e);
  };
  const auto await = [&](int step) {
    bool good = true;
    if (s.lane() == 0)
      good = s.await(
          at<const flag>(c, c.rank, c.map.flag_offset(flag_family::ring, static_cast<unsigned>(step), s.block())),
          e, waiting{previous, phase::ring});
    return s.all(good);
  };
  const auto behind = [&](int distance) { return (seat.place - distance + 2 * ranks) % ranks; };

  put_headers(s, c);
  // Steps lie across the regions of all sources, of which others may still be using theirs until their header has
  // come (long_transfer.hpp).
  if (!s.all(check_headers(s, c))) return false;
  push_input(s, c, red, cut.of(behind(1)), staged(0), hop, hop);
  post(0);
  sent(s);
  for (int step = 1; step < ranks; ++step) {
    if (!await(step - 1)) return false;
    const bool finished = step == ranks - 1;
    reduce_and_forward(s, c, red, cut.of(behind(step + 1)), staged(step - 1), next, staged(step), finished);
    post(step);
  }
  for (int step = ranks; step <= 2 * ranks - 2; ++step) {
    if (!await(step - 1)) return false;
    const bool last = step == 2 * ranks - 2;
    deliver(s, c, red, cut.of(behind(step + 1 - ranks)), c.rank, staged(step - 1), last ? -1 : next,
            last ? 0 : staged(step));
    if (!last) post(step);
  }
  return true;
}

template <class S, class Call, class R>
XYL_FN bool one_shot_allreduce(S& s, const Call& c, const R& red) {
  const bool good = s.begin() && one_shot_allreduce_block(s, c, red);
  s.leave();
  return good;
}

template <class S, class Call, class R>
XYL_FN bool ring_allreduce(S& s, const Call& c, const R& red) {
  const bool good = s.begin() && ring_allreduce_block(s, c, red);
  s.leave();
  return good;
}

}  // namespace xyl
