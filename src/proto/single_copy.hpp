// SPDX-License-Identifier: BSD-3-Clause
//
// Long pieces without staging, for the collectives that only move data: whoever gets a piece takes it straight from
// the sender's own buffer into its output, see offer.hpp. Offers lie beside the headers. Who has taken all it gets
// from a rank posts `taken` to it, and nobody returns before everybody has taken what it offers. Launches are of
// one block, whose first lane takes.
#pragma once

#include "proto/exchange.hpp"
#include "proto/offer.hpp"

namespace xyl {

template <taking_space S, class Call>
bool single_copy_exchange_block(S& s, const Call& c, const movement& m) {
  const unsigned slot = c.map.slot(s.epoch());
  const auto beside_header = [&](int p) { return c.map.inline_offset(slot, static_cast<unsigned>(p)); };
  const auto gets_from = [&](int p) { return m.goes(p, c.rank); };
  const auto gives_to = [&](int p) { return m.goes(c.rank, p); };

  if (s.lane() == 0)
    for (int p = 0; p < c.ranks; ++p)
      if (p != c.rank && gives_to(p))
        *at<offer>(c, p, beside_header(c.rank)) =
            offer::of(c.input + m.input_stride * static_cast<unsigned>(p), m.bytes);
  s.sync();  // the lane that puts a header speaks for the first lane's offer
  put_headers(s, c);
  if (!s.all(check_headers(s, c))) return false;

  bool good = true;
  if (s.lane() == 0)
    for (int k = 1; k < c.ranks && good; ++k)
      if (const int p = rank_after(c, k); gets_from(p))
        good = take_offer(s, *at<const offer>(c, c.rank, beside_header(p)),
                          c.output + m.output_stride * static_cast<unsigned>(p), m.bytes, p);
  if (!s.all(good)) return false;
  post_some(s, c, flag_family::taken, gets_from);
  if (s.lane() == 0 && gives_to(c.rank)) {
    // While others still take.
    const auto self = static_cast<unsigned>(c.rank);
    std::byte* const to = c.output + m.output_stride * self;
    const std::byte* const from = c.input + m.input_stride * self;
    if (to != from) memcpy(to, from, m.bytes);
  }
  return s.all(await_some(s, c, flag_family::taken, phase::taken, gives_to));
}

template <taking_space S, class Call>
bool single_copy_exchange(S& s, const Call& c, const movement& m) {
  const bool good = s.begin() && single_copy_exchange_block(s, c, m);
  s.leave();
  return good;
}

}  // namespace xyl
