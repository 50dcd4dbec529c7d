// SPDX-License-Identifier: BSD-3-Clause
#include "comm/ladder.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace xyl {
namespace {

using times = std::function<double(algorithm, double)>;

topo::tuning climbed(const times& us, bool deterministic = false, int at_most = 1000, bool packets = true,
                     bool wide_packets = true) {
  ladder l(deterministic, packets, wide_packets, wide_packets);
  for (int i = 0; l.next(); ++i) {
    if (i == at_most) {
      l.stop();
      break;
    }
    l.timed(us(l.next()->how, static_cast<double>(l.next()->bytes)));
  }
  return l.thresholds();
}

algorithm chosen(const topo::tuning& t, std::uint64_t bytes) {
  for (const auto& r : t.thresholds.at(0).second)
    if (bytes <= r.up_to_bytes)
      for (int a = 0; a < algorithms; ++a)
        if (topo::method_of(static_cast<algorithm>(a)) == r.how) return static_cast<algorithm>(a);
  ADD_FAILURE();
  return algorithm::packet;
}

// A machine whose times are lines: the thresholds are where they cross.
double lines(algorithm how, double bytes) {
  switch (how) {
    case algorithm::packet:
      return 2 + bytes * 2e-3;
    case algorithm::two_shot_packet:
      return 4 + bytes * 1e-3;
    case algorithm::one_shot:
      return 6 + bytes * 1.5e-3;
    case algorithm::wide_packet:  // never the best
    case algorithm::line_packet:
      return 6.5 + bytes * 1.5e-3;
    case algorithm::two_shot:
      return 9 + bytes * 0.5e-3;
    case algorithm::ring:
      return 60 + bytes * 0.4e-3;
  }
  return 0;
}

TEST(ladder, finds_where_lines_cross) {
  const topo::tuning t = climbed(lines);
  // packet and two_shot_packet at 2,000 bytes, two_shot from 10,000, ring from 510,000.
  for (std::uint64_t bytes : {1ull, 256ull, 1900ull}) EXPECT_EQ(chosen(t, bytes), algorithm::packet) << bytes;
  for (std::uint64_t bytes : {2100ull, 9000ull}) EXPECT_EQ(chosen(t, bytes), algorithm::two_shot_packet) << bytes;
  for (std::uint64_t bytes : {11000ull, 500000ull}) EXPECT_EQ(chosen(t, bytes), algorithm::two_shot) << bytes;
  for (std::uint64_t bytes : {2ull << 20, 1ull << 40}) EXPECT_EQ(chosen(t, bytes), algorithm::ring) << bytes;
  EXPECT_EQ(t.thresholds[0].second.back().up_to_bytes, UINT64_MAX);
  for (std::size_t i = 1; i < t.thresholds[0].second.size(); ++i)
    EXPECT_LT(t.thresholds[0].second[i - 1].up_to_bytes, t.thresholds[0].second[i].up_to_bytes);
}

TEST(ladder, what_is_hopeless_is_not_timed_for_ever) {
  const topo::tuning t = climbed(lines);
  std::uint64_t longest = 0;
  for (const topo::measured_time& m : t.measured) {
    EXPECT_GT(m.us, 0);
    if (m.how == topo::method::packet) longest = std::max(longest, m.bytes);
  }
  EXPECT_LT(longest, ladder::largest);
  EXPECT_GT(longest, ladder::smallest);
}

TEST(ladder, deterministic_leaves_out_the_ring) {
  for (const topo::measured_time& m : climbed(lines, true).measured) EXPECT_NE(m.how, topo::method::ring);
}

TEST(ladder, leaves_out_packets_where_they_must_not_be_used) {
  const topo::tuning t = climbed(lines, false, 1000, false);
  EXPECT_FALSE(t.measured.empty());
  for (const topo::measured_time& m : t.measured) {
    EXPECT_NE(m.how, topo::method::packet);
    EXPECT_NE(m.how, topo::method::two_shot_packet);
  }
}

TEST(ladder, a_difference_within_the_scatter_changes_nothing) {
  int call = 0;
  const topo::tuning t = climbed([&](algorithm, double bytes) { return 5 + bytes * 1e-3 + 0.01 * (call++ % 7); });
  EXPECT_EQ(t.thresholds[0].second.size(), 1u);
}

TEST(ladder, stopped_early_it_knows_the_sizes_that_were_finished) {
  const topo::tuning t = climbed(lines, false, 7);
  std::set<std::uint64_t> sizes;
  for (const topo::measured_time& m : t.measured) sizes.insert(m.bytes);
  EXPECT_EQ(sizes, (std::set<std::uint64_t>{256}));
  EXPECT_EQ(t.thresholds[0].second.size(), 1u);
  EXPECT_TRUE(climbed(lines, false, 2).thresholds.empty());
}

}  // namespace
}  // namespace xyl
