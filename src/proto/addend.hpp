// SPDX-License-Identifier: BSD-3-Clause
//
// What is added to the sum of all ranks before its one rounding: the residual of a fused call that makes the norms
// in a launch of its own. The same values on all ranks, so whoever finishes an element adds it. It is aligned to 16
// bytes, and such a call has whole units of as many: rows of the fused calls are.
#pragma once

#include <type_traits>

#include "proto/reduction.hpp"
#include "proto/user_memory.hpp"

namespace xyl {

// Kernels for a constant number of ranks are sums; only they look for an addend, and only in an allreduce's call.
template <class R, class Call>
concept takes_addend = R::ranks != 0 && std::is_same_v<typename R::accumulator, float>&& requires(const Call& c) {
  c.addend;
};

template <class R, class Call>
XYL_FN bool has_addend(const Call& c) {
  if constexpr (takes_addend<R, Call>)
    return c.addend != nullptr;
  else
    return false;
}

// The word of the addend that begins with that element.
template <class R, class Call>
XYL_FN std::uint64_t load_addend(const Call& c, std::uint64_t element) {
  return load_user<typename R::element, std::uint64_t, true>(c.addend, element, c.count, true);
}

template <class R>
XYL_FN void add_word(const R& red, std::uint64_t word, typename R::accumulator (&acc)[R::accumulators]) {
  typename R::accumulator value[R::accumulators];
  red.decode(word, value);
#pragma unroll
  for (int k = 0; k < R::accumulators; ++k) acc[k] = acc[k] + value[k];
}

// The end of a reduction, of the word that begins with that element.
template <class R, class Call>
XYL_FN void finish_word(const Call& c, const R& red, std::uint64_t element,
                        typename R::accumulator (&acc)[R::accumulators]) {
#pragma unroll
  for (int k = 0; k < R::accumulators; ++k) acc[k] = red.finish(acc[k]);
  if constexpr (takes_addend<R, Call>)
    if (c.addend != nullptr) add_word(red, load_addend<R>(c, element), acc);
}

}  // namespace xyl
