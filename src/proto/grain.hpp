// SPDX-License-Identifier: BSD-3-Clause
//
// Words of user memory whose type does not matter, 8 (packets) or 16 bytes (bulk) at a time. A buffer has a grain:
// the power of two up to 16 that its address, and whatever is added to it, are multiples of. Whole words are moved
// in machine accesses of that size; the last word of a piece may be short, and goes byte by byte.
#pragma once

#include "proto/user_memory.hpp"

namespace xyl {

// stride: between the pieces of the buffer, in bytes.
XYL_FN unsigned grain_of(const void* buffer, std::uint64_t stride) {
  const std::uint64_t bits = reinterpret_cast<std::uintptr_t>(buffer) | stride | 16;
  return static_cast<unsigned>(bits & (~bits + 1));
}

template <class Word, class Access>
XYL_FN Word load_in_steps(const std::byte* from) {
  Access in[sizeof(Word) / sizeof(Access)];
#pragma unroll
  for (unsigned i = 0; i < sizeof(Word) / sizeof(Access); ++i)
    in[i] = reinterpret_cast<const overlay<Access>*>(from)[i].word;
  Word word;
  memcpy(&word, in, sizeof word);
  return word;
}
template <class Access, class Word>
XYL_FN void store_in_steps(std::byte* to, const Word& word) {
  Access out[sizeof(Word) / sizeof(Access)];
  memcpy(out, &word, sizeof word);
#pragma unroll
  for (unsigned i = 0; i < sizeof(Word) / sizeof(Access); ++i)
    reinterpret_cast<overlay<Access>*>(to)[i].word = out[i];
}

// left: bytes from `from` to the end of the piece, not 0; what lies behind the end reads as zero.
template <class Word>
XYL_FN Word load_grained(const std::byte* from, std::uint64_t left, unsigned grain) {
  if (left >= sizeof(Word)) [[likely]] {
    if (grain >= sizeof(Word)) [[likely]]
      return reinterpret_cast<const overlay<Word>*>(from)->word;
    if (grain >= 8) return load_in_steps<Word, std::uint64_t>(from);
    if (grain == 4) return load_in_steps<Word, std::uint32_t>(from);
    if (grain == 2) return load_in_steps<Word, std::uint16_t>(from);
    return load_in_steps<Word, std::uint8_t>(from);
  }
  std::uint8_t in[sizeof(Word)];
#pragma unroll
  for (unsigned i = 0; i < sizeof(Word); ++i) in[i] = i < left ? static_cast<std::uint8_t>(from[i]) : 0;
  Word word;
  memcpy(&word, in, sizeof word);
  return word;
}

template <class Word>
XYL_FN void store_grained(std::byte* to, std::uint64_t left, unsigned grain, const Word& word) {
  if (left >= sizeof(Word)) [[likely]] {
    if (grain >= sizeof(Word)) [[likely]]
      reinterpret_cast<overlay<Word>*>(to)->word = word;
    else if (grain >= 8)
      store_in_steps<std::uint64_t>(to, word);
    else if (grain == 4)
      store_in_steps<std::uint32_t>(to, word);
    else if (grain == 2)
      store_in_steps<std::uint16_t>(to, word);
    else
      store_in_steps<std::uint8_t>(to, word);
    return;
  }
  std::uint8_t out[sizeof(Word)];
  memcpy(out, &word, sizeof word);
#pragma unroll
  for (unsigned i = 0; i < sizeof(Word); ++i)
    if (i < left) to[i] = static_cast<std::byte>(out[i]);
}

}  // namespace xyl
