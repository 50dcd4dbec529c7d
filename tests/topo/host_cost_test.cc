// SPDX-License-Identifier: BSD-3-Clause
//
// Predicted times of ranks on processors, from numbers made up so that sums can be done by hand.
#include "topo/host_cost.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace xyl::topo::test {
namespace {

// Stores at 10 GB/s, loads at 5, flags of 0.2 us, between all.
probe_report measured(std::uint32_t ranks) {
  probe_report r;
  r.on_host = true;
  for (std::uint32_t a = 0; a < ranks; ++a) {
    r.gpus.push_back("rank " + std::to_string(a));
    for (std::uint32_t b = 0; b < ranks; ++b)
      if (a != b) r.pairs.push_back({.from = a, .to = b, .push = 10, .pull = 5, .flag_us = 0.2});
  }
  return r;
}

line cost(const host_ranks& of, pattern what, method how, direction d = direction::push) {
  std::vector<int> ring;
  for (std::size_t i = 0; i < of.numa_of_rank.size(); ++i) ring.push_back(static_cast<int>(i));
  for (const candidate& c : host_candidates(of, what, ring))
    if (c.how == how && c.inside == d) return c.cost;
  ADD_FAILURE() << name_of(how) << " is not considered";
  return {};
}

// What chunks add is small, and not in sums done by hand.
constexpr double chunks = 0.01;

TEST(host_cost, a_message_is_stored_and_loaded_once_by_each_algorithms_count) {
  const int numa[] = {0, 0};
  const probe_report probe = measured(2);
  const host_ranks two{.numa_of_rank = numa, .processors = 2, .probe = &probe};
  const double call = two.constants.call_us;
  // ns per byte: 0.1 to store, 0.2 to load.
  const line one = cost(two, pattern::all_reduce, method::one_shot);
  EXPECT_NEAR(one.fixed_us, call + 0.2, 1e-9);
  EXPECT_NEAR(one.ns_per_byte, 0.3, chunks);
  const line shares = cost(two, pattern::all_reduce, method::two_shot);
  EXPECT_NEAR(shares.fixed_us, call + 0.4, 1e-9);
  EXPECT_NEAR(shares.ns_per_byte, 0.3, chunks);
  EXPECT_NEAR(cost(two, pattern::all_reduce, method::one_shot, direction::pull).ns_per_byte, 0.2, chunks);
  EXPECT_NEAR(cost(two, pattern::all_reduce, method::two_shot, direction::pull).ns_per_byte, 0.15, chunks);
  EXPECT_NEAR(cost(two, pattern::all_gather, method::one_shot).ns_per_byte, 0.15, chunks);
}

TEST(host_cost, shares_pay_among_many_and_a_ring_has_many_steps) {
  const int numa[] = {0, 0, 0, 0};
  const probe_report probe = measured(4);
  const host_ranks four{.numa_of_rank = numa, .processors = 4, .probe = &probe};
  const double call = four.constants.call_us;
  EXPECT_NEAR(cost(four, pattern::all_reduce, method::one_shot).ns_per_byte, 3 * 0.3, chunks);
  EXPECT_NEAR(cost(four, pattern::all_reduce, method::two_shot).ns_per_byte, 2 * 0.75 * 0.3, chunks);
  const line ring = cost(four, pattern::all_reduce, method::ring);
  EXPECT_NEAR(ring.fixed_us, call + 6 * 0.2, 1e-9);
  EXPECT_NEAR(ring.ns_per_byte, 2 * 0.75 * 0.3, chunks);
}

TEST(host_cost, ranks_that_share_processors_take_turns) {
  const int numa[] = {0, 0, 0, 0};
  const probe_report probe = measured(4);
  const line alone =
      cost({.numa_of_rank = numa, .processors = 4, .probe = &probe}, pattern::all_reduce, method::two_shot);
  const line sharing =
      cost({.numa_of_rank = numa, .processors = 1, .probe = &probe}, pattern::all_reduce, method::two_shot);
  EXPECT_GT(sharing.ns_per_byte, 3.9 * alone.ns_per_byte);
  EXPECT_GT(sharing.fixed_us, alone.fixed_us + 2);
}

TEST(host_cost, every_number_says_where_it_is_from) {
  const int numa[] = {0, 0, 1};
  const host_ranks unprobed{.numa_of_rank = numa};
  const host_route near = route_between(unprobed, 0, 1), far = route_between(unprobed, 0, 2);
  EXPECT_EQ(near.write.from, source::nominal);
  EXPECT_EQ(near.write.trust, confidence::low);
  EXPECT_GT(near.write.value, far.write.value);
  EXPECT_GT(near.read.value, far.read.value);
  EXPECT_LT(near.flag_us.value, far.flag_us.value);

  probe_report probe = measured(3);
  std::erase_if(probe.pairs, [](const probed_pair& p) { return p.to == 2; });
  probe.pairs[0].pull = 2;
  const host_ranks probed{.numa_of_rank = numa, .probe = &probe};
  EXPECT_EQ(route_between(probed, 0, 1).read, (figure{2, source::measured, confidence::high}));
  // The worst of the others, with less confidence.
  EXPECT_EQ(route_between(probed, 1, 2).read, (figure{2, source::measured, confidence::medium}));
  // The slowest pair decides, and is named.
  const int ring[] = {0, 1, 2};
  const auto all = host_candidates(probed, pattern::all_reduce, ring);
  const auto one_shot = std::find_if(all.begin(), all.end(), [](auto& c) { return c.how == method::one_shot; });
  ASSERT_NE(one_shot, all.end());
  EXPECT_NE(one_shot->phases[1].bottleneck.find("2.0 GB/s"), std::string::npos) << one_shot->phases[1].bottleneck;
  EXPECT_NE(one_shot->phases[1].bottleneck.find("rank 0 -> rank 1"), std::string::npos);

  // Of devices a report says nothing here.
  probe.on_host = false;
  EXPECT_EQ(route_between(probed, 0, 1).read.from, source::nominal);
}

TEST(host_cost, a_single_copy_saves_the_stores_and_pays_for_the_kernel) {
  const int numa[] = {0, 0};
  const probe_report probe = measured(2);
  const host_ranks two{.numa_of_rank = numa, .processors = 2, .probe = &probe};
  const line staged = cost(two, pattern::broadcast, method::one_shot);
  const line single = cost(two, pattern::broadcast, method::single_copy, direction::pull);
  EXPECT_GT(single.fixed_us, staged.fixed_us);
  EXPECT_NEAR(single.ns_per_byte, 0.2 + two.constants.kernel_page_ns / 4096, chunks);
}

}  // namespace
}  // namespace xyl::topo::test
