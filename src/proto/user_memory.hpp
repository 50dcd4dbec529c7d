// SPDX-License-Identifier: BSD-3-Clause
//
// Loads and stores of the user's buffers, which are aligned to their element only and may end in the middle of a
// word. Units are 8 bytes (packets) or 16 bytes (bulk). The aligned, whole case is one machine access; the others
// go element by element. Missing elements read as zero and are not stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "proto/space.hpp"

namespace xyl {

// A word laid over elements of another type, which the compiler must not take for a different object.
template <class Word>
struct [[gnu::may_alias]] overlay {
  Word word;
};

XYL_FN bool is_aligned(const void* p, unsigned bytes) {
  return (reinterpret_cast<std::uintptr_t>(p) & (bytes - 1)) == 0;
}

// Whether every word of the buffer is aligned and whole.
template <class T, class Word>
XYL_FN bool is_whole(const std::byte* buffer, std::uint64_t count) {
  return is_aligned(buffer, sizeof(Word)) && count % (sizeof(Word) / sizeof(T)) == 0;
}

// The elements [first, first + Word / sizeof(T)) of the buffer, of which `count` exist in all. Whole: is_whole()
// was asked.
template <class T, class Word, bool Whole = false>
XYL_FN Word load_user(const std::byte* buffer, std::uint64_t first, std::uint64_t count, bool aligned) {
  constexpr unsigned per_word = sizeof(Word) / sizeof(T);
  Word word{};
  if (Whole || (aligned && first + per_word <= count)) [[likely]] {
    word = reinterpret_cast<const overlay<Word>*>(buffer + first * sizeof(T))->word;
  } else {
    T in[per_word] = {};
#pragma unroll
    for (unsigned i = 0; i < per_word; ++i)
      if (first + i < count) in[i] = reinterpret_cast<const T*>(buffer)[first + i];
    memcpy(&word, in, sizeof word);
  }
  return word;
}

template <class T, class Word, bool Whole = false>
XYL_FN void store_user(std::byte* buffer, std::uint64_t first, std::uint64_t count, bool aligned, Word word) {
  constexpr unsigned per_word = sizeof(Word) / sizeof(T);
  if (Whole || (aligned && first + per_word <= count)) [[likely]] {
    reinterpret_cast<overlay<Word>*>(buffer + first * sizeof(T))->word = word;
  } else {
    T out[per_word];
    memcpy(out, &word, sizeof word);
#pragma unroll
    for (unsigned i = 0; i < per_word; ++i)
      if (first + i < count) reinterpret_cast<T*>(buffer)[first + i] = out[i];
  }
}

}  // namespace xyl
