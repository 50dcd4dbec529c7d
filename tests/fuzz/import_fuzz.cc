// SPDX-License-Identifier: BSD-3-Clause
// libFuzzer: any bytes as a topology file. What is accepted must survive export and import unchanged, and
// everything that reads a graph must cope with it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "topo/export.hpp"
#include "topo/import.hpp"
#include "topo/paths.hpp"

using namespace xyl::topo;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  graph g;
  if (!import_text({reinterpret_cast<const char*>(data), size}, g).ok()) return 0;
  const std::string text = export_json(g);
  graph again;
  if (!import_text(text, again).ok() || export_json(again) != text) std::abort();
  const std::vector<vertex_id> gpus = g.gpus();
  const path_finder find(g);
  for (std::size_t i = 0; i < gpus.size() && i < 8; ++i) {
    for (std::size_t j = 0; j < gpus.size() && j < 8; ++j) {
      vertex_id at = gpus[i];
      for (std::uint32_t e : find.find(gpus[i], gpus[j]).edges) {
        if (g.edges[e].from != at) std::abort();
        at = g.edges[e].to;
      }
    }
    (void)find.find_staged(gpus[i], find.nearest_memory(gpus[i]), gpus.back());
  }
  return 0;
}
