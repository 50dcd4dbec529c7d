// SPDX-License-Identifier: BSD-3-Clause
//
// Rank 0's part of an initialisation: from its environment, the files that it names, the machine and what the ranks
// have told, to the tables that all ranks use and the text that describes them. The machine never fails it: what
// cannot be read, or not in time, is planned for as a flat machine, and a note says so. Files that a person names
// do.
#pragma once

#include <sched.h>

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "comm/selection.hpp"
#include "comm/sync_paths.hpp"
#include "exec/device_side.hpp"
#include "topo/discovery.hpp"
#include "topo/plan_table.hpp"
#include "topo/planner.hpp"
#include "topo/probe_report.hpp"
#include "topo/tuning_cache.hpp"

namespace xyl {

// What each rank tells of its process.
struct host_facts {
  cpu_set_t processors;  // empty on a machine with more than the set has room for
  std::int64_t process;
  std::int64_t probes = 0;  // 1: XYLEM_PROBE=always; rank 0's counts
};

struct planning_input {
  const parameters& wishes;
  std::span<const host_facts> hosts;       // by rank
  std::span<const device_handle> devices;  // by rank; empty: none
  bool is_staged = false;                  // GPUs meet in host memory, because of
  std::string staging_reason{};            // this
  layout device_map{};
  const sync_decision* sync = nullptr;           // with devices: how they synchronise
  unsigned max_blocks = 0;                       // co-resident on all devices; 0 without
  unsigned max_pull_blocks = 1;                  // the same of kernels on registered buffers
  bool can_read = false;                         // every rank may read the memory of every other; see reading_proof
  const topo::discovery* machine = nullptr;      // asked where devices are and no file is named
  std::chrono::milliseconds patience{2000};      // with it
  std::string root{};                            // where /sys is looked for; empty: /
  const char* nvml = "libnvidia-ml.so.1";        // beside a file; empty: not asked
  std::optional<std::string> cache_folder = {};  // without one no cache is looked for
  const topo::probe_report* probe = nullptr;     // of these ranks' links, if there is one
  std::string probe_note{};                      // what else there is to say of it
  const topo::tuning* measured = nullptr;        // of this very communicator, if it was
};

// What all ranks get from rank 0. Values only; no padding.
struct agreed_choice {
  selection choice;
  topo::plan_table table;  // all zero: no plan, of ranks in their own order
  std::uint64_t description_bytes;
  // 1: the thresholds of allreduce are measured next, and then there is another choice; 2: the same, among
  // algorithms that add in rank order.
  std::uint64_t measure;
  // Whether this can be what rank 0 of so many ranks sent.
  [[nodiscard]] bool plausible(std::uint32_t of_ranks) const;
};

struct planned {
  agreed_choice agreed;
  std::string description;  // a JSON object
  std::string line;         // the same in a line, for the log
  topo::tuning_key key;     // under which measured thresholds are kept
};

// Errors (xylInvalidUsage): a file that XYLEM_TOPO_FILE, XYLEM_TOPO_OVERRIDE or XYLEM_PLAN names cannot be used.
result make_choice(const planning_input& in, planned& out);

// What a report calls the GPUs that ranks have: their addresses; without devices every rank is its own.
struct probed_gpus {
  std::vector<std::string> names;
  std::vector<std::uint32_t> gpu_of_rank;  // index into names
};
probed_gpus list_gpus(const planning_input& in);

// Whether links are probed, and how, or what is kept of an earlier time.
struct probe_decision {
  topo::probe_order order;  // run is 0: they are not
  std::optional<topo::probe_report> kept;
  topo::tuning_key key;   // under which a report is kept
  bool may_keep = false;  // where the machine is known well enough to be known again
  std::string note;
};
// Of `in`, nothing that comes after a probe is looked at.
probe_decision decide_probe(const planning_input& in);

// That the ranks may use, all together; 0: not known.
unsigned processors_of(const planning_input& in);

// machine: what of the key is the machine's.
topo::tuning_key tuning_key_of(const planning_input& in, topo::tuning_key machine);

// ${XDG_CACHE_HOME:-~/.cache}/xylem, if the environment says where that is.
std::optional<std::string> user_cache_folder();

// Ranks beyond a table's room go in rank order.
ring_seat seat_of(const topo::plan_table& table, int rank);

}  // namespace xyl
