// SPDX-License-Identifier: BSD-3-Clause
//
// The options of a sweep over message sizes.
#include <algorithm>

#include "tools/perf_flags.hpp"
#include "tools/perf_types.hpp"

namespace xyl {
namespace {

constexpr std::uint64_t most_sizes = 100'000;

struct seen_flags {
  CLI::Option *least, *most, *factor, *step, *graph;
};

seen_flags add_flags(CLI::App& app, perf_options& out) {
  seen_flags seen{};
  add_common_flags(app, out);
  seen.least = add_size(app, "-b,--minbytes", "Smallest message (default 8)", out.least_bytes);
  seen.most = add_size(app, "-e,--maxbytes", "Largest message (default 16M)", out.most_bytes);
  seen.factor =
      add_flag(app, "-f,--stepfactor", "Multiply the size by this from line to line (default 2)",
               "a whole number from 1 to 1048576 (1: use --stepbytes)", "NUMBER", [&out](const std::string& text) {
                 const std::optional<std::uint64_t> value = parse_count(text);
                 if (!value || *value < 1 || *value > 1u << 20) return false;
                 out.step_factor = *value;
                 return true;
               });
  seen.step = add_size(app, "-i,--stepbytes", "Add this to the size from line to line instead", out.step_bytes);
  add_count(app, "-m,--agg_iters", "Calls that count as one iteration (default 1)", 1, 10'000,
            out.aggregated_calls);
  add_flag(app, "-r,--root", "Root of the collectives that have one, or all (default 0)", "a rank, or all", "RANK",
           [&out](const std::string& text) {
             if (equal_ignoring_case(text, "all")) {
               out.root = all_roots;
               return true;
             }
             const std::optional<std::uint64_t> value = parse_count(text);
             if (!value || *value > 1'000'000) return false;
             out.root = static_cast<int>(*value);
             return true;
           });
  seen.graph =
      add_count(app, "-G,--cudagraph", "Capture the calls in a CUDA graph and launch it this often (default 0)", 0,
                1'000'000, out.graph_launches);
  add_names(app, "-d,--datatype", "Element type, or all (default float)", type_list(), "TYPE", &type_info::type,
            all_types(), type_named, out.types);
  add_names(app, "-o,--op", "Reduction, or all (default sum); without a meaning where nothing is reduced",
            operation_list(), "OPERATION", &operation_info::operation, all_operations(), operation_named,
            out.operations);
  app.add_flag("--compare", out.compare,
               "Measure the same call of the MPI library as well, in turn, on host memory; show time and ratio");
  app.add_flag("--rewrite", out.rewrite,
               "Write every input anew before each timed call, as a program would, on host memory; calls are timed "
               "one by one, MPI's alike");
  return seen;
}

std::string find_contradiction(const seen_flags& seen, perf_options& out) {
  // One end alone moves the other.
  if (!seen.most->count()) out.most_bytes = std::max(out.most_bytes, out.least_bytes);
  if (!seen.least->count()) out.least_bytes = std::min(out.most_bytes, out.least_bytes);
  if (out.least_bytes > out.most_bytes)
    return format_text("--minbytes %llu is more than --maxbytes %llu",
                       static_cast<unsigned long long>(out.least_bytes),
                       static_cast<unsigned long long>(out.most_bytes));
  if (seen.factor->count() && out.step_factor > 1 && seen.step->count())
    return "--stepfactor multiplies and --stepbytes adds; give one of them";
  if (seen.step->count()) out.step_factor = 1;
  if (out.step_factor == 1 && !seen.step->count() && out.least_bytes < out.most_bytes)
    return "--stepfactor 1 never reaches --maxbytes; give --stepbytes as well";
  if (out.step_factor == 1 && out.least_bytes < out.most_bytes &&
      (out.most_bytes - out.least_bytes) / out.step_bytes >= most_sizes)
    return format_text("--stepbytes %llu makes more than %llu sizes",
                       static_cast<unsigned long long>(out.step_bytes),
                       static_cast<unsigned long long>(most_sizes));
  if (out.compare && out.memory == memory_choice::device)
    return "--compare measures host memory; leave --memory out, or say --memory host";
  if (out.compare) out.memory = memory_choice::host;
  if (out.compare && out.threads * out.ranks_per_thread > 1)
    return "--compare measures one rank per process, as MPI has them; leave --nthreads and --ngpus out";
  if (out.rewrite && out.memory == memory_choice::device)
    return "--rewrite is for host memory; leave --memory out, or say --memory host";
  if (out.rewrite) out.memory = memory_choice::host;
  if (out.rewrite && out.aggregated_calls > 1) return "--rewrite times single calls; leave --agg_iters out";
  if (out.graph_launches > 0 && out.memory == memory_choice::host)
    return "--cudagraph needs device memory; leave it out on host memory";
  for (xylDataType_t type : out.types)
    for (xylRedOp_t operation : out.operations)
      if (go_together(info_of(type), info_of(operation))) return "";
  return format_text("--op %s needs integers, which --datatype %s is not", info_of(out.operations.front()).name,
                     info_of(out.types.front()).name);
}

}  // namespace

contradiction add_sweep_flags(CLI::App& app, perf_options& out) {
  const seen_flags seen = add_flags(app, out);
  return [seen, &out] { return find_contradiction(seen, out); };
}

std::vector<std::uint64_t> sizes_of(const perf_options& options) {
  std::vector<std::uint64_t> sizes;
  std::uint64_t size = options.least_bytes;
  while (true) {
    sizes.push_back(size);
    if (options.step_factor > 1) {
      if (size > options.most_bytes / options.step_factor) break;
      size *= options.step_factor;
    } else {
      if (options.step_bytes == 0 || options.most_bytes - size < options.step_bytes) break;
      size += options.step_bytes;
    }
  }
  return sizes;
}

}  // namespace xyl
