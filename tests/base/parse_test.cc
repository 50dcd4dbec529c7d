// SPDX-License-Identifier: BSD-3-Clause
//
// Strict numbers: what is a number, and everything that only looks like one.
#include "base/parse.hpp"

#include <gtest/gtest.h>

namespace xyl {
namespace {

TEST(parse, counts) {
  EXPECT_EQ(parse_count("0"), 0u);
  EXPECT_EQ(parse_count("007"), 7u);
  EXPECT_EQ(parse_count("18446744073709551615"), UINT64_MAX);
  for (const char* bad : {"", " 1", "1 ", "+1", "-1", "1.0", "1e3", "0x10", "4k", "true", "18446744073709551616"})
    EXPECT_EQ(parse_count(bad), std::nullopt) << bad;
}

TEST(parse, sizes) {
  EXPECT_EQ(parse_size("8"), 8u);
  EXPECT_EQ(parse_size("4k"), 4096u);
  EXPECT_EQ(parse_size("4K"), 4096u);
  EXPECT_EQ(parse_size("2M"), 2u << 20);
  EXPECT_EQ(parse_size("3g"), 3ull << 30);
  EXPECT_EQ(parse_size("17179869183G"), 17179869183ull << 30);
  for (const char* bad : {"", "K", "4KB", "4KiB", "4 K", "-4K", "1.5K", "4T", "true", "17179869184G"})
    EXPECT_EQ(parse_size(bad), std::nullopt) << bad;
}

TEST(parse, seconds) {
  EXPECT_EQ(parse_seconds("600"), 600'000'000'000);
  EXPECT_EQ(parse_seconds("0.01"), 10'000'000);
  EXPECT_EQ(parse_seconds(".5"), 500'000'000);
  EXPECT_EQ(parse_seconds("0.000000001"), 1);
  for (const char* bad :
       {"", ".", "-1", "+1", "1s", "1e3", "1e30", "inf", "nan", "1,5", "0x1", "1.2.3", " 1", "99999999999", "true"})
    EXPECT_EQ(parse_seconds(bad), std::nullopt) << bad;
}

TEST(parse, letters_of_either_case) {
  EXPECT_TRUE(equal_ignoring_case("Trace", "TRACE"));
  EXPECT_TRUE(equal_ignoring_case("", ""));
  EXPECT_FALSE(equal_ignoring_case("TRAC", "TRACE"));
  EXPECT_FALSE(equal_ignoring_case("[", "{"));
}

}  // namespace
}  // namespace xyl
