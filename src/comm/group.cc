// SPDX-License-Identifier: BSD-3-Clause
#include "comm/group.hpp"

#include <new>
#include <utility>
#include <vector>

#include "comm/together.hpp"

namespace xyl::group {

namespace {

struct calls_of_rank {
  const void* rank;
  std::vector<step> calls;
  std::vector<request> transfers;
  transfers_step run_transfers;
};

struct recording {
  int depth = 0;
  std::vector<calls_of_rank> makings;
  std::vector<calls_of_rank> ranks;
  xylResult_t code = xylSuccess;
  std::string text;
};
thread_local recording mine;

calls_of_rank& list_of(std::vector<calls_of_rank>& lists, const void* rank) {
  for (calls_of_rank& one : lists)
    if (rank != nullptr && one.rank == rank) return one;
  lists.push_back({rank, {}, {}, {}});
  return lists.back();
}

result guarded(const step& s) {
  try {
    return s();
  } catch (const std::bad_alloc&) {
    return error(xylSystemError, "out of memory");
  } catch (const std::exception& e) {
    return error(xylInternalError, "unexpected: %s", e.what());
  }
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
        result r = guarded(s);
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

}  // namespace

bool is_open() { return mine.depth > 0; }

void start() { ++mine.depth; }

void record_making(const void* from, step make) { list_of(mine.makings, from).calls.push_back(std::move(make)); }

void record_call(const void* rank, step call) { list_of(mine.ranks, rank).calls.push_back(std::move(call)); }

void record_transfer(const void* rank, const request& r, transfers_step run) {
  calls_of_rank& list = list_of(mine.ranks, rank);
  list.transfers.push_back(r);
  if (!list.run_transfers) list.run_transfers = std::move(run);
}

void note_error(const result& r) {
  if (mine.code != xylSuccess) return;
  mine.code = r.code();
  mine.text = r.text();
}

result end() {
  if (mine.depth == 0) return error(xylInvalidUsage, "xylGroupEnd: no group of this thread is open");
  if (--mine.depth > 0) return {};
  // Emptied first: nothing of this group is left for the next, however it ends.
  const recording now = std::exchange(mine, {});
  if (now.code != xylSuccess)
    return error(now.code, "the group was not run, because of a call in it: %s", now.text.c_str());
  std::vector<std::vector<step>> makings, calls;
  for (const calls_of_rank& one : now.makings) makings.push_back(one.calls);
  for (const calls_of_rank& one : now.ranks) {
    calls.push_back(one.calls);
    if (one.run_transfers) calls.back().push_back([&one] { return one.run_transfers(one.transfers); });
  }
  result made = run_lists(makings);
  if (!made.ok() && made.code() != xylInProgress) return made;
  result called = run_lists(calls);
  return called.ok() ? std::move(made) : std::move(called);
}

}  // namespace xyl::group
