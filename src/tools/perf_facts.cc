// SPDX-License-Identifier: BSD-3-Clause
//
// What all reports of the tool have in common.
#include <nlohmann/json.hpp>

#include "base/result.hpp"
#include "tools/perf_report.hpp"

namespace xyl {

std::string number_text(double value, int width) {
  const int decimals = value < 10 ? 3 : value < 1000 ? 2 : value < 100'000 ? 1 : 0;
  return format_text("%*.*f", width, decimals, value);
}

std::string title_text(const run_facts& facts) {
  return format_text("# xylem-perf %s, Xylem %s, %zu rank%s, %s memory\n", facts.options.collective.c_str(),
                     facts.version.c_str(), facts.places.size(), facts.places.size() == 1 ? "" : "s",
                     facts.device_memory ? "device" : "host");
}

std::string method_text(const perf_options& o) {
  std::string text = o.iterations > 0 ? format_text("%d iteration%s", o.iterations, o.iterations == 1 ? "" : "s")
                                      : std::string("iterations as needed");
  if (o.aggregated_calls > 1) text += format_text(" of %d calls", o.aggregated_calls);
  text += format_text(", %d warm-up; median of %d, slowest rank", o.warmup_iterations, o.repetitions);
  if (o.registration > 0) text += "; registered buffers";
  if (o.rewrite) text += "; single calls, inputs written anew before each";
  if (o.graph_launches > 0) text += format_text("; in a CUDA graph launched %d times", o.graph_launches);
  if (o.threads * o.ranks_per_thread > 1)
    text +=
        format_text("; processes of %d thread%s that drive%s %d rank%s each", o.threads, o.threads == 1 ? "" : "s",
                    o.threads == 1 ? "s" : "", o.ranks_per_thread, o.ranks_per_thread == 1 ? "" : "s");
  return text + (o.checks > 0 ? "; results checked" : "; results not checked");
}

std::string places_text(const run_facts& facts) {
  std::string text;
  for (std::size_t rank = 0; rank < facts.places.size(); ++rank) {
    const rank_place& p = facts.places[rank];
    text += format_text("#   rank %2zu  pid %7d on %s", rank, p.process, p.host.c_str());
    if (p.device >= 0) text += format_text("  device %d  %s", p.device, p.device_text.c_str());
    text += '\n';
  }
  return text;
}

nlohmann::ordered_json facts_json(const run_facts& facts) {
  const perf_options& o = facts.options;
  nlohmann::ordered_json json;
  json["xylem_version"] = facts.version;
  json["mpi_version"] = facts.mpi_version;
  json["collective"] = o.collective;
  json["memory"] = facts.device_memory ? "device" : "host";
  json["warmup_iterations"] = o.warmup_iterations;
  json["aggregated_calls"] = o.aggregated_calls;
  json["repetitions"] = o.repetitions;
  json["graph_launches"] = o.graph_launches;
  json["checks"] = o.checks;
  json["registered"] = o.registration > 0;
  json["threads"] = o.threads;
  json["ranks_per_thread"] = o.ranks_per_thread;
  json["ranks"] = nlohmann::ordered_json::array();
  for (const rank_place& p : facts.places) {
    nlohmann::ordered_json place = {{"host", p.host}, {"process", p.process}};
    if (p.device >= 0) {
      place["device"] = p.device;
      place["device_name"] = p.device_text;
    }
    json["ranks"].push_back(place);
  }
  return json;
}

}  // namespace xyl
