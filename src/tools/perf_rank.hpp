// SPDX-License-Identifier: BSD-3-Clause
//
// One rank of a run as the thread that drives it holds it, and all that such a thread needs to take part.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/perf_crew.hpp"
#include "tools/perf_memory.hpp"
#include "tools/perf_options.hpp"

namespace xyl {

struct perf_rank {
  int rank = 0;
  int device = -1;  // -1: host memory
  xylComm_t comm = nullptr;
  std::unique_ptr<perf_memory> memory;
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
  void* windows[2] = {};  // of both, where they are registered
};

// The wrong elements that a thread found; of the first one, whose it is and a sentence.
struct fault_count {
  std::int64_t wrong = 0;
  int rank = 0;
  std::string first;

  // sentence() makes the text; called for the first fault alone.
  template <class Sentence>
  void add(int of_rank, Sentence&& sentence) {
    if (wrong++ > 0) return;
    rank = of_rank;
    first = sentence();
  }
};

// A thread's ranks have consecutive numbers.
struct perf_team {
  const perf_options& options;
  seat place;
  int ranks = 1;        // of the whole run
  bool is_main = true;  // the first thread of its process
  bool speaks = true;   // the first one of all
  std::vector<perf_rank> own;

  // Buffers of this size, and the guard, for every own rank; registered if the options say so.
  result allocate(std::size_t bytes);
  // Ends the registration, and frees what was registered. Other buffers end with their memory.
  result release();

  // Adds the faults of all threads to `wrong`; the lowest rank that has one says so on stderr. what: the call.
  void count_wrong(const std::string& what, const fault_count& here, std::int64_t& wrong);
};

}  // namespace xyl
