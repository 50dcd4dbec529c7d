// SPDX-License-Identifier: BSD-3-Clause
//
// Shares: a message in as many parts as there are ranks, each dealt with by one of them. How a block's parts of all
// shares get to their owners, and the results back. Relies on bulk data as bulk.hpp does.
#pragma once

#include <type_traits>

#include "proto/bulk.hpp"

namespace xyl {

// A message in as many shares as there are ranks, and the part of each share that one block deals with; in units,
// all but the last shares whole.
struct shares {
  std::uint64_t size;   // of a share
  std::uint64_t total;  // of the message
  range part;           // inside a share

  // This part of rank p's share.
  XYL_FN range of(int p) const {
    const std::uint64_t begin = size * static_cast<unsigned>(p);
    return {at_most_total(begin + part.begin), at_most_total(begin + part.end)};
  }
  // The same from unit `inside` of the part on.
  XYL_FN range rest_of(int p, std::uint64_t inside) const {
    const range r = of(p);
    return {r.begin + inside < r.end ? r.begin + inside : r.end, r.end};
  }
  // How many units of this part, from its beginning, are whole in the user's buffer in all shares.
  XYL_FN std::uint64_t whole(std::uint64_t whole_units, int ranks) const {
    const std::uint64_t before = size * static_cast<unsigned>(ranks - 1) + part.begin;
    const std::uint64_t left = whole_units > before ? whole_units - before : 0;
    return left < part.size() ? left : part.size();
  }

 private:
  XYL_FN std::uint64_t at_most_total(std::uint64_t u) const { return u < total ? u : total; }
};

// Units of a share that a lane has on the way at once for each peer, where their number is a constant: so many that
// the loads of a block hide how long each takes.
XYL_FN constexpr int shares_unroll(int ranks) { return ranks == 2 ? 4 : ranks <= 4 ? 2 : 1; }

// f(x, n): n places of this lane from x on, `lanes` apart, where as many are there; then those that are left.
template <int Unroll, class F>
XYL_FN void in_batches(std::uint64_t first, std::uint64_t lanes, std::uint64_t end, F f) {
  std::uint64_t x = first;
  if constexpr (Unroll > 1)
    for (; x + (Unroll - 1) * lanes < end; x += Unroll * lanes) f(x, std::integral_constant<int, Unroll>());
  for (; x < end; x += lanes) f(x, std::integral_constant<int, 1>());
}

// Copies this block's part of rank p's share, of all peers p, to offset to(p) of that peer's workspace or (keeps) of
// this rank's own. Where the number of ranks is a constant, a lane loads for all peers before it stores for any.
template <class S, class Call, class R, class To>
XYL_FN void push_shares(S& s, const Call& c, const R& red, const shares& cut, bool keeps, To to) {
  const int ranks = R::ranks ? R::ranks : c.ranks;
  std::uint64_t done = 0;
  if constexpr (R::ranks != 0) {
    if (is_aligned(c.input, 16)) done = cut.whole(c.count / per_unit(red), ranks);
    const std::uint64_t lanes = s.lanes();
    in_batches<shares_unroll(R::ranks)>(
        s.lane(), lanes, done, [&]<int N>(std::uint64_t x, std::integral_constant<int, N>) {
          unit16 data[N][R::ranks - 1];
#pragma unroll
          for (int i = 0; i < N; ++i)
#pragma unroll
            for (int k = 1; k < R::ranks; ++k) {
              const int p = c.rank + k < ranks ? c.rank + k : c.rank + k - ranks;
              data[i][k - 1] = load_once(
                  s, user_unit(c.input, cut.size * static_cast<unsigned>(p) + cut.part.begin + x + i * lanes));
            }
#pragma unroll
          for (int k = 1; k < R::ranks; ++k) {
            const int p = c.rank + k < ranks ? c.rank + k : c.rank + k - ranks;
#pragma unroll
            for (int i = 0; i < N; ++i)
              s.store16(at<unit16>(c, keeps ? c.rank : p, to(p)) + x + i * lanes, data[i][k - 1]);
          }
        });
    if (done == cut.part.size()) return;
  }
#pragma unroll 1
  for (int k = 1; k < ranks; ++k) {
    const int p = c.rank + k < ranks ? c.rank + k : c.rank + k - ranks;
    push_input(s, c, red, cut.rest_of(p, done), to(p) + done * 16, keeps ? 0 : k, keeps ? 0 : k);
  }
}

// Copies this block's part of each peer's share, which lies at workspace offset from(p) of this rank or (of_owners)
// of that peer, to the output.
template <class S, class Call, class R, class From>
XYL_FN void deliver_shares(S& s, const Call& c, const R& red, const shares& cut, bool of_owners, From from) {
  const int ranks = R::ranks ? R::ranks : c.ranks;
  std::uint64_t done = 0;
  if constexpr (R::ranks != 0) {
    if (is_aligned(c.output, 16)) done = cut.whole(c.count / per_unit(red), ranks);
    const std::uint64_t lanes = s.lanes();
    in_batches<shares_unroll(R::ranks)>(
        s.lane(), lanes, done, [&]<int N>(std::uint64_t x, std::integral_constant<int, N>) {
          unit16 data[N][R::ranks - 1];
#pragma unroll
          for (int i = 0; i < N; ++i)
#pragma unroll
            for (int k = 1; k < R::ranks; ++k) {
              const int p = c.rank + k < ranks ? c.rank + k : c.rank + k - ranks;
              data[i][k - 1] = s.load_peer16(at<const unit16>(c, of_owners ? p : c.rank, from(p)) + x + i * lanes);
            }
#pragma unroll
          for (int k = 1; k < R::ranks; ++k) {
            const int p = c.rank + k < ranks ? c.rank + k : c.rank + k - ranks;
#pragma unroll
            for (int i = 0; i < N; ++i)
              store_once(s,
                         user_unit(c.output, cut.size * static_cast<unsigned>(p) + cut.part.begin + x + i * lanes),
                         data[i][k - 1]);
          }
        });
    if (done == cut.part.size()) return;
  }
#pragma unroll 1
  for (int k = 1; k < ranks; ++k) {
    const int p = c.rank + k < ranks ? c.rank + k : c.rank + k - ranks;
    deliver(s, c, red, cut.rest_of(p, done), of_owners ? p : c.rank, from(p) + done * 16);
  }
}

}  // namespace xyl
