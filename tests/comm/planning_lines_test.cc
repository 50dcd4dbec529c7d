// SPDX-License-Identifier: BSD-3-Clause
//
// Whether allreduces go in lines of 128 or of 16 bytes: where their paths were chosen, and where somebody wants it.
#include "comm/made_ranks.hpp"
#include "support/own_folder.hpp"
#include "topo/built_machines.hpp"

namespace xyl {
namespace {

using test::description_of;
using test::has_note;
using test::made_ranks;

class planning_lines : public test::with_a_folder {
 protected:
  planning_lines() : with_a_folder("planning_lines_test") {}
};

TEST_F(planning_lines, lines_of_128_bytes_are_used_where_their_path_is_and_nowhere_else) {
  made_ranks ranks(topo::test::one_switch(2), {0, 1});
  sync_decision sync;
  const auto decide = [&](bool is_wish = false) {
    ranks.wishes.forced_algorithm.reset();
    if (is_wish) ranks.wishes.forced_algorithm = algorithm::wide_packet;
    planning_input in = ranks.input();
    in.sync = &sync;
    planned p;
    EXPECT_TRUE(make_choice(in, p).ok());
    EXPECT_TRUE(p.agreed.plausible(2));
    return p;
  };
  const auto uses = [](const planned& p, std::uint64_t bytes, bool all_reduces = true) {
    const selection& s = p.agreed.choice;
    return s.choose(s.device, bytes, all_reduces) == algorithm::wide_packet;
  };
  for (std::uint64_t bytes = 1; bytes < 1ull << 32; bytes *= 2) {
    EXPECT_FALSE(uses(decide(), bytes)) << bytes;
    EXPECT_FALSE(uses(decide(true), bytes)) << bytes;
  }
  EXPECT_TRUE(has_note(description_of(decide(true)), "XYLEM_ALGO=ll128 is not possible here"));
  sync.choice.wide_packets = true;
  const planned p = decide();
  EXPECT_TRUE(uses(p, 1 << 20));
  EXPECT_FALSE(uses(p, 1 << 20, false)) << "other collectives have no such form";
  EXPECT_FALSE(uses(p, 64 << 20));
  EXPECT_FALSE(uses(p, 1));
  EXPECT_NE(p.agreed.choice.choose(p.agreed.choice.host, 1 << 20, true), algorithm::wide_packet);
  EXPECT_NE(description_of(p).dump().find("{\"up_to\":2097152,\"algorithm\":\"ll128\"}"), std::string::npos);
  for (std::uint64_t bytes = 1; bytes < 1ull << 32; bytes *= 2) {
    EXPECT_TRUE(uses(decide(true), bytes)) << bytes;
    const selection forced = decide(true).agreed.choice;
    EXPECT_EQ(forced.choose(forced.host, bytes, true), algorithm::one_shot) << "not between processors";
  }
}

TEST_F(planning_lines, lines_of_16_bytes_are_used_in_host_memory_where_their_path_is) {
  made_ranks ranks(topo::test::one_switch(2), {0, 1});
  sync_decision sync;
  sync.choice.line_packets = true;
  bool is_staged = true;
  const auto decide = [&](std::optional<algorithm> wish = {}) {
    ranks.wishes.forced_algorithm = wish;
    planning_input in = ranks.input();
    in.sync = &sync;
    in.is_staged = is_staged;
    planned p;
    EXPECT_TRUE(make_choice(in, p).ok());
    EXPECT_TRUE(p.agreed.plausible(2));
    return p;
  };
  const auto choice = [](const planned& p, std::uint64_t bytes, int operation = xylSum, int type = xylBfloat16) {
    const selection& s = p.agreed.choice;
    return s.choose(s.device, bytes, s.has_lines_for(type, operation));
  };
  const planned p = decide();
  EXPECT_EQ(choice(p, 128 << 10), algorithm::line_packet);
  EXPECT_NE(choice(p, 128 << 10, xylMax), algorithm::line_packet) << "there are sums alone";
  EXPECT_NE(choice(p, 128 << 10, xylSum, xylInt32), algorithm::line_packet);
  EXPECT_EQ(choice(p, 64 << 20), algorithm::one_shot);
  EXPECT_EQ(choice(decide(algorithm::line_packet), 8), algorithm::line_packet);
  EXPECT_EQ(choice(decide(algorithm::line_packet), 8, xylAvg), algorithm::one_shot);
  // The other kind has no memory here.
  for (const std::uint64_t bytes : {8ull, 256ull << 10, 8ull << 20})
    EXPECT_NE(choice(decide(algorithm::wide_packet), bytes), algorithm::wide_packet);
  EXPECT_TRUE(has_note(description_of(decide(algorithm::wide_packet)), "XYLEM_ALGO=ll128 is not possible here"));
  // Elsewhere nobody has found it faster, but who wants it has it.
  is_staged = false;
  for (std::uint64_t bytes = 1; bytes < 1ull << 32; bytes *= 2)
    EXPECT_NE(choice(decide(), bytes), algorithm::line_packet) << bytes;
  EXPECT_EQ(choice(decide(algorithm::line_packet), 8), algorithm::line_packet);
}

}  // namespace
}  // namespace xyl
