// SPDX-License-Identifier: BSD-3-Clause
//
// Two-shot allreduce: share p of every rank goes to rank p (scattered), which reduces it and gives the result to all
// (gathered). The gathered results lie behind the scattered shares in each region: an owner may be a whole phase
// ahead of its peers. Relies on bulk data and flags as flagged.hpp does.
//
// A block deals with its part of the shares in steps, of which three are under way: while the results of one come
// back and the data of the next is waited for, the one after that is sent. So nobody stands still for a flag, and
// the same little memory is written again and again: it stays in the GPU's second-level cache, where a workspace of
// the message's size would go to memory and come back. A message of one step is what two-shot is without steps.
#pragma once

#include "proto/flagged.hpp"

namespace xyl {

// Where data of a block lies in every (slot, source) region, in bytes from the region's beginning.
struct two_shot_room {
  std::uint64_t begin;     // of the first place of scattered data
  std::uint64_t gathered;  // from scattered data to the results
  std::uint64_t place;     // from one place to the next
};

// In round t a block sends step t, then reduces step t - 1 and then takes the results of step t - 2. Three places
// are enough:
//
//   scattered   Step t overwrites step t - 3 at the owner. The owner told of its results when it had reduced it, and
//               this block has taken those in round t - 1.
//   gathered    The result of step t - 1 overwrites that of step t - 4 at a peer. The peer took that one in its round
//               t - 2, before it sent step t - 1, which has come.
//
// What makes the first round see all peers' headers also covers the outputs: nothing is stored before.
template <class S, class Call, class R>
XYL_FN bool two_shot_in_steps(S& s, const Call& c, const R& red, const shares& whole, const two_shot_room& room,
                              std::uint32_t step_units) {
  const unsigned slot = c.map.slot(s.epoch());
  const auto size = static_cast<std::uint32_t>(whole.part.size());
  const std::uint32_t steps = size > step_units ? static_cast<std::uint32_t>(units_of(size, step_units)) : 1;
  const auto scattered = [&](int p, std::uint32_t step) {
    return c.map.bulk_offset(slot, static_cast<unsigned>(p)) + room.begin + step % c.map.step_places * room.place;
  };
  const auto gathered = [&](int p, std::uint32_t step) { return scattered(p, step) + room.gathered; };
  // The epoch says enough of a single step; see step_number() of several.
  const bool is_single = room.place == 0;
  const auto number = [&](std::uint32_t step) { return is_single ? s.epoch() : step_number(s.epoch(), step + 1); };
  const flag_family to_owners = is_single ? flag_family::scatter : flag_family::scatter_step,
                    to_all = is_single ? flag_family::gather : flag_family::gather_step;
  const auto cut = [&](std::uint32_t step) {
    const std::uint64_t begin = whole.part.begin + std::uint64_t{step} * step_units;
    const std::uint64_t end = begin + step_units;
    return shares{whole.size, whole.total, {begin, end < whole.part.end ? end : whole.part.end}};
  };

  put_headers(s, c);
#pragma unroll 1
  for (std::uint32_t round = 0; round < steps + 2; ++round) {
    if (round < steps) {
      push_shares(s, c, red, cut(round), scattered(c.rank, round));
      if (round == 0) sent(s);
      post_all(s, c, to_owners, number(round));
    }
    if (round >= 1 && round <= steps) {
      const std::uint32_t step = round - 1;
      const bool good =
          (step != 0 || check_headers(s, c)) && await_all(s, c, to_owners, phase::scatter, number(step));
      if (!s.all(good)) return false;
      if (step == 0) received(s);
      reduce_in_rank_order(
          s, c, red, cut(step).of(c.rank), [&](int p) { return scattered(p, step); }, true, gathered(c.rank, step));
      post_all(s, c, to_all, number(step));
    }
    if (round >= 2) {
      const std::uint32_t step = round - 2;
      if (!s.all(await_all(s, c, to_all, phase::gather, number(step)))) return false;
      deliver_shares(s, c, red, cut(step), [&](int p) { return gathered(p, step); });
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
    push_shares(s, c, red, cut, scattered(c.rank));
    if (!exchange_first_phase(s, c, flag_family::scatter, phase::scatter)) return false;
    reduce_in_rank_order(s, c, red, cut.of(c.rank), scattered, true, gathered(c.rank));
    post_all(s, c, flag_family::gather);
    if (!s.all(await_all(s, c, flag_family::gather, phase::gather))) return false;
    deliver_shares(s, c, red, cut, gathered);
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
