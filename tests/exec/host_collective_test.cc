// SPDX-License-Identifier: BSD-3-Clause
//
// The other collectives and transfers on the library's own host space, with ranks as threads: see
// host_space_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "exec/host_rank.hpp"
#include "exec/host_scale.hpp"

namespace xyl::test {
namespace {

class host_collectives : public testing::TestWithParam<int> {};

TEST_P(host_collectives, bytes_of_every_form_in_any_order) {
  machine_plan plan;
  plan.ranks = GetParam();
  plan.last_epoch = 0xfffffff0;
  plan.seed = static_cast<std::uint64_t>(plan.ranks);
  plan.spread = 3000;
  collective_machine<host_rank, host_call> machine(plan);
  std::mt19937 random(static_cast<unsigned>(plan.ranks));
  std::vector<collective_plan> calls;
  for (const form how : {form::packet, form::direct, form::pull, form::spread, form::single_copy, form::one_way,
                         form::direct_reduce, form::two_phase, form::shift})
    for (int what = static_cast<int>(collective::reduce); what <= static_cast<int>(collective::send); ++what)
      for (const std::uint64_t count :
           {std::uint64_t{0}, std::uint64_t{1 + random() % 15}, std::uint64_t{1 + random() % 120},
            std::uint64_t{1 + random() % 1000}, std::uint64_t{UINT64_MAX}}) {
        collective_plan c;
        c.how = how;
        c.what = static_cast<collective>(what);
        if (!does(c.how, c.what)) continue;
        c.kind = static_cast<int>(random() % kinds);
        c.count = std::min(count, largest_piece(how, machine.map(), element_bytes(c.kind)));
        c.root = static_cast<int>(random() % static_cast<unsigned>(plan.ranks));
        c.in_place = random() % 2;
        c.shift = random() % 4;
        c.offered = random() % 2;
        c.distance = 1 + static_cast<int>(random() % static_cast<unsigned>(plan.ranks - 1));
        calls.push_back(c);
      }
  std::shuffle(calls.begin(), calls.end(), random);
  ASSERT_TRUE(machine.run(calls));
  EXPECT_EQ(machine.check(), "");
}

INSTANTIATE_TEST_SUITE_P(ranks, host_collectives, testing::Values(2, 3, 4, 8));

TEST(host_transfers, that_differ_are_found_by_the_receiver) {
  machine_plan plan;
  collective_machine<host_rank, host_call> machine(plan);
  collective_plan c;
  c.how = form::shift;
  c.what = collective::send;
  c.count = 500;
  std::vector<collective_plan> calls(2, c);
  calls[1].odd_rank = 0;
  EXPECT_FALSE(machine.run(calls));
  for (int r = 0; r < 2; ++r) EXPECT_TRUE(machine.output(r, 1).untouched());
}

// Several messages of one pair in a group keep their order; others overtake them.
TEST(host_transfers, of_one_peer_and_direction_keep_their_order) {
  machine_plan plan;
  plan.ranks = 3;
  collective_machine<host_rank, host_call> machine(plan);
  constexpr std::size_t messages = 5, most = 700;
  std::vector<std::thread> threads;
  std::vector<std::vector<unsigned char>> got(3);
  std::atomic<int> failures{0};
  for (int r = 0; r < 3; ++r)
    threads.emplace_back([&, r] {
      host_call c;
      c.map = machine.map();
      c.rank = r;
      c.ranks = 3;
      for (int p = 0; p < 3; ++p) c.workspace[p] = machine.rank(r).workspaces[static_cast<unsigned>(p)];
      std::vector<std::vector<unsigned char>> sent;
      auto& mine = got[static_cast<unsigned>(r)];
      mine.assign(3 * messages * most, 0);
      std::vector<host_transfer> all;
      for (std::size_t k = 0; k < messages; ++k)
        for (int p = 0; p < 3; ++p) {
          if (p == r) continue;
          transfer t;
          t.peer = p;
          t.bytes = 1 + k * 150;
          t.fingerprint = 9;
          t.to = reinterpret_cast<std::byte*>(&mine[(static_cast<unsigned>(p) * messages + k) * most]);
          all.push_back({t, {}});
          sent.emplace_back(t.bytes, static_cast<unsigned char>(1 + r * 64 + p * 16 + static_cast<int>(k)));
          t.sends = true;
          t.from = reinterpret_cast<const std::byte*>(sent.back().data());
          all.push_back({t, {}});
        }
      host_rank s(machine.rank(r), 0, 1, 0, 0);
      if (!s.transfer_all(c, all)) ++failures;
    });
  for (auto& thread : threads) thread.join();
  ASSERT_EQ(failures.load(), 0);
  for (int r = 0; r < 3; ++r)
    for (int p = 0; p < 3; ++p)
      for (std::size_t k = 0; p != r && k < messages; ++k)
        for (std::size_t i = 0; i < most; ++i)
          ASSERT_EQ(got[static_cast<unsigned>(r)][(static_cast<unsigned>(p) * messages + k) * most + i],
                    i < 1 + k * 150 ? 1 + p * 64 + r * 16 + static_cast<int>(k) : 0);
}

TEST(host_scale, rounds_once_and_wraps) {
  const float x[3] = {1.5f, -2, 1e30f};
  float y[3];
  scaling s;
  s.type = xylFloat32;
  const float factor = 1e10f;
  std::memcpy(&s.bits, &factor, sizeof factor);
  scale_on_host(s, y, x, 3);
  EXPECT_EQ(y[0], 1.5e10f);
  EXPECT_EQ(y[1], -2e10f);
  EXPECT_TRUE(std::isinf(y[2]));
  const std::uint8_t a[2] = {200, 3};
  std::uint8_t b[2];
  s = {};
  s.type = xylUint8;
  s.bits = 2;
  scale_on_host(s, b, a, 2);
  EXPECT_EQ(b[0], 144);
  EXPECT_EQ(b[1], 6);
}

}  // namespace
}  // namespace xyl::test
