// SPDX-License-Identifier: BSD-3-Clause
#include "base/keyed_hash.hpp"

#include <bit>

namespace xyl {
namespace {

std::uint64_t little_endian(const std::uint8_t* at, std::size_t bytes) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bytes; ++i) word |= static_cast<std::uint64_t>(at[i]) << 8 * i;
  return word;
}

// Section 2 of the paper.
struct sip_state {
  std::uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v2 += v3;
    v1 = std::rotl(v1, 13) ^ v0;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 = std::rotl(v0, 32);
    v2 += v1;
    v0 += v3;
    v1 = std::rotl(v1, 17) ^ v2;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 = std::rotl(v2, 32);
  }
  void absorb(std::uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

}  // namespace

std::uint64_t keyed_hash(const hash_key& key, std::span<const std::uint8_t> message) {
  const std::uint64_t k0 = little_endian(key.data(), 8), k1 = little_endian(key.data() + 8, 8);
  // The initial values are the paper's: "somepseudorandomlygeneratedbytes".
  sip_state s{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573};
  const std::size_t whole = message.size() / 8 * 8;
  for (std::size_t at = 0; at < whole; at += 8) s.absorb(little_endian(message.data() + at, 8));
  s.absorb(static_cast<std::uint64_t>(message.size() & 0xff) << 56 |
           little_endian(message.data() + whole, message.size() - whole));
  s.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) s.round();
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

}  // namespace xyl
