// SPDX-License-Identifier: BSD-3-Clause
//
// Two-shot allreduce: share p of every rank goes to rank p (scattered), which reduces it and gives the result to
// all (gathered). The gathered results lie behind the scattered shares in each region: an owner may be a whole
// phase ahead of its peers. Relies on bulk data and flags as flagged.hpp does.
//
// A block deals with its part of the shares in steps, of which three are under way: it sends one, reduces the one
// before and takes the results of the one before that, and then meets its peers, once. One launch so carries a long
// message in a small workspace, with loads and stores of all three on their way together. (Where a block met its
// peers twice a step, 64M between two ranks of one GPU took 213 us instead of 142, of four 328 instead of 272.) A
// message of one step is what two-shot is without steps.
//
// Sent and given means written into the peers' workspaces, or (pulls) into the own one, where the peers come for
// it: that writes less, and reads more from afar.
#pragma once

#include "proto/flagged.hpp"

namespace xyl {

// Where data of a block lies in every (slot, source) region, in bytes from the region's beginning.
struct two_shot_room {
  std::uint64_t begin;     // of the first place of scattered data
  std::uint64_t gathered;  // from scattered data to the results
  std::uint64_t place;     // from one place to the next
};

// In round t a block sends step t, reduces step t - 1 and takes the results of step t - 2, when it has heard that
// its peers have done their round t - 1. So two places are enough: by then they have reduced step t - 2, which step
// t overwrites, and taken the results of step t - 3, which those of step t - 1 do.
//
// What makes the first meeting see all peers' headers also covers the outputs: nothing is stored before.
template <class S, class Call, class R>
XYL_FN bool two_shot_in_steps(S& s, const Call& c, const R& red, const shares& whole, const two_shot_room& room,
                              std::uint32_t step_units) {
  const unsigned slot = c.map.slot(s.epoch());
  const auto size = static_cast<std::uint32_t>(whole.part.size());
  const std::uint32_t steps = size > step_units ? static_cast<std::uint32_t>(units_of(size, step_units)) : 1;
  // Of rank p: sent by it, or (pulls) kept for it; its results, which it gives or keeps.
  const auto scattered = [&](int p, std::uint32_t step) {
    return c.map.bulk_offset(slot, static_cast<unsigned>(p)) + room.begin + step % c.map.step_places * room.place;
  };
  const auto gathered = [&](int p, std::uint32_t step) { return scattered(p, step) + room.gathered; };
  const auto cut = [&](std::uint32_t step) {
    const std::uint64_t begin = whole.part.begin + std::uint64_t{step} * step_units;
    const std::uint64_t end = begin + step_units;
    return shares{whole.size, whole.total, {begin, end < whole.part.end ? end : whole.part.end}};
  };
  // The epoch says enough of a single step; see step_number() of several.
  const bool is_single = room.place == 0;
  const auto number = [&](std::uint32_t round) {
    return is_single ? s.epoch() : step_number(s.epoch(), round + 1);
  };
  const auto family = [&](std::uint32_t round) {
    if (!is_single) return flag_family::two_shot_round;
    return round == 0 ? flag_family::scatter : flag_family::gather;
  };

  const auto will_load = [&](range units) { will_load_units(s, c.input, units.begin, units.end); };

  put_headers(s, c);
#pragma unroll 1
  for (std::uint32_t round = 0; round < steps + 2; ++round) {
    if (round != 0) {
      const bool good =
          (round != 1 || check_headers(s, c)) &&
          await_all(s, c, family(round - 1), round == 1 ? phase::scatter : phase::gather, number(round - 1));
      if (!s.all(good)) return false;
      if (round == 1) received(s);
    }
    if (round < steps)
      push_shares(s, c, red, cut(round), c.pulls, [&](int p) { return scattered(c.pulls ? p : c.rank, round); });
    if (round == 0) sent(s);
    if (const std::uint32_t step = round - 1; round >= 1 && step < steps)
      reduce_in_rank_order(
          s, c, red, cut(step).of(c.rank), [&](int p) { return scattered(c.pulls ? c.rank : p, step); }, true,
          gathered(c.rank, step), c.pulls);
    if (const std::uint32_t step = round - 2; round >= 2)
      deliver_shares(s, c, red, cut(step), c.pulls, [&](int p) { return gathered(p, step); });
    if (round <= steps) post_all(s, c, family(round), number(round));
    // The input of the next round is under way while the peers are waited for. (64M between two ranks of one GPU
    // 135 us instead of 140; among 4 and 8, which have more loads on their way, 267 instead of 264 and 681 instead
    // of 648.)
    if constexpr (R::ranks == 2)
      if (!is_single) {
        if (round + 1 < steps) will_load(cut(round + 1).of(1 - c.rank));
        if (round < steps) will_load(cut(round).of(c.rank));
      }
  }
  return true;
}

template <class S, class Call, class R>
XYL_FN bool two_shot_allreduce_block(S& s, const Call& c, const R& red) {
  const int ranks = R::ranks ? R::ranks : c.ranks;
  const std::uint64_t total = units_of(c.count, per_unit(red));
  const std::uint64_t share = part_of(total, static_cast<unsigned>(ranks), 0).size();
  const shares cut{share, total, part_of_block(s, share)};
  const std::uint64_t place = place_of(s, c, 2 * share * 16) + cut.part.begin * 16;

  if constexpr (is_single_lane<S>) {
    const unsigned slot = c.map.slot(s.epoch());
    const auto scattered = [&](int p) { return c.map.bulk_offset(slot, static_cast<unsigned>(p)) + place; };
    const auto gathered = [&](int p) { return scattered(p) + share * 16; };
    push_shares(s, c, red, cut, false, [&](int) { return scattered(c.rank); });
    if (!exchange_first_phase(s, c, flag_family::scatter, phase::scatter)) return false;
    reduce_in_rank_order(s, c, red, cut.of(c.rank), scattered, true, gathered(c.rank));
    post_all(s, c, flag_family::gather);
    if (!s.all(await_all(s, c, flag_family::gather, phase::gather))) return false;
    deliver_shares(s, c, red, cut, false, gathered);
    return true;
  } else {
    // Without steps the message lies in the region as it is; with them each block has places of its own.
    const std::uint64_t bytes = std::uint64_t{c.step_units} * 16;
    if (bytes == 0)
      return two_shot_in_steps(s, c, red, cut, {place, share * 16, 0}, static_cast<std::uint32_t>(cut.part.size()));
    const std::uint64_t half = c.map.step_places * bytes;
    return two_shot_in_steps(s, c, red, cut, {s.block() * 2 * half, half, bytes}, c.step_units);
  }
}

template <class S, class Call, class R>
XYL_FN bool two_shot_allreduce(S& s, const Call& c, const R& red) {
  const bool good = s.begin() && two_shot_allreduce_block(s, c, red);
  s.leave();
  return good;
}

}  // namespace xyl
