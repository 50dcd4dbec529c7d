// SPDX-License-Identifier: BSD-3-Clause
//
// One rank of a run as the thread that drives it holds it, and all that such a thread needs to take part.
#pragma once

#include <memory>
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
};

// A thread's ranks have consecutive numbers.
struct perf_team {
  const perf_options& options;
  seat place;
  int ranks = 1;  // of the whole run
  std::vector<perf_rank> own;

  // Buffers of this size, and the guard, for every own rank.
  result allocate(std::size_t bytes);
};

}  // namespace xyl
