// SPDX-License-Identifier: BSD-3-Clause
//
// The self-test of a sync path: all ranks exchange patterns, other ones in every round, and every lane compares
// what it got, word by word. It can say that a path does not work or is slow on this machine; that it works is for
// the memory model and the link to say.
//
// One block a rank. A trial is a sequence of launches of a few rounds each. Rounds are numbered from plan.begin
// on, which rises from trial to trial: late stores of a trial that has failed mean nothing to the next. Two slots
// are enough: a rank puts round n + 1 when all its lanes have read round n, and round n + 2 goes into the slot of n
// when everybody's n + 1 has come.
//
// Nothing here poisons anybody, and no wait is longer than limit_ns; only for the peers' first launch to
// begin, which they say by a flag of the plain way, is there more time (meeting_ns). A trial's launches after a
// failure return at once.
//
// A space for trials offers lane(), lanes(), sync(), all(), load_peer16() and store16() of space.hpp, sent() and
// received() with what they let overlap, and
//
//   await_earlier()        earlier launches have ended and what they wrote is visible
//   trying(path)           what the launch is about
//   now_ns()               a clock
//   claim(word, value)     true for the lane that changed the word from 0; peek(word) is its value
//   post(how, flag, n)     as space.hpp's, by flag order
//   look(how, flag)        the number seen; a last look that was not in vain is followed by seen(how)
//   put(line, data, n), get(line, n, data)    packets; get looks once
//   put_line(l, w), get_line(l)   lines of 16 bytes, whole
//   wide_lanes()           the lanes that hold a wide line together
//   put_wide(l, word, n), get_wide(l, n, take)   by such lanes together: word(i) is word i of 15, take(i, word)
//                          gets it; get_wide looks once, and its verdict is that of all of them
//   any_of_wide(v)         whether v holds for any of such lanes
#pragma once

#include "base/launch_overlap.hpp"
#include "proto/header.hpp"
#include "proto/sync_path.hpp"

namespace xyl {

enum class trial_verdict : std::uint32_t {
  passed,
  wrong_data,  // a word was not what the peer had put
  late,        // a round took longer than the limit
  absent,      // the peer's launch did not begin
  not_launched
};

struct trial_settings {
  sync_path path = sync_path::flag;
  launch_overlap overlap = launch_overlap::none;
  std::uint32_t rounds = 1;    // of a launch
  std::uint32_t launches = 2;  // what comes after them does nothing
  std::uint64_t limit_ns = 0;  // of a launch
};

// Equal on all ranks.
struct trial_plan {
  trial_settings what;
  std::uint32_t begin = 0;       // number of the first round; larger than any before
  std::uint64_t meeting_ns = 0;  // how long the first launch waits for those of the peers to begin
};

// What a launch is told. What is tried it reads: launches are recorded before anybody knows.
struct trial_order {
  static constexpr int capacity = 64;
  static constexpr unsigned words = 240;  // to each peer in a round: 240 packets or 16 wide lines
  static constexpr unsigned most_launches = 64;

  bool is_first = false;  // of a trial
  std::int32_t rank = 0, ranks = 0;
  layout map;
  std::byte* own = nullptr;             // where the state is, which no peer reaches: as call::own
  std::byte* workspace[capacity] = {};  // every rank's, as this rank reaches it
};

// In memory of the rank's own: what the host orders, and what the launches leave for each other and for the host.
// The clock is the device's.
struct trial_state {
  trial_plan plan;
  std::uint32_t next;      // number of the next round
  std::uint32_t verdict;   // the first that was bad
  std::uint32_t launches;  // that have run
  std::int32_t peer;       // of a bad verdict: whose data, in which round, which word
  std::uint32_t round;
  std::uint32_t word;
  std::uint64_t wanted, seen;
  std::uint64_t began[trial_order::most_launches], ended[trial_order::most_launches];
};
static_assert(sizeof(trial_state) <= layout::trial_state_bytes);
static_assert(trial_order::words * sizeof(line) <= layout::trial_data_bytes);
static_assert(trial_order::words % 15 == 0 && trial_order::words * sizeof(std::uint64_t) % sizeof(unit16) == 0);

// Word i of what `from` sends `to` in round n: no two look alike, and neither half has its highest bit.
XYL_FN constexpr std::uint64_t trial_word(std::uint32_t n, int from, int to, unsigned i) {
  std::uint64_t x =
      (std::uint64_t{n} << 32 | static_cast<unsigned>(from) << 20 | static_cast<unsigned>(to) << 12 | i) *
      0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull;
  return ((x ^ x >> 32) & 0x7fffffff7fffffffull) | 1;
}
// What packets of round n carry: what an earlier trial of another path has left never looks like it.
XYL_FN constexpr std::uint32_t trial_tag(std::uint32_t n) { return n | 0x80000000u; }

template <class S>
class sync_trial {
 public:
  XYL_FN sync_trial(S& s, const trial_order& o)
      : s_(s), o_(o), own_(*reinterpret_cast<trial_state*>(o.own + o.map.trial_offset())) {}

  XYL_FN void run() {
    s_.await_earlier();
    const bool is_first = o_.is_first;
    plan_ = own_.plan;
    s_.trying(plan_.what.path);
    const std::uint32_t first = is_first ? plan_.begin : own_.next;
    const std::uint32_t launch = is_first ? 0 : own_.launches;
    const bool goes_on = is_first || s_.peek(&own_.verdict) == 0;
    s_.sync();  // every lane has read what the first one changes now
    if (!goes_on || launch >= plan_.what.launches || launch >= trial_order::most_launches) return;
    if (s_.lane() == 0 && is_first) own_.verdict = own_.launches = 0;
    s_.sync();  // no lane claims the verdict before that
    bool good = !is_first || meet();
    began_ = s_.now_ns();
    if (s_.lane() == 0) own_.began[launch] = began_;
    for (std::uint32_t i = 0; i < plan_.what.rounds && good; ++i) good = round(first + i, i == 0);
    if (s_.lane() != 0) return;
    own_.ended[launch] = s_.now_ns();
    own_.next = first + plan_.what.rounds;
    own_.launches = launch + 1;
  }

 private:
  XYL_FN bool round(std::uint32_t n, bool is_first) {
    // Nothing of a path is known to the others' text, so each is whole.
    if (plan_.what.path == sync_path::packet) return packets(n, is_first);
    if (plan_.what.path == sync_path::wide_packet) return wide_packets(n, is_first);
    if (plan_.what.path == sync_path::line_packet) return line_packets(n, is_first);
    return flagged(n, is_first, order_of(plan_.what.path));
  }

  XYL_FN bool packets(std::uint32_t n, bool is_first) {
    for_each_peer([&](int p) {
      line* const to = data<line>(p, o_.rank, n);
      for (unsigned i = s_.lane(); i < trial_order::words; i += s_.lanes())
        s_.put(to + i, trial_word(n, o_.rank, p, i), trial_tag(n));
    });
    after_sending(is_first);
    bool good = true;
    for_each_peer([&](int p) {
      const line* const from = data<const line>(o_.rank, p, n);
      for (unsigned i = s_.lane(); i < trial_order::words && good; i += s_.lanes()) {
        std::uint64_t word = 0;
        good = until(began_ + plan_.what.limit_ns, p, n, [&] { return s_.get(from + i, trial_tag(n), word); }) &&
               is_right(p, n, i, word);
      }
    });
    return after_receiving(good, is_first);
  }

  XYL_FN bool wide_packets(std::uint32_t n, bool is_first) {
    constexpr unsigned lines = trial_order::words / 15;
    const unsigned group = s_.lane() / s_.wide_lanes(), groups = s_.lanes() / s_.wide_lanes();
    for_each_peer([&](int p) {
      wide_line* const to = data<wide_line>(p, o_.rank, n);
      for (unsigned l = group; l < lines; l += groups)
        s_.put_wide(
            to + l, [&](unsigned i) { return trial_word(n, o_.rank, p, l * 15 + i); }, trial_tag(n));
    });
    after_sending(is_first);
    bool good = true;
    for_each_peer([&](int p) {
      const wide_line* const from = data<const wide_line>(o_.rank, p, n);
      // Lanes of a group go on and stop together, whatever each has seen.
      bool goes_on = true;
      for (unsigned l = group; l < lines && goes_on; l += groups)
        goes_on = until(
            began_ + plan_.what.limit_ns, p, n,
            [&] {
              return s_.get_wide(from + l, trial_tag(n), [&](unsigned i, std::uint64_t word) {
                good = is_right(p, n, l * 15 + i, word) && good;
              });
            },
            trial_verdict::late, [&](bool over) { return s_.any_of_wide(over); });
      good = good && goes_on;
    });
    return after_receiving(good, is_first);
  }

  // Each line has a word and half of the next.
  XYL_FN bool line_packets(std::uint32_t n, bool is_first) {
    constexpr unsigned lines = trial_order::words / 2;
    for_each_peer([&](int p) {
      unit16* const to = data<unit16>(p, o_.rank, n);
      for (unsigned l = s_.lane(); l < lines; l += s_.lanes()) {
        const std::uint64_t a = trial_word(n, o_.rank, p, 2 * l), b = trial_word(n, o_.rank, p, 2 * l + 1);
        s_.put_line(to + l, {{low(a), high(a), low(b), trial_tag(n)}});
      }
    });
    after_sending(is_first);
    bool good = true;
    for_each_peer([&](int p) {
      const unit16* const from = data<const unit16>(o_.rank, p, n);
      for (unsigned l = s_.lane(); l < lines && good; l += s_.lanes()) {
        unit16 got{};
        const std::uint64_t half = trial_word(n, p, o_.rank, 2 * l + 1) >> 32 << 32;
        good = until(began_ + plan_.what.limit_ns, p, n,
                     [&] {
                       got = s_.get_line(from + l);
                       return got.word[3] == trial_tag(n);
                     }) &&
               is_right(p, n, 2 * l, got.word[0] | std::uint64_t{got.word[1]} << 32) &&
               is_right(p, n, 2 * l + 1, half | got.word[2]);
      }
    });
    return after_receiving(good, is_first);
  }

  XYL_FN bool flagged(std::uint32_t n, bool is_first, flag_order how) {
    constexpr unsigned units = trial_order::words / 2;
    for_each_peer([&](int p) {
      unit16* const to = data<unit16>(p, o_.rank, n);
      for (unsigned u = s_.lane(); u < units; u += s_.lanes()) {
        const std::uint64_t a = trial_word(n, o_.rank, p, 2 * u), b = trial_word(n, o_.rank, p, 2 * u + 1);
        s_.store16(to + u, {{low(a), high(a), low(b), high(b)}});
      }
    });
    s_.sync();  // the lane that posts speaks for the stores of all lanes
    post_all(how, trial_flag::data, n);
    after_sending(is_first);
    // Joined, so that every lane may read what one lane awaited.
    if (!s_.all(await_all(how, trial_flag::data, n, began_ + plan_.what.limit_ns, trial_verdict::late)))
      return false;
    bool good = true;
    for_each_peer([&](int p) {
      const unit16* const from = data<const unit16>(o_.rank, p, n);
      for (unsigned u = s_.lane(); u < units && good; u += s_.lanes()) {
        const unit16 got = s_.load_peer16(from + u);
        good = is_right(p, n, 2 * u, got.word[0] | std::uint64_t{got.word[1]} << 32) &&
               is_right(p, n, 2 * u + 1, got.word[2] | std::uint64_t{got.word[3]} << 32);
      }
    });
    return after_receiving(good, is_first);
  }

  XYL_FN bool meet() {
    post_all(flag_order::release, trial_flag::meeting, plan_.begin);
    return s_.all(await_all(flag_order::release, trial_flag::meeting, plan_.begin, s_.now_ns() + plan_.meeting_ns,
                            trial_verdict::absent));
  }

  XYL_FN void post_all(flag_order how, trial_flag what, std::uint32_t n) {
    for (int p = static_cast<int>(s_.lane()); p < o_.ranks; p += static_cast<int>(s_.lanes()))
      if (p != o_.rank)
        s_.post(how, at<flag>(o_, p, o_.map.trial_flag_offset(what, static_cast<unsigned>(o_.rank))), n);
  }
  XYL_FN bool await_all(flag_order how, trial_flag what, std::uint32_t n, std::uint64_t end,
                        trial_verdict otherwise) {
    bool good = true;
    for (int p = static_cast<int>(s_.lane()); p < o_.ranks && good; p += static_cast<int>(s_.lanes())) {
      if (p == o_.rank) continue;
      const flag* const f = at<const flag>(o_, o_.rank, o_.map.trial_flag_offset(what, static_cast<unsigned>(p)));
      good = until(
          end, p, n, [&] { return s_.look(how, f) >= n; }, otherwise);
      if (good) s_.seen(how);
    }
    return good;
  }

  XYL_FN void after_sending(bool is_first) {
    if (is_first) s_.sent(plan_.what.overlap);
  }
  XYL_FN bool after_receiving(bool good, bool is_first) {
    // All lanes have read this round before any puts the next.
    good = s_.all(good);
    if (is_first) s_.received(plan_.what.overlap);
    return good;
  }

  struct alone {
    XYL_FN bool operator()(bool over) const { return over; }
  };
  // Others may have found a fault already: then the rest need not wait for the limit. joined: makes the end that of
  // all lanes that are ready together.
  template <class Ready, class Joined = alone>
  XYL_FN bool until(std::uint64_t end, int peer, std::uint32_t n, Ready ready,
                    trial_verdict otherwise = trial_verdict::late, Joined joined = {}) {
    for (unsigned polls = 1;; ++polls) {
      if (ready()) return true;
      if (polls % 64 != 0) continue;
      const bool is_late = s_.now_ns() >= end;
      if (!joined(is_late || s_.peek(&own_.verdict) != 0)) continue;
      if (is_late) fail(otherwise, peer, n, 0, 0, 0);
      return false;
    }
  }

  XYL_FN bool is_right(int peer, std::uint32_t n, unsigned i, std::uint64_t seen) {
    const std::uint64_t wanted = trial_word(n, peer, o_.rank, i);
    if (seen == wanted) return true;
    fail(trial_verdict::wrong_data, peer, n, i, wanted, seen);
    return false;
  }

  XYL_FN void fail(trial_verdict v, int peer, std::uint32_t n, unsigned i, std::uint64_t wanted,
                   std::uint64_t seen) {
    if (!s_.claim(&own_.verdict, static_cast<std::uint32_t>(v))) return;
    own_.peer = peer;
    own_.round = n;
    own_.word = i;
    own_.wanted = wanted;
    own_.seen = seen;
  }

  template <class F>
  XYL_FN void for_each_peer(F f) const {
    for (int k = 1; k < o_.ranks; ++k) f(o_.rank + k < o_.ranks ? o_.rank + k : o_.rank + k - o_.ranks);
  }
  template <class T>
  XYL_FN T* data(int where, int source, std::uint32_t n) const {
    return at<T>(o_, where, o_.map.trial_data_offset(n & 1, static_cast<unsigned>(source)));
  }
  static XYL_FN std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
  static XYL_FN std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

  S& s_;
  const trial_order& o_;
  trial_state& own_;
  trial_plan plan_;
  std::uint64_t began_ = 0;
};

}  // namespace xyl
