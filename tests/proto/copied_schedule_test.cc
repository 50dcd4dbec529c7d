// SPDX-License-Identifier: BSD-3-Clause
//
// The schedule of copied allreduces on a model of devices: queues that run beside each other, or one behind the
// other in any order that the marks allow, as a device may run a graph. Nobody waits for ever, and no slot is
// written before what lay there was taken; with a wait left out, either is found.
#include "proto/copied_schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace xyl::test {
namespace {

struct model_plan {
  int ranks;
  std::uint64_t chunks;
  bool staged;
  bool in_series;  // a device runs one operation at a time, also one that waits
  std::uint64_t seed;
  int without = -1;  // a copy_mark::kind whose waits are left out
  std::uint64_t slots = layout::copy_slots;
  bool one_phase = false;
};

class model {
 public:
  explicit model(const model_plan& p)
      : plan_(p),
        random_(p.seed),
        slow_(static_cast<int>(random_() % static_cast<unsigned>(p.ranks * copy_queues))),
        ranks_(static_cast<std::size_t>(p.ranks)) {
    for (device& d : ranks_) {
      std::array<std::uint64_t, copy_mark::count> set{};
      const auto enqueue = [&](const copied_operation& o) {
        const auto mark = static_cast<unsigned>(o.where.index());
        if (o.what == copied_operation::await_mark && static_cast<int>(o.where.what) == p.without) return true;
        if (o.what == copied_operation::mark) ++set[mark];
        d.queue[static_cast<unsigned>(o.on)].push_back({o, set[mark]});
        return true;
      };
      p.one_phase ? for_each_copied_movement(p.chunks, enqueue) : for_each_copied_operation(p.chunks, enqueue);
    }
  }

  // "" or what went wrong.
  std::string run() {
    for (;;) {
      std::vector<int> able;
      bool done = true;
      for (int r = 0; r < plan_.ranks; ++r)
        for (int q = 0; q < copy_queues; ++q) {
          done = done && at_end(r, q);
          if (can_go_on(r, q)) able.push_back(r * copy_queues + q);
        }
      if (done) return wrong_;
      if (able.empty()) return "the ranks wait for each other";
      // One queue is slow, so that the others get as far ahead as they can.
      int chosen = able[random_() % able.size()];
      for (int again = 0; again < 4 && chosen == slow_; ++again) chosen = able[random_() % able.size()];
      go_on(chosen / copy_queues, chosen % copy_queues);
      if (!wrong_.empty()) return wrong_;
    }
  }

 private:
  struct entry {
    copied_operation what;
    std::uint64_t mark;
  };
  struct device {
    std::vector<entry> queue[copy_queues];
    std::size_t next[copy_queues] = {};
    int held = -1;  // in series: the queue whose step waits
    std::array<std::uint64_t, copy_mark::count> marks{};
    std::map<flag_family, std::uint32_t> told;
    int meetings = 0;  // that this rank has come to
    bool is_in_meeting = false;
    std::uint64_t sums = 0;  // chunks whose result is in the output
    // By (slot, source, half): the chunk that lies there, one more; 0 if it is free.
    std::map<std::array<std::uint64_t, 3>, std::uint64_t> window, landing;
  };

  bool at_end(int r, int q) const {
    const device& d = ranks_[static_cast<unsigned>(r)];
    return d.next[q] == d.queue[q].size();
  }
  bool is_satisfied(int r, const copy_step& s) const {
    for (int p = 0; p < plan_.ranks && !s.tells; ++p) {
      const auto& told = ranks_[static_cast<unsigned>(p)].told;
      const auto found = told.find(s.family);
      if (p != r && (found == told.end() || found->second < s.number)) return false;
    }
    return true;
  }
  bool all_have_come(int r) const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [&](const device& d) { return d.meetings >= ranks_[static_cast<unsigned>(r)].meetings; });
  }
  // In series a step that waits has begun, and holds its device up; so does a meeting.
  bool can_go_on(int r, int q) const {
    const device& d = ranks_[static_cast<unsigned>(r)];
    if (at_end(r, q)) return false;
    const entry& e = d.queue[q][d.next[q]];
    if (d.held >= 0) return d.held == q && (d.is_in_meeting ? all_have_come(r) : is_satisfied(r, e.what.how));
    if (e.what.what == copied_operation::meet) return !d.is_in_meeting || all_have_come(r);
    if (e.what.what == copied_operation::await_mark)
      return d.marks[static_cast<unsigned>(e.what.where.index())] >= e.mark;
    if (e.what.what == copied_operation::step && !plan_.in_series) return is_satisfied(r, e.what.how);
    return true;
  }

  void go_on(int r, int q) {
    device& d = ranks_[static_cast<unsigned>(r)];
    const entry& e = d.queue[q][d.next[q]];
    if (e.what.what == copied_operation::meet) {
      d.meetings += !d.is_in_meeting;
      d.is_in_meeting = !all_have_come(r);
      d.held = plan_.in_series && d.is_in_meeting ? q : -1;
      if (d.is_in_meeting) return;
    } else if (e.what.what == copied_operation::step) {
      // Its number is known once the first meeting is over, and until the last. (Waits for what has been sent make
      // a step wait for that too, but that is not what they are left out for.)
      if (plan_.without != copy_mark::sent && (d.meetings != 1 || d.is_in_meeting))
        wrong_ = "a step is outside of the meetings";
      if (e.what.how.tells) d.told[e.what.how.family] = e.what.how.number;
      d.held = plan_.in_series ? q : -1;
      if (!is_satisfied(r, e.what.how)) return;
      d.held = -1;
    } else if (e.what.what == copied_operation::mark) {
      d.marks[static_cast<unsigned>(e.what.where.index())] = e.mark;
    } else if (e.what.what != copied_operation::await_mark) {
      move(r, e.what);
    }
    ++d.next[q];
  }

  using region = std::array<std::uint64_t, 3>;
  region region_of(std::uint64_t chunk, int source, bool result) const {
    return {chunk % plan_.slots, static_cast<std::uint64_t>(source), result};
  }
  void put(std::map<region, std::uint64_t>& memory, const region& at, std::uint64_t chunk) {
    if (memory[at] != 0)
      wrong_ = "chunk " + std::to_string(chunk) + " is written over " + std::to_string(memory[at] - 1);
    memory[at] = chunk + 1;
  }
  void take(std::map<region, std::uint64_t>& memory, const region& at, std::uint64_t chunk) {
    if (memory[at] != chunk + 1) wrong_ = "chunk " + std::to_string(chunk) + " is not where it is taken";
    memory[at] = 0;
  }

  void move(int r, const copied_operation& o) {
    device& mine = ranks_[static_cast<unsigned>(r)];
    const std::uint64_t chunk = o.chunk;
    if (!plan_.one_phase && o.on == copy_queue::send_results && mine.sums <= chunk)
      wrong_ = "a result is sent before there is one";
    if (o.what == copied_operation::reduce) mine.sums = chunk + 1;
    for (int p = 0; p < plan_.ranks; ++p) {
      if (p == r) continue;
      device& theirs = ranks_[static_cast<unsigned>(p)];
      const bool result =
          !plan_.one_phase && (o.on == copy_queue::send_results || o.on == copy_queue::take_results ||
                               o.what == copied_operation::deliver);
      switch (o.on) {
        case copy_queue::send_shares:
        case copy_queue::send_results:
          put(plan_.staged ? theirs.window : theirs.landing, region_of(chunk, r, result), chunk);
          break;
        case copy_queue::take_shares:
        case copy_queue::take_results:
          if (!plan_.staged) break;
          take(mine.window, region_of(chunk, p, result), chunk);
          put(mine.landing, region_of(chunk, p, result), chunk);
          break;
        case copy_queue::compute:
          take(mine.landing, region_of(chunk, p, result), chunk);
      }
    }
  }

  const model_plan plan_;
  std::mt19937_64 random_;
  const int slow_;  // rank * copy_queues + queue
  std::vector<device> ranks_;
  std::string wrong_;
};

// Whether anything goes wrong with any of so many seeds.
std::string first_wrong(model_plan p, std::uint64_t seeds) {
  for (p.seed = 1; p.seed <= seeds; ++p.seed)
    if (const std::string wrong = model(p).run(); !wrong.empty())
      return wrong + " (" + std::to_string(p.ranks) + " ranks, " + std::to_string(p.chunks) + " chunks, seed " +
             std::to_string(p.seed) + ")";
  return "";
}

TEST(copied_schedule, nobody_waits_for_ever_and_no_slot_is_written_too_early) {
  for (const int ranks : {2, 3, 4})
    for (const std::uint64_t chunks : {1u, 2u, 3u, 4u, 5u, 11u, 19u})
      for (const bool staged : {false, true})
        for (const bool in_series : {false, true})
          for (const bool one_phase : {false, true})
            ASSERT_EQ(first_wrong({ranks, chunks, staged, in_series, 0, -1, layout::copy_slots, one_phase}, 40), "")
                << (staged ? "staged" : "straight") << (in_series ? ", in series" : ", side by side")
                << (one_phase ? ", one phase" : "");
}

TEST(copied_schedule, a_wait_that_is_left_out_is_missed) {
  constexpr std::uint64_t slots = layout::copy_slots;
  for (const int mark : {copy_mark::sent, copy_mark::result_sent})
    EXPECT_NE(first_wrong({3, 11, true, true, 0, mark}, 400).find("wait for each other"), std::string::npos)
        << mark;
  for (const int mark :
       {copy_mark::taken, copy_mark::summed, copy_mark::result_sent, copy_mark::results_taken, copy_mark::met})
    EXPECT_NE(first_wrong({3, 11, true, false, 0, mark}, 400), "") << mark;
  EXPECT_NE(first_wrong({2, 11, true, true, 0, copy_mark::sent, slots, true}, 400).find("wait for each other"),
            std::string::npos);
  for (const int mark : {copy_mark::met, copy_mark::taken, copy_mark::summed})
    EXPECT_NE(first_wrong({2, 11, true, false, 0, mark, slots, true}, 400), "") << mark;
  // Slots are kept apart by the order alone, and for fewer of them it is not enough.
  for (const bool staged : {false, true}) {
    EXPECT_NE(first_wrong({3, 11, staged, false, 0, -1, 3}, 400).find("is written over"), std::string::npos)
        << staged;
    for (const int ranks : {2, 3})
      EXPECT_NE(first_wrong({ranks, 19, staged, false, 0, -1, slots - 1, true}, 1000).find("is written over"),
                std::string::npos)
          << staged << ranks;
  }
}

}  // namespace
}  // namespace xyl::test
