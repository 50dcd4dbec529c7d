// SPDX-License-Identifier: BSD-3-Clause
//
// Small cases in every interleaving: no deadlock and right results whatever the order in which lanes proceed; and
// protocols with planted faults, whose deadlocks must be found. The numbers of schedules and states of the tiniest
// cases are computed in another way, so that "every" cannot silently become "one".
#include <gtest/gtest.h>

#include <cstring>

#include "proto/mutants/faulty_space.hpp"
#include "proto/run_protocol.hpp"
#include "proto/schedule_world.hpp"

namespace xyl::test {
namespace {

using sum_of_floats = kind<float, operation::sum>;

struct planned {
  protocol how;
  std::uint64_t count;
  int odd_rank = -1;  // its fingerprint differs: all ranks must give up here, and nowhere else
  std::uint32_t step_units = 0;
  bool pulls = false;
};

template <class Call = call<machine_capacity>>
schedule_explorer::outcome explore_calls(int ranks, unsigned lanes, const std::vector<planned>& calls, bool merge,
                                         bool go_on = false) {
  world w(ranks, lanes);
  const std::size_t all = calls.size() * static_cast<unsigned>(ranks);
  std::vector<std::vector<float>> inputs(all), outputs(all);
  std::vector<char> good(all);
  for (std::size_t i = 0; i < all; ++i) {
    inputs[i].resize(calls[i / static_cast<unsigned>(ranks)].count);
    outputs[i].resize(inputs[i].size());
    for (std::size_t k = 0; k < inputs[i].size(); ++k)
      inputs[i][k] = input_element<float>(i / static_cast<unsigned>(ranks), static_cast<int>(i) % ranks, k);
  }
  const auto body = [&](schedule_space& s, int r) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const std::size_t mine = i * static_cast<unsigned>(ranks) + static_cast<unsigned>(r);
      Call c;
      w.fill(c, r);
      c.input = reinterpret_cast<const std::byte*>(inputs[mine].data());
      c.output = reinterpret_cast<std::byte*>(outputs[mine].data());
      c.count = calls[i].count;
      c.fingerprint = 0x1234567890abcdefull + i + 1000 * (r == calls[i].odd_rank);
      c.step_units = calls[i].step_units;
      c.pulls = calls[i].pulls;
      // A lane's own verdict; with several lanes the last one's stands for all.
      good[mine] = run_protocol<sum_of_floats, 0>(s, c, calls[i].how);
    }
  };
  const auto verdict = [&]() -> std::string {
    bool healthy = true;
    for (std::size_t i = 0; i < all; ++i) {
      const planned& call = calls[i / static_cast<unsigned>(ranks)];
      healthy = healthy && call.odd_rank < 0;
      if (static_cast<bool>(good[i]) != healthy) return healthy ? "a rank gave up" : "a rank did not give up";
      for (std::size_t k = 0; k < call.count; ++k) {
        const float expected = healthy ? expected_element<sum_of_floats>(call.how, i / static_cast<unsigned>(ranks),
                                                                         ranks, k, call.count)
                                       : 0;
        if (outputs[i][k] != expected) return "wrong result";
      }
    }
    for (int r = 0; r < ranks; ++r)
      if ((w.at(r).control(r).poisoned.word != 0) == healthy) return "wrong poison";
    return "";
  };
  return w.explore(merge, body, verdict, go_on, [&] {
    for (auto& output : outputs) std::fill(output.begin(), output.end(), 0.f);
  });
}

// Two ranks of one lane that do the same operations. needs[i]: how many the peer must have done before operation i.
struct grid {
  std::uint64_t paths = 0, states = 0;
  explicit grid(const std::vector<unsigned>& needs) {
    const std::size_t n = needs.size();
    std::vector<std::vector<std::uint64_t>> ways(n + 1, std::vector<std::uint64_t>(n + 1));
    ways[0][0] = 1;
    for (std::size_t a = 0; a <= n; ++a)
      for (std::size_t b = 0; b <= n; ++b) {
        if (a && needs[a - 1] <= b) ways[a][b] += ways[a - 1][b];
        if (b && needs[b - 1] <= a) ways[a][b] += ways[a][b - 1];
        states += ways[a][b] != 0;
      }
    paths = ways[n][n];
    --states;  // the last one has no choice
  }
};

TEST(schedule, numbers_of_the_tiniest_cases) {
  struct {
    planned call;
    std::vector<unsigned> needs;
  } const cases[] = {
      // begin, two halves of a header, its arrival, leave
      {{protocol::barrier, 0}, {0, 0, 0, 3, 0}},
      // the same with two halves of a packet and its arrival
      {{protocol::packet, 1}, {0, 0, 0, 0, 0, 3, 5, 0}},
      // with a store, a flag, its arrival, a load
      {{protocol::one_shot, 1}, {0, 0, 0, 0, 0, 3, 5, 0, 0}},
  };
  for (const auto& c : cases) {
    const grid expected(c.needs);
    const auto every = explore_calls(2, 1, {c.call}, false);
    EXPECT_EQ(every.failure, "");
    EXPECT_EQ(every.schedules, expected.paths) << name_of(c.call.how);
    EXPECT_EQ(every.runs, expected.paths);
    const auto merged = explore_calls(2, 1, {c.call}, true);
    EXPECT_EQ(merged.failure, "");
    EXPECT_EQ(merged.states, expected.states) << name_of(c.call.how);
  }
  EXPECT_EQ(explore_calls(2, 1, {{protocol::barrier, 0}}, false).schedules, 120u);
}

void expect_clean(int ranks, unsigned lanes, const std::vector<planned>& calls) {
  const auto result = explore_calls(ranks, lanes, calls, true);
  EXPECT_EQ(result.failure, "");
  EXPECT_GE(result.schedules, 1u);
  std::string text = std::to_string(ranks) + " ranks, " + std::to_string(lanes) + " lanes:";
  for (const planned& call : calls) text += std::string(" ") + name_of(call.how) + " " + std::to_string(call.count);
  std::printf("%s: %llu states, %llu runs\n", text.c_str(), static_cast<unsigned long long>(result.states),
              static_cast<unsigned long long>(result.runs));
}

// Three calls, so that a slot is used again.
TEST(schedule, two_ranks) {
  for (const protocol how : all_reduces) expect_clean(2, 1, {{how, 5}, {how, 8}, {how, 3}});
  expect_clean(2, 1, {{protocol::barrier, 0}, {protocol::barrier, 0}, {protocol::barrier, 0}});
  expect_clean(2, 1, {{protocol::ring, 5}, {protocol::barrier, 0}, {protocol::one_shot, 8}});
  expect_clean(2, 1, {{protocol::two_shot_packet, 5}, {protocol::packet, 2}, {protocol::two_shot_packet, 3}});
  expect_clean(2, 1, {{protocol::two_shot, 9}, {protocol::packet, 2}, {protocol::ring, 12}});
}

TEST(schedule, two_ranks_of_two_lanes) {
  for (const protocol how : all_reduces) expect_clean(2, 2, {{how, 3}});
}

TEST(schedule, three_ranks) {
  expect_clean(3, 1, {{protocol::barrier, 0}, {protocol::barrier, 0}, {protocol::barrier, 0}});
  expect_clean(3, 1, {{protocol::packet, 1}, {protocol::barrier, 0}});
  for (const protocol how : {protocol::one_shot, protocol::two_shot, protocol::ring, protocol::two_shot_packet})
    expect_clean(3, 1, {{how, 9}});
  expect_clean(3, 1, {{protocol::ring, 5}, {protocol::two_shot, 5}, {protocol::ring, 12}});
}

TEST(schedule, two_shots_in_steps) {
  constexpr auto two_shot = protocol::two_shot, packet = protocol::packet;
  expect_clean(2, 1, {{two_shot, 25, -1, 1}});  // four steps, so that a place is used again
  expect_clean(2, 1, {{two_shot, 8, -1, 1}, {packet, 2}, {two_shot, 12, -1, 1}});
  expect_clean(2, 2, {{two_shot, 9, -1, 1}});
  expect_clean(2, 1, {{two_shot, 24, 1, 1}, {two_shot, 3}});
  // Shares that are fetched, alone and in the slots of shares that were sent.
  expect_clean(2, 1, {{two_shot, 33, -1, 1, true}});
  expect_clean(2, 1, {{two_shot, 12, -1, 1, true}, {packet, 2}, {two_shot, 12, -1, 1}, {packet, 2}});
  expect_clean(2, 1, {{two_shot, 12, -1, 1}, {two_shot, 9, -1, 0, true}, {two_shot, 12, -1, 1, true}});
  expect_clean(2, 2, {{two_shot, 9, -1, 1, true}});
}

// Four floats are a unit. The last step is short in the first call, and there is one in the last.
TEST(schedule, one_shots_in_steps) {
  using enum protocol;
  expect_clean(2, 1, {{one_shot, 17, -1, 2}, {one_shot, 8, -1, 1}, {one_shot, 4, -1, 2}});
  expect_clean(2, 1, {{one_shot, 12, -1, 1}, {packet, 2}, {one_shot, 12, -1, 1}});
  expect_clean(2, 2, {{one_shot, 12, -1, 1}});
  expect_clean(3, 1, {{one_shot, 8, -1, 1}});
  expect_clean(2, 1, {{one_shot, 12, 1, 1}, {one_shot, 3}});
  expect_clean(2, 1, {{one_shot, 12, -1, 1}, {one_shot, 12, 0, 1}});
}

// Three units of four floats are a bundle. Several in turn, of which the last is short, and a lane without any.
TEST(schedule, bundles_in_turn) {
  using enum protocol;
  expect_clean(2, 1, {{line_packet, 30}, {line_packet, 13}, {line_packet, 40}});
  expect_clean(2, 1, {{line_packet, 30}, {packet, 2}, {line_packet, 25}});
  expect_clean(2, 2, {{line_packet, 30}});
  expect_clean(3, 1, {{line_packet, 14}});
  expect_clean(2, 1, {{line_packet, 30, 1}, {one_shot, 3}});
  expect_clean(2, 1, {{line_packet, 30}, {line_packet, 30, 0}});
}

// A rank may be one call ahead and find there that the calls differ, while others are still in the good call.
TEST(schedule, calls_that_differ_fail_everywhere_and_spoil_no_earlier_call) {
  for (const protocol how : all_reduces) {
    expect_clean(2, 1, {{how, 3, 1}, {how, 3}});
    expect_clean(2, 1, {{how, 3}, {how, 3, 0}});
  }
  for (const int odd_rank : {0, 1, 2})
    expect_clean(3, 1, {{protocol::one_shot, 1}, {protocol::barrier, 0, odd_rank}});
}

// With one slot a fast rank overwrites what a slow one still waits for: a deadlock in some schedules only.
TEST(schedule, finds_the_deadlock_of_a_slot_used_too_early) {
  using one_slot = faulty_call<ordering_fault::early_reuse>;
  for (const protocol how : {protocol::barrier, protocol::packet}) {
    const auto result =
        explore_calls<one_slot>(2, 1, {{how, how == protocol::packet ? 1u : 0u}, {how, 0}}, true, true);
    EXPECT_GT(result.deadlocks, 0u);
    EXPECT_GT(result.schedules, 0u);  // a fast rank is not always too fast
    EXPECT_EQ(result.failure.substr(0, 8), "deadlock");
  }
}

// A machine on which a line is not seen whole.
class torn_space : public schedule_space {
 public:
  explicit torn_space(const schedule_space& like) : schedule_space(like) {}
  template <int N>
  void put_packs(wide_pack* const (&to)[N], const unit16 (&units)[wide_pack::units], epoch_t e) {
    for (wide_pack* const pack : to)
      for (unsigned l = 0; pack && l < 2; ++l) {
        explorer().visible("put the number of a line", -1);
        explorer().store(pack->line[l].word[wide_pack::number_word], e);
        explorer().visible("put the data of a line", -1);
        put_data(*pack, l, units);
      }
  }
  void put_line(unit16* to, const unit16& whole) {
    explorer().visible("put the epoch of a line", -1);
    explorer().store(to->word[3], whole.word[3]);
    explorer().visible("put the data of a line", -1);
    for (int k = 0; k < 3; ++k) explorer().store(to->word[k], whole.word[k]);
  }
};

void expect_torn_lines(protocol how) {
  world w(2, 1);
  constexpr unsigned most = 40;
  const unsigned count = how == protocol::wide_packet ? most : 12;  // in all lines
  float inputs[2][most], outputs[2][most];
  const auto body = [&](schedule_space& of_rank, int r) {
    torn_space s(of_rank);
    call<machine_capacity> c;
    w.fill(c, r);
    for (unsigned k = 0; k < count; ++k) inputs[r][k] = input_element<float>(0, r, k);
    c.input = reinterpret_cast<const std::byte*>(inputs[r]);
    c.output = reinterpret_cast<std::byte*>(outputs[r]);
    c.count = count;
    c.fingerprint = 7;
    static_cast<void>(run_protocol<sum_of_floats, 0>(s, c, how));
  };
  const auto verdict = [&]() -> std::string {
    for (int r = 0; r < 2; ++r)
      for (unsigned k = 0; k < count; ++k)
        if (outputs[r][k] != expected_element<sum_of_floats>(how, 0, 2, k, count)) return "wrong result";
    return "";
  };
  const auto result = w.explore(true, body, verdict, true);
  EXPECT_GT(result.wrong, 0u);
  EXPECT_GT(result.schedules, result.wrong);
  EXPECT_EQ(result.deadlocks, 0u);
}

TEST(schedule, finds_the_wrong_result_of_a_line_whose_number_is_seen_before_its_data) {
  for (const protocol how : {protocol::wide_packet, protocol::line_packet}) expect_torn_lines(how);
}

TEST(schedule, finds_the_wrong_result_of_a_slot_used_too_early) {
  using one_slot = faulty_call<ordering_fault::early_reuse>;
  world w(2, 1);
  // Flags only, so that no header can be overwritten before it was seen: what is left is the data.
  std::uint64_t got[2];
  const auto body = [&](schedule_space& s, int r) {
    one_slot c;
    w.fill(c, r);
    got[r] = 0;
    for (std::uint32_t i = 1; i <= 2; ++i) {
      if (!s.begin()) return;
      s.store16(xyl::at<unit16>(c, 1 - r, c.map.bulk_offset(c.map.slot(s.epoch()), static_cast<unsigned>(r))),
                unit16{{i, 0, 0, 0}});
      post_all(s, c, flag_family::one_shot);
      if (!await_all(s, c, flag_family::one_shot, phase::one_shot)) return;
      got[r] = got[r] * 10 +
               s.load_peer16(xyl::at<const unit16>(
                                 c, r, c.map.bulk_offset(c.map.slot(s.epoch()), static_cast<unsigned>(1 - r))))
                   .word[0];
      s.leave();
    }
  };
  const auto result = w.explore(
      true, body, [&] { return got[0] == 12 && got[1] == 12 ? "" : "wrong result"; }, true);
  EXPECT_GT(result.wrong, 0u);
  EXPECT_GT(result.schedules, result.wrong);
  EXPECT_EQ(result.deadlocks, 0u);
}

// Planted: each rank waits for its neighbour before it posts.
schedule_explorer::outcome explore_greeting(int ranks, bool post_first) {
  world w(ranks, 1);
  const auto body = [&](schedule_space& s, int r) {
    call<machine_capacity> c;
    w.fill(c, r);
    if (!s.begin()) return;
    const int next = (r + 1) % ranks, previous = (r + ranks - 1) % ranks;
    const auto post = [&] {
      s.post(xyl::at<flag>(c, next, c.map.flag_offset(flag_family::scatter, static_cast<unsigned>(r), 0)),
             s.epoch());
    };
    if (post_first) post();
    if (!s.await(
            xyl::at<const flag>(c, r, c.map.flag_offset(flag_family::scatter, static_cast<unsigned>(previous), 0)),
            s.epoch(), waiting{previous, phase::scatter}))
      return;
    if (!post_first) post();
    s.leave();
  };
  return w.explore(true, body, [] { return ""; });
}

TEST(schedule, finds_the_deadlock_of_waiting_before_posting) {
  for (const int ranks : {2, 3}) {
    EXPECT_EQ(explore_greeting(ranks, true).failure, "");
    const auto result = explore_greeting(ranks, false);
    EXPECT_EQ(result.deadlocks, 1u);
    if (ranks == 2) std::printf("%s\n", result.failure.c_str());
    // The schedule is part of the message: who did what, and who is stuck.
    EXPECT_NE(result.failure.find("rank 1 lane 0: begin"), std::string::npos);
    EXPECT_NE(
        result.failure.find("rank 0 lane 0: await a flag (rank " + std::to_string(ranks - 1) + ") <- stuck here"),
        std::string::npos);
  }
}

// An allgather around a ring with one slot per rank and credits. Right: a rank takes what arrived out of its slot,
// gives the credit back, and forwards. Planted: it forwards first and gives the credit afterwards; all slots are
// full, and every rank waits for its neighbour's. Two ranks forward nothing, so it takes three to see it.
schedule_explorer::outcome explore_credit_ring(int ranks, bool credit_first) {
  world w(ranks, 1);
  std::vector<std::uint32_t> got(static_cast<unsigned>(ranks));
  const auto body = [&](schedule_space& s, int r) {
    call<machine_capacity> c;
    w.fill(c, r);
    std::uint32_t& sum = got[static_cast<unsigned>(r)];
    sum = 0;
    const int next = (r + 1) % ranks, previous = (r + ranks - 1) % ranks;
    const auto forward = [&](int step, unit16 data) {
      s.store16(xyl::at<unit16>(c, next, c.map.bulk_offset(0, 0)), data);
      s.post(xyl::at<flag>(c, next, c.map.flag_offset(flag_family::scatter, 0, 0)), static_cast<epoch_t>(step));
    };
    const auto give_credit = [&](int step) {
      s.post(xyl::at<flag>(c, previous, c.map.flag_offset(flag_family::gather, 0, 0)), static_cast<epoch_t>(step));
    };
    forward(1, unit16{{1u << r, 0, 0, 0}});
    for (int step = 1; step < ranks; ++step) {
      if (!s.await(xyl::at<const flag>(c, r, c.map.flag_offset(flag_family::scatter, 0, 0)),
                   static_cast<epoch_t>(step), waiting{previous, phase::scatter}))
        return;
      const unit16 data = s.load_peer16(xyl::at<const unit16>(c, r, c.map.bulk_offset(0, 0)));
      sum += data.word[0];
      if (credit_first) give_credit(step);
      if (step + 1 < ranks) {
        if (!s.await(xyl::at<const flag>(c, r, c.map.flag_offset(flag_family::gather, 0, 0)),
                     static_cast<epoch_t>(step), waiting{next, phase::gather}))
          return;
        forward(step + 1, data);
      }
      if (!credit_first) give_credit(step);
    }
  };
  return w.explore(true, body, [&]() -> std::string {
    for (int r = 0; r < ranks; ++r)
      if (got[static_cast<unsigned>(r)] != (1u << ranks) - 1 - (1u << r)) return "wrong result";
    return "";
  });
}

TEST(schedule, finds_the_deadlock_of_a_credit_given_too_late) {
  for (const int ranks : {2, 3, 4}) EXPECT_EQ(explore_credit_ring(ranks, true).failure, "") << ranks;
  EXPECT_EQ(explore_credit_ring(2, false).failure, "");
  for (const int ranks : {3, 4}) {
    const auto result = explore_credit_ring(ranks, false);
    EXPECT_EQ(result.deadlocks, 1u) << ranks << " ranks: " << result.failure;
  }
}

}  // namespace
}  // namespace xyl::test
