// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives on registered buffers: peers' inputs are read where they lie, and results are written to where they
// belong, with no staging. Three steps, in every protocol here:
//
//   arrive   headers that order (announce and hear): a rank's header says that its call has begun, and with it that
//            whatever wrote its input, in earlier launches, is done. Every block hears all of them itself, so that
//            nothing else is needed before a peer's memory is touched.
//   work     each element of a buffer is written by one rank, which alone reads what it overwrites.
//   depart   a block that has done its work (or read its last, where what it stores is nobody else's affair) tells the
//            peers' blocks of its index, and waits for the same of them: when all blocks have, this rank's input may
//            be changed, and what others write of its output is complete. Grids are equal on
//            all ranks. (A launch's last block could speak for its rank, but it would have to find out first that
//            it is the last: 0.4 us more.)
#pragma once

#include "proto/exchange.hpp"
#include "proto/forms.hpp"

namespace xyl {

template <int Capacity>
struct pull_call : call<Capacity> {
  // Every rank's, as this rank reaches it; this rank's own are `input` and `output`, the latter null where it gets
  // no result. Which of them are set depends on what is done.
  const std::byte* input_of[Capacity] = {};
  std::byte* output_of[Capacity] = {};
  // All of them are aligned to whole units.
  bool inputs_aligned = false, outputs_aligned = false;
};

// After begin_early(): what a header says is true by then, and its way to the peers is the longer one.
template <class S, class Call>
XYL_FN bool arrive_to_pull(S& s, const Call& c) {
  put_headers<true>(s, c);
  if (!join(s)) return false;
  sent(s);
  const bool good = s.all(check_headers<true>(s, c));
  received(s);
  return good;
}

// Only for blocks that have arrived, and have done their work, or what peers may see of it: which is the same part of
// all buffers for the blocks of one index. The barrier and the post's release cover what the lanes have read, too.
template <class S, class Call>
XYL_FN void begin_to_depart(S& s, const Call& c) {
  post_all(s, c, flag_family::pulled);
}
template <class S, class Call>
XYL_FN bool end_departure(S& s, const Call& c) {
  return s.all(await_all(s, c, flag_family::pulled, phase::pulled));
}
template <class S, class Call>
XYL_FN bool depart_from_pull(S& s, const Call& c) {
  begin_to_depart(s, c);
  return end_departure(s, c);
}

// Reduces units of all ranks' inputs, rank p's at input(p), in rank order. The result goes to so many outputs, this
// rank's first (none, its own, or everybody's), and, if `kept` is not null, to that place, which is of the first
// unit. has_read() is called once, by all lanes together, when this lane's part of the inputs has been read: where
// lanes have one batch of units, or are at their last, before these are stored.
template <class S, class Call, class R, class Input, class HasRead>
XYL_FN void reduce_inputs(S& s, const Call& c, const R& red, range units, Input input, bool inputs_aligned,
                          int outputs, std::byte* kept, HasRead has_read) {
  if constexpr (ranged_reduction<R>) {
    red.reduce_inputs(s, c, units, input, outputs, kept);
    has_read();
  } else {
    using T = typename R::element;
    const int ranks = R::ranks ? R::ranks : c.ranks;
    const std::uint64_t lanes = s.lanes();
    const std::uint64_t whole = whole_end(red, units, c.count, inputs_aligned && c.outputs_aligned);
    const std::uint64_t end = whole > units.begin ? whole : units.begin;
    std::uint64_t u = units.begin + s.lane();
    if constexpr (R::ranks != 0) {
      constexpr int batch = R::ranks, unroll = batch < 8 ? 8 / batch : 1;
#pragma unroll 1
      for (std::uint64_t first = units.begin; first < end; first += unroll * lanes) {
        unit16 data[unroll][batch];
        u = first + s.lane();
        // What does not exist is loaded from this lane's first place: loads under conditions of their own would wait
        // for each other.
        const auto place = [&](int j) { return u + j * lanes < end ? u + j * lanes : u; };
        if (u < end) {
#pragma unroll
          for (int j = 0; j < unroll; ++j)
#pragma unroll
            for (int p = 0; p < batch; ++p) data[j][p] = s.load_peer16(user_unit(input(p), place(j)));
#pragma unroll
          for (int j = 0; j < unroll; ++j) {
            typename R::accumulator acc[2][R::accumulators] = {};
#pragma unroll
            for (int p = 0; p < batch; ++p) combine_unit(red, p == 0, data[j][p], acc);
            data[j][0] = finish_unit(c, red, place(j), true, acc);
          }
        }
        if (units.end - first <= unroll * lanes && end == units.end) has_read();
        if (u >= end) break;
#pragma unroll
        for (int j = 0; j < unroll; ++j)
          if (kept != nullptr && u + j * lanes < end)
            s.store16(user_unit(kept, place(j) - units.begin), data[j][0]);
        for (int k = 0; k < outputs; ++k) {
          const int p = c.rank + k < ranks ? c.rank + k : c.rank + k - ranks;
#pragma unroll
          for (int j = 0; j < unroll; ++j)
            if (u + j * lanes < end) s.store16(user_unit(c.output_of[p], place(j)), data[j][0]);
        }
      }
      if (units.begin < units.end && end == units.end) return;
      u = end + s.lane();
    }
    for (; u < units.end; u += lanes) {
      typename R::accumulator acc[2][R::accumulators] = {};
      if (u < whole) {
        // Small elements take a register each, so fewer units fit in.
        constexpr int fitting = R::accumulators < 8 ? bulk_batch : bulk_batch / 2;
        constexpr int batch = R::ranks != 0 && R::ranks < fitting ? R::ranks : fitting;
        for (int first = 0; first < ranks; first += batch) {
          unit16 data[batch] = {};
#pragma unroll
          for (int i = 0; i < batch; ++i)
            if (first + i < ranks) data[i] = s.load_peer16(user_unit(input(first + i), u));
#pragma unroll
          for (int i = 0; i < batch; ++i)
            if (first + i < ranks) combine_unit(red, first + i == 0, data[i], acc);
        }
      } else {
        // Element by element, so one rank after the other: that is code enough.
#pragma unroll 1
        for (int p = 0; p < ranks; ++p)
          combine_unit(red, p == 0, load_user<T, unit16>(input(p), u * per_unit(red), c.count, inputs_aligned),
                       acc);
      }
      const unit16 sum = finish_unit(c, red, u, true, acc);
      if (kept != nullptr) s.store16(user_unit(kept, u - units.begin), sum);
#pragma unroll 1
      for (int k = 0; k < outputs; ++k) {
        const int p = c.rank + k < ranks ? c.rank + k : c.rank + k - ranks;
        store_user<T>(c.output_of[p], u * per_unit(red), c.count, c.outputs_aligned, sum);
      }
    }
    has_read();
  }
}

// Fetches this block's part of each peer's share of the result, which lies at offset `kept` of that peer's
// workspace. Who gets no result waits too: then all owners are done with its input.
template <class S, class Call, class R>
XYL_FN bool gather_results(S& s, const Call& c, const R& red, const shares& cut, std::uint64_t kept,
                           bool gets_result = true) {
  post_all(s, c, flag_family::pull_gather);
  if (!s.all(await_all(s, c, flag_family::pull_gather, phase::gather))) return false;
  if (!gets_result) return true;
  const unsigned grain = grain_of(c.output, 0);
#pragma unroll 1
  for (int k = 1; k < c.ranks; ++k) {
    const int p = rank_after(c, k);
    deliver_piece<false>(s, c, c.output, c.count * (16 / per_unit(red)), grain, cut.of(p), kept, p);
  }
  return true;
}

// The forms:
//
//   one_shot   Everybody who gets the result reads all of everybody's input. Nobody's output is another's input, nor
//              does anybody else look at it: so a block departs before it stores what it has read last, and while its
//              stores are under way the news of it is too.
//              Also reduce-scatter: inputs are then this rank's block of each.
//   two_shot   Each rank reduces its share of all inputs and writes it to all outputs. In place or not, but on all
//              ranks alike: nobody else reads or writes that share.
//   gathered   The same where only inputs are registered: shares of the result are fetched from their owners'
//              workspaces. Who has a block's part of such a share knows that the owner's block is done with its
//              input, so nothing is left to wait for; and the slot is used again no sooner than after the readers'
//              next headers. Grids are equal on all ranks. Of a reduce the root alone fetches.
template <class S, class Call, class R>
XYL_FN bool pull_reduce_block(S& s, const Call& c, const R& red, pull_form form) {
  const int ranks = R::ranks ? R::ranks : c.ranks;
  const std::uint64_t total = units_of(c.count, per_unit(red));
  const std::uint64_t size =
      form == pull_form::one_shot ? total : part_of(total, static_cast<unsigned>(ranks), 0).size();
  const shares cut{size, total, part_of_block(s, size)};
  // Registers are short behind the arrival: on some SMs the eight inputs of a rank leave none for this.
  read_turn(s);
  const std::uint64_t kept = c.map.bulk_offset(c.map.slot(s.epoch()), 0) + cut.part.begin * 16;

  if (!arrive_to_pull(s, c)) return false;
  const bool gets_result = c.output != nullptr;
  if (form == pull_form::one_shot && !gets_result) return depart_from_pull(s, c);
  reduce_inputs(
      s, c, red, cut.of(form == pull_form::one_shot ? 0 : c.rank), [&](int p) { return c.input_of[p]; },
      c.inputs_aligned, form == pull_form::two_shot ? ranks : gets_result,
      form == pull_form::gathered ? c.workspace[c.rank] + kept : nullptr,
      [&] {
        if (form == pull_form::one_shot) begin_to_depart(s, c);
      });
  if (form == pull_form::gathered) return gather_results(s, c, red, cut, kept, gets_result);
  if (form == pull_form::two_shot) begin_to_depart(s, c);
  return end_departure(s, c);
}

// Allgather and alltoall. inputs: input_of[p] is what rank p has for this rank. outputs: output_of[p] is where rank
// p wants what this rank has for it. Nobody's output is anybody's input, except that a piece may be in its place
// already.
template <class S, class Call>
XYL_FN void exchange_in_place(S& s, const Call& c, const movement& m, bool pushes, range part) {
#pragma unroll 1
  for (int k = 0; k < c.ranks; ++k) {
    const int p = rank_after(c, k);
    const std::byte* const from = pushes ? c.input + m.input_stride * static_cast<unsigned>(p) : c.input_of[p];
    std::byte* const to = pushes ? c.output_of[p] : c.output + m.output_stride * static_cast<unsigned>(p);
    const unsigned in_grain = grain_of(from, 0), out_grain = grain_of(to, 0);
    copy_piece(s, to, from, m.bytes, in_grain < out_grain ? in_grain : out_grain, part);
  }
}

// A broadcast: the root's data is in its own output first, if it is not there anyway, where its peers read it.
// Grids are equal on all ranks.
template <class S, class Call>
XYL_FN bool broadcast_in_place(S& s, const Call& c, const movement& m, range part) {
  const bool is_root = c.rank == m.from;
  const std::byte* const from = is_root ? c.input : c.output_of[m.from];
  const unsigned in_grain = grain_of(from, 0), out_grain = grain_of(c.output, 0);
  const auto the_root = [&](int p) { return p == m.from; };
  if (!is_root && !s.all(await_some(s, c, flag_family::pull_stage, phase::scatter, the_root))) return false;
  copy_piece(s, c.output, from, m.bytes, in_grain < out_grain ? in_grain : out_grain, part);
  if (is_root) post_all(s, c, flag_family::pull_stage);
  return true;
}

template <class S, class Call>
XYL_FN bool pull_exchange_block(S& s, const Call& c, const movement& m, window_use use) {
  const range part = part_of_block(s, units_of(m.bytes, 16));
  if (!arrive_to_pull(s, c)) return false;
  if (use != window_use::root_output)
    exchange_in_place(s, c, m, use == window_use::outputs, part);
  else if (!broadcast_in_place(s, c, m, part))
    return false;
  return depart_from_pull(s, c);
}

template <class S, class Call, class R>
XYL_FN bool pull_reduce(S& s, const Call& c, const R& red, pull_form form) {
  const bool good = begin_early(s) && pull_reduce_block(s, c, red, form);
  s.leave();
  return good;
}

template <class S, class Call>
XYL_FN bool pull_exchange(S& s, const Call& c, const movement& m, window_use use) {
  const bool good = begin_early(s) && pull_exchange_block(s, c, m, use);
  s.leave();
  return good;
}

}  // namespace xyl
