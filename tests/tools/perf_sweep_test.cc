// SPDX-License-Identifier: BSD-3-Clause
//
// Which lines a sweep has, from options alone.
#include "tools/perf_sweep.hpp"

#include <gtest/gtest.h>

#include <string>

namespace xyl {
namespace {

std::vector<perf_line> lines(const std::string& name, const perf_options& options, int ranks) {
  for (const perf_collective& c : perf_collectives())
    if (name == c.name) return plan_lines(options, c, ranks);
  ADD_FAILURE() << "no " << name;
  return {};
}

perf_options from_to(std::uint64_t least, std::uint64_t most) {
  perf_options options;
  options.least_bytes = least;
  options.most_bytes = most;
  return options;
}

TEST(perf_sweep, sizes_that_come_to_the_same_count_make_one_line) {
  const std::vector<perf_line> all = lines("allgather", from_to(8, 64), 3);  // 8, 16, 32 and 64 bytes of floats
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].count, 1u);
  EXPECT_EQ(all[1].count, 2u);
  EXPECT_EQ(all[2].count, 5u);
  EXPECT_EQ(all[0].root, -1);
}

TEST(perf_sweep, operations_only_where_something_is_reduced) {
  perf_options options = from_to(8, 8);
  options.types = {xylInt32, xylFloat32};
  options.operations = {xylSum, xylBitXor};
  EXPECT_EQ(lines("allreduce", options, 2).size(), 3u) << "no xor of floats";
  EXPECT_EQ(lines("broadcast", options, 2).size(), 2u);
}

TEST(perf_sweep, one_root_or_all) {
  perf_options options = from_to(8, 16);
  options.root = 2;
  for (const char* name : {"reduce", "broadcast", "gather", "scatter"}) {
    const std::vector<perf_line> one = lines(name, options, 3);
    ASSERT_EQ(one.size(), name[0] == 'r' || name[0] == 'b' ? 2u : 1u) << name;
    EXPECT_EQ(one[0].root, 2);
  }
  EXPECT_EQ(lines("allreduce", options, 3)[0].root, -1);
  options.root = all_roots;
  const std::vector<perf_line> all = lines("reduce", options, 3);
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[0].root, 0);
  EXPECT_EQ(all[5].root, 2);
}

TEST(perf_sweep, a_barrier_is_one_line) {
  const std::vector<perf_line> all = lines("barrier", from_to(8, 1 << 20), 3);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].count, 0u);
}

}  // namespace
}  // namespace xyl
