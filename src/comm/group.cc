// SPDX-License-Identifier: BSD-3-Clause
#include "comm/group.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/out_of_memory.hpp"
#include "comm/joint.hpp"
#include "comm/together.hpp"

namespace xyl::group {

namespace {

struct makings_from {
  const void* from;
  std::vector<step> steps;
};

struct calls_of_rank {
  const void* rank;
  std::vector<request> calls;
  std::vector<request> transfers;
  std::vector<xylStream_t> streams;  // that calls on the device name
  caller by;

  result run(const request& r) const { return by.how->run(by.comm, by.function, r); }
  result transfer() const { return by.how->transfer(by.comm, by.function, transfers); }
  result lend(bool before, xylStream_t& own) const {
    return by.how->lend(by.comm, by.function, before, streams, own);
  }
  result find(communicator*& now) const { return by.how->find(by.comm, by.function, now); }
};

// Small groups leave their memory to the thread's next one: a send and a receive took longer to write down than to
// do while that took memory from the heap and gave it back.
constexpr std::size_t most_kept = 64;

struct recording {
  std::vector<makings_from> makings;
  std::vector<calls_of_rank> ranks;
  std::vector<request> room;  // empty; for transfers
  xylResult_t code = xylSuccess;
  std::string text;
};

// What needs neither a constructor nor a destructor is looked at without asking whether they have run.
thread_local constinit int depth = 0;
thread_local constinit recording* kept = nullptr;

// Of this thread, whose end destroys it.
recording& mine() {
  if (kept != nullptr) [[likely]]
    return *kept;
  struct owner : recording {
    ~owner() { kept = nullptr; }
  };
  static thread_local owner owned;
  kept = &owned;
  return owned;
}

// Each list in its order up to its first failure, the lists at the same time. One failure, of the first list that
// has one; else xylInProgress if anything said so.
result run_lists(const std::vector<std::vector<step>>& lists) {
  std::vector<result> results(lists.size());
  std::vector<char> unfinished(lists.size());
  std::vector<std::function<void()>> runs;
  for (std::size_t i = 0; i < lists.size(); ++i)
    runs.push_back([&, i] {
      for (const step& s : lists[i]) {
        result r = without_exceptions(s);
        if (r.code() == xylInProgress) {
          unfinished[i] = 1;
        } else if (!r.ok()) {
          results[i] = std::move(r);
          return;
        }
      }
    });
  XYL_TRY(run_together(runs));
  for (result& r : results)
    if (!r.ok()) return std::move(r);
  for (char u : unfinished)
    if (u) return error(xylInProgress, "still in progress");
  return {};
}

// Lends or gives back the streams of those ranks that work on a device.
result lend_streams(std::vector<calls_of_rank>& ranks, bool before) {
  for (calls_of_rank& one : ranks) {
    if (one.streams.empty()) continue;
    xylStream_t own = nullptr;
    XYL_TRY(one.lend(before, own));
    if (!before) continue;
    for (std::vector<request>* list : {&one.calls, &one.transfers})
      for (request& r : *list) r.stream = own;
  }
  return {};
}

// The calls of one rank that work on its device, and the others.
struct sorted_calls {
  calls_of_rank* of;
  joint_part on_device;
  std::vector<request> calls, transfers;  // the others
};
struct ranks_with_one_device {
  const void* common;
  std::vector<sorted_calls> ranks;
};

std::vector<ranks_with_one_device> sets_of(std::vector<calls_of_rank>& ranks) {
  std::vector<ranks_with_one_device> sets;
  for (calls_of_rank& one : ranks) {
    communicator* c = nullptr;
    // What is wrong is said when its calls are run.
    if (one.streams.empty() || !one.find(c).ok()) continue;
    const void* const common = joint_group::common_to(*c);
    if (common == nullptr) continue;
    auto set = std::find_if(sets.begin(), sets.end(), [&](const auto& s) { return s.common == common; });
    if (set == sets.end()) set = sets.insert(set, {common, {}});
    sorted_calls& sorted = set->ranks.emplace_back(sorted_calls{&one, {c, {}, {}}, {}, {}});
    for (const request& r : one.calls) (c->works_on_device(r) ? sorted.on_device.calls : sorted.calls).push_back(r);
    for (const request& r : one.transfers)
      (c->works_on_device(r) ? sorted.on_device.transfers : sorted.transfers).push_back(r);
  }
  return sets;
}

// Runs, and takes out, what can be done for all ranks of a communicator at once. It only enqueues. Where it fails,
// the other calls of that communicator are not run: all its ranks are here, so nobody waits for them, and results
// of half a group are worth nothing.
result run_jointly(std::vector<calls_of_rank>& ranks) {
  result first;
  for (ranks_with_one_device& set : sets_of(ranks)) {
    std::vector<joint_part> parts;
    for (const sorted_calls& one : set.ranks) parts.push_back(one.on_device);
    joint_group joint(std::move(parts));
    if (!joint.is_whole()) continue;
    for (sorted_calls& one : set.ranks) {
      one.of->calls = std::move(one.calls);
      one.of->transfers = std::move(one.transfers);
      one.of->streams.clear();
    }
    result done = without_exceptions([&] { return joint.run(); });
    if (done.ok()) continue;
    for (const sorted_calls& one : set.ranks) {
      one.of->calls.clear();
      one.of->transfers.clear();
      one.of->by.how->remember(one.of->by.comm, done);
    }
    if (first.ok()) first = std::move(done);
  }
  std::erase_if(ranks, [](const calls_of_rank& one) { return one.calls.empty() && one.transfers.empty(); });
  return first;
}

result run_calls(std::vector<calls_of_rank>& ranks) {
  result jointly = ranks.size() > 1 ? without_exceptions([&] { return run_jointly(ranks); }) : result();
  const bool several = ranks.size() > 1;
  if (several) XYL_TRY(lend_streams(ranks, true));
  std::vector<std::vector<step>> lists;
  for (const calls_of_rank& one : ranks) {
    std::vector<step>& list = lists.emplace_back();
    for (const request& r : one.calls) list.push_back([&] { return one.run(r); });
    if (!one.transfers.empty()) list.push_back([&] { return one.transfer(); });
  }
  result called = run_lists(lists);
  // Also after an error: what was enqueued is the named streams' all the same.
  result returned = several ? lend_streams(ranks, false) : result();
  if (!jointly.ok()) return jointly;
  return called.ok() ? std::move(returned) : std::move(called);
}

// A send and a receive of one rank, most often: nothing to run beside it.
result run_transfers(recording& here) {
  calls_of_rank& one = here.ranks.front();
  result done = without_exceptions([&] { return one.transfer(); });
  one.transfers.clear();
  if (one.transfers.capacity() <= most_kept) here.room = std::move(one.transfers);
  here.ranks.clear();
  return done;
}

}  // namespace

bool is_open() { return depth > 0; }

void start() { ++depth; }

void record_making(const void* from, step make) {
  std::vector<makings_from>& makings = mine().makings;
  for (makings_from& one : makings)
    if (from != nullptr && one.from == from) return one.steps.push_back(std::move(make));
  makings.push_back({from, {}});
  makings.back().steps.push_back(std::move(make));
}

void record_call(const void* rank, const request& r, bool on_device, const caller& by) {
  recording& here = mine();
  auto one = std::find_if(here.ranks.begin(), here.ranks.end(), [rank](const auto& c) { return c.rank == rank; });
  if (one == here.ranks.end()) {
    here.ranks.push_back({rank, {}, std::exchange(here.room, {}), {}, by});
    one = here.ranks.end() - 1;
  }
  (is_transfer(r.what) ? one->transfers : one->calls).push_back(r);
  if (on_device && std::find(one->streams.begin(), one->streams.end(), r.stream) == one->streams.end())
    one->streams.push_back(r.stream);
}

void note_error(const result& r) {
  recording& here = mine();
  if (here.code != xylSuccess) return;
  here.code = r.code();
  here.text = r.text();
}

result end() {
  if (depth == 0) return error(xylInvalidUsage, "xylGroupEnd: no group of this thread is open");
  if (--depth > 0) return {};
  recording& here = mine();
  if (here.code == xylSuccess && here.makings.empty() && here.ranks.size() == 1 && here.ranks.front().calls.empty())
    return run_transfers(here);
  // Emptied first: nothing of this group is left for the next, however it ends.
  recording now = std::exchange(here, {});
  if (now.code != xylSuccess)
    return error(now.code, "the group was not run, because of a call in it: %s", now.text.c_str());
  std::vector<std::vector<step>> makings;
  for (makings_from& one : now.makings) makings.push_back(std::move(one.steps));
  result made = run_lists(makings);
  if (!made.ok() && made.code() != xylInProgress) return made;
  result called = run_calls(now.ranks);
  return called.ok() ? std::move(made) : std::move(called);
}

}  // namespace xyl::group
