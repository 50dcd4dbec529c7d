// SPDX-License-Identifier: BSD-3-Clause
//
// Small cases of the collectives other than allreduce, and of transfers, in every interleaving: no deadlock, right
// bytes. And a transfer whose receiver gives no credit, whose deadlock must be found.
#include <gtest/gtest.h>

#include <cstring>

#include "proto/exchange_packet.hpp"
#include "proto/long_swap.hpp"
#include "proto/one_way.hpp"
#include "proto/reduce_to.hpp"
#include "proto/schedule_world.hpp"
#include "proto/transfer.hpp"

namespace xyl::test {
namespace {

using small_call = call<machine_capacity>;
using float_sum = reduction<portable_codec<float>, operation::sum>;

// What each rank has, and must have at the end: floats that say whose they are.
struct small_case {
  const char* name;
  // Runs it on one lane.
  std::function<bool(schedule_space&, small_call&, int rank)> run;
  std::size_t in, out;  // floats
  std::function<float(int rank, int ranks, std::size_t i)> want;
};

float given(int rank, std::size_t i) { return static_cast<float>(10 * (rank + 1)) + static_cast<float>(i); }

movement of(collective what, std::uint64_t bytes, int root) {
  movement m;
  m.bytes = bytes;
  if (what == collective::all_to_all || what == collective::scatter) m.input_stride = bytes;
  if (what == collective::all_to_all || what == collective::all_gather || what == collective::gather)
    m.output_stride = bytes;
  if (what == collective::broadcast || what == collective::scatter) m.from = root;
  if (what == collective::gather) m.to = root;
  return m;
}

// Twice in a row and a third time, so that a slot is used again; outputs are those of the last.
void expect_clean(int ranks, unsigned lanes, const small_case& c, int times = 3) {
  world w(ranks, lanes);
  std::vector<std::vector<float>> in(static_cast<unsigned>(ranks)), out(in.size());
  std::vector<char> good(in.size());
  for (int r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < c.in; ++i) in[static_cast<unsigned>(r)].push_back(given(r, i));
  const auto body = [&](schedule_space& s, int r) {
    const auto mine = static_cast<unsigned>(r);
    good[mine] = 1;
    for (int k = 0; k < times; ++k) {
      small_call call;
      w.fill(call, r);
      call.input = reinterpret_cast<const std::byte*>(in[mine].data());
      call.output = reinterpret_cast<std::byte*>(out[mine].data());
      call.fingerprint = 0x1234567890abcdefull + static_cast<unsigned>(k);
      good[mine] = c.run(s, call, r) && good[mine];
    }
  };
  const auto verdict = [&]() -> std::string {
    for (int r = 0; r < ranks; ++r) {
      if (!good[static_cast<unsigned>(r)]) return "a rank gave up";
      for (std::size_t i = 0; i < c.out; ++i)
        if (out[static_cast<unsigned>(r)][i] != c.want(r, ranks, i)) return "wrong bytes";
    }
    return "";
  };
  const auto result = w.explore(true, body, verdict, false, [&] {
    for (auto& o : out) o.assign(c.out, -1);
  });
  EXPECT_EQ(result.failure, "") << c.name << " of " << ranks << " ranks";
  EXPECT_GE(result.schedules, 1u);
  std::printf("%s, %d ranks of %u lanes: %llu states\n", c.name, ranks, lanes,
              static_cast<unsigned long long>(result.states));
}

small_case all_gather(const char* name, bool packets, bool pull, int ranks) {
  return {name,
          [=](schedule_space& s, small_call& c, int) {
            const movement m = of(collective::all_gather, 8, 0);
            return packets ? packet_exchange(s, c, m) : exchange(s, c, m, pull);
          },
          2, 2 * static_cast<std::size_t>(ranks),
          [](int, int, std::size_t i) { return given(static_cast<int>(i / 2), i % 2); }};
}

TEST(schedule_of_collectives, exchanges) {
  for (const int ranks : {2, 3}) {
    const int times = ranks == 2 ? 3 : 1;
    expect_clean(ranks, 1, all_gather("packets", true, false, ranks), times);
    expect_clean(ranks, 1, all_gather("pushed", false, false, ranks), times);
    expect_clean(ranks, 1, all_gather("pulled", false, true, ranks), times);
  }
  expect_clean(2, 2, all_gather("pushed", false, false, 2), 1);
  expect_clean(2, 2, all_gather("pulled", false, true, 2), 1);
}

TEST(schedule_of_collectives, one_way_messages_of_more_than_the_ring_holds) {
  const small_case c = {"one way",
                        [](schedule_space& s, small_call& call, int) {
                          return one_way_move(s, call, of(collective::broadcast, 12, 0));
                        },
                        3, 3, [](int, int, std::size_t i) { return given(0, i); }};
  expect_clean(2, 1, c, 5);
  expect_clean(2, 2, c, 1);
}

TEST(schedule_of_collectives, broadcast_in_two_phases) {
  const small_case c = {"spread",
                        [](schedule_space& s, small_call& call, int) {
                          return spread_broadcast(s, call, of(collective::broadcast, 20, 1));
                        },
                        5, 5, [](int, int, std::size_t i) { return given(1, i); }};
  expect_clean(2, 1, c, 3);
  expect_clean(3, 1, c, 1);
}

TEST(schedule_of_collectives, reductions) {
  const auto sum = [](int ranks, std::size_t i) {
    float x = 0;
    for (int r = 0; r < ranks; ++r) x += given(r, i);
    return x;
  };
  for (const int ranks : {2, 3}) {
    const int times = ranks == 2 ? 3 : 1;
    for (const bool packets : {false, true})
      expect_clean(ranks, 1,
                   {packets ? "reduce-scatter with packets" : "reduce-scatter",
                    [=](schedule_space& s, small_call& c, int) {
                      c.count = 2;
                      const reduce_target target{8, movement::everyone};
                      return packets ? packet_reduce(s, c, float_sum{}, target)
                                     : direct_reduce(s, c, float_sum{}, target);
                    },
                    2 * static_cast<std::size_t>(ranks), 2,
                    [=](int r, int n, std::size_t i) { return sum(n, 2 * static_cast<unsigned>(r) + i); }},
                   times);
    expect_clean(ranks, 1,
                 {"reduce in two phases",
                  [](schedule_space& s, small_call& c, int) {
                    c.count = 9;
                    return two_phase_reduce(s, c, float_sum{}, 0);
                  },
                  9, 9, [=](int r, int n, std::size_t i) { return r == 0 ? sum(n, i) : -1.f; }},
                 times);
  }
}

// Rank 0 sends to rank 1 and, where `both`, then receives from it; rank 1 the other way round. More chunks than the
// ring has slots.
small_case transfers(const char* name, bool both, std::size_t floats) {
  return {name,
          [=](schedule_space& s, small_call& c, int rank) {
            transfer out, in;
            out.sends = true;
            out.from = c.input;
            in.to = c.output;
            out.bytes = in.bytes = floats * sizeof(float);
            out.fingerprint = in.fingerprint = 77;
            out.peer = in.peer = 1 - rank;
            if (rank == 0) return run_transfer(s, c, out, 0) && (!both || run_transfer(s, c, in, 0));
            return run_transfer(s, c, in, 0) && (!both || run_transfer(s, c, out, 0));
          },
          floats, floats, [=](int r, int, std::size_t i) { return r == 1 || both ? given(1 - r, i) : -1.f; }};
}

TEST(schedule_of_collectives, transfers_of_more_chunks_than_slots) {
  expect_clean(2, 1, transfers("a message of two chunks, three times", false, 40), 3);
  expect_clean(2, 1, transfers("there and back", true, 4), 3);
  expect_clean(2, 2, transfers("of two lanes", false, 4), 2);
}

// Long ones, of more chunks than slots, and an exchange behind each, whose pieces lie where the message lay.
small_case long_transfers(const char* name, std::size_t floats, std::uint32_t slot_bytes) {
  return {name,
          [=](schedule_space& s, small_call& c, int rank) {
            transfer t;
            t.sends = rank == 0;
            t.from = c.input;
            t.to = c.output + 8 * sizeof(float);
            t.bytes = floats * sizeof(float);
            t.slot_bytes = slot_bytes;
            t.fingerprint = 77;
            t.peer = 1 - rank;
            return run_long_transfer(s, c, t, 0) && exchange(s, c, of(collective::all_gather, 16, 0));
          },
          floats, floats + 8,
          [=](int r, int, std::size_t i) {
            if (i < 8) return given(static_cast<int>(i / 4), i % 4);
            return r == 1 ? given(0, i - 8) : -1.f;
          }};
}

TEST(schedule_of_collectives, long_transfers_between_exchanges) {
  expect_clean(2, 1, long_transfers("long, of one chunk", 6, 32), 3);
  expect_clean(2, 1, long_transfers("long, of more chunks than slots", 21, 16), 1);
  expect_clean(2, 2, long_transfers("long, of two lanes", 8, 32), 1);
}

// An allreduce of two ranks by messages that are swapped, and an exchange behind it.
small_case swaps(const char* name, std::size_t floats, std::uint32_t slot_bytes) {
  return {name,
          [=](schedule_space& s, small_call& c, int rank) {
            swapped both;
            both.out.sends = true;
            both.out.from = c.input;
            both.out.bytes = floats * sizeof(float);
            both.out.slot_bytes = slot_bytes;
            both.out.fingerprint = 77;
            both.out.peer = 1 - rank;
            both.in = both.out;
            both.in.sends = false;
            c.count = floats;
            std::byte* const output = c.output;
            c.output = output + 8 * sizeof(float);
            const bool good = swap_and_reduce(s, c, float_sum{}, both, 0);
            c.output = output;
            return good && exchange(s, c, of(collective::all_gather, 16, 0));
          },
          floats, floats + 8,
          [=](int, int, std::size_t i) {
            return i < 8 ? given(static_cast<int>(i / 4), i % 4) : given(0, i - 8) + given(1, i - 8);
          }};
}

TEST(schedule_of_collectives, swapped_messages_between_exchanges) {
  expect_clean(2, 1, swaps("swapped, of one chunk", 6, 32), 2);
  expect_clean(2, 1, swaps("swapped, of more chunks than slots", 17, 16), 1);
  expect_clean(2, 2, swaps("swapped, of two lanes", 8, 32), 1);
}

// Planted: no credit is ever given.
class stingy_space : public schedule_space {
 public:
  explicit stingy_space(const schedule_space& base) : schedule_space(base) {}
  void post(flag* f, epoch_t e) {
    if (!silent) schedule_space::post(f, e);
  }
  bool silent = false;
};

TEST(schedule_of_collectives, finds_the_deadlock_of_a_receiver_that_gives_no_credit) {
  for (const bool planted : {false, true}) {
    world w(2, 1);
    std::vector<float> in(4, 1), out(4);
    const auto body = [&](schedule_space& base, int r) {
      stingy_space s(base);
      s.silent = planted && r == 1;
      for (int k = 0; k < 6; ++k) {
        small_call c;
        w.fill(c, r);
        transfer t;
        t.sends = r == 0;
        t.from = reinterpret_cast<const std::byte*>(in.data());
        t.to = reinterpret_cast<std::byte*>(out.data());
        t.bytes = 16;
        t.peer = 1 - r;
        if (!run_transfer(s, c, t, 0)) return;
      }
    };
    const auto result = w.explore(true, body, [] { return ""; });
    EXPECT_EQ(result.deadlocks, planted ? 1u : 0u) << result.failure;
  }
}

}  // namespace
}  // namespace xyl::test
