// SPDX-License-Identifier: BSD-3-Clause
//
// SipHash-2-4 against published values: the paper's appendix (15 bytes) and its authors' table of test vectors,
// with the key 00 01 .. 0f and the messages 00 01 02 ..; any second implementation prints the same, for one
// `openssl mac -macopt hexkey:000102030405060708090a0b0c0d0e0f -macopt size:8 -in FILE SIPHASH`.
#include "base/keyed_hash.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace xyl {
namespace {

hash_key counting_key() {
  hash_key key;
  std::iota(key.begin(), key.end(), std::uint8_t{0});
  return key;
}

std::uint64_t of_counting_bytes(const hash_key& key, std::size_t bytes) {
  std::vector<std::uint8_t> message(bytes);
  std::iota(message.begin(), message.end(), std::uint8_t{0});
  return keyed_hash(key, message);
}

TEST(keyed_hash, gives_the_published_values) {
  EXPECT_EQ(of_counting_bytes(counting_key(), 0), 0x726fdb47dd0e0e31u);
  EXPECT_EQ(of_counting_bytes(counting_key(), 1), 0x74f839c593dc67fdu);
  EXPECT_EQ(of_counting_bytes(counting_key(), 8), 0x93f5f5799a932462u);
  EXPECT_EQ(of_counting_bytes(counting_key(), 15), 0xa129ca6149be45e5u);
  EXPECT_EQ(of_counting_bytes(counting_key(), 16), 0x3f2acc7f57c29bdbu);
  EXPECT_EQ(of_counting_bytes(counting_key(), 63), 0x958a324ceb064572u);
}

TEST(keyed_hash, depends_on_every_bit_of_the_key) {
  const std::uint64_t before = of_counting_bytes(counting_key(), 20);
  for (std::size_t bit = 0; bit < 128; ++bit) {
    hash_key other = counting_key();
    other[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    EXPECT_NE(of_counting_bytes(other, 20), before) << bit;
  }
}

}  // namespace
}  // namespace xyl
