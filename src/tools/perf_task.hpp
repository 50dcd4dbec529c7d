// SPDX-License-Identifier: BSD-3-Clause
//
// What a subcommand does between the start and the end of a run, which are the same for all of them.
#pragma once

#include <fstream>
#include <memory>
#include <string>

#include "tools/perf_rank.hpp"
#include "tools/perf_report.hpp"

namespace xyl {

class perf_task {
 public:
  virtual ~perf_task() = default;

  // Where the rest of the tool puts options and places.
  virtual run_facts& facts() = 0;
  // Why these options do not suit this number of ranks; "": they do.
  virtual std::string objection(int ranks) const = 0;
  // Every thread of every process calls it. The main thread of a process keeps the rows; the speaking one prints
  // them and writes them to csv if that is open.
  virtual result run(perf_team& team, std::ofstream& csv) = 0;
  virtual std::string json() const = 0;
  virtual std::int64_t wrong() const = 0;
};

// The subcommand whose options were read.
std::unique_ptr<perf_task> make_sweep_task();
std::unique_ptr<perf_task> make_layer_task();

}  // namespace xyl
