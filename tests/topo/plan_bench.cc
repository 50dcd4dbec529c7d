// SPDX-License-Identifier: BSD-3-Clause
// How long planning takes, and what memory: machines of 8 to 64 GPUs, clusters up to 4096 nodes. Medians of 21
// runs. Wanted: under 50 ms for 16 GPUs; under 0.5 s and 500 MB for 4096 nodes of 8.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "topo/built_machines.hpp"
#include "topo/cluster.hpp"
#include "topo/planner.hpp"

namespace {

using namespace xyl::topo;

template <typename Run>
void report(const char* what, Run run) {
  std::vector<double> ms;
  for (int i = 0; i < 21; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    if (const xyl::result r = run(); !r.ok()) {
      std::fprintf(stderr, "%s: %s\n", what, r.text().c_str());
      std::exit(1);
    }
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(ms.begin(), ms.begin() + 10, ms.end());
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  std::printf("%-44s %9.3f ms   %6ld MB at most so far\n", what, ms[10], used.ru_maxrss / 1024);
}

void plan_machine(const char* what, const graph& g, bool staged = false) {
  plan_request request = one_rank_per_gpu(g);
  request.host_staged = staged;
  report(what, [&] {
    plan p;
    return make_plan(g, request, p);
  });
}

void plan_nodes(const char* what, const graph& g, unsigned nodes) {
  cluster_request request;
  request.nodes = nodes;
  request.node = one_rank_per_gpu(g);
  report(what, [&] {
    cluster_plan p;
    return plan_cluster(g, request, p);
  });
}

}  // namespace

int main() {
  const graph two_switches = test::switched({4, 4}, {0, 1});
  const graph four_by_four = test::switched({4, 4, 4, 4}, {0, 0, 1, 1});
  graph collapsing = four_by_four;
  collapsing.write_collapse = test::measured(0.05);
  const graph many = test::switched(std::vector<unsigned>(8, 8), {0, 0, 0, 0, 1, 1, 1, 1});
  plan_machine("8 GPUs, two switches", two_switches);
  plan_machine("8 GPUs, partial NVLink mesh", test::cube_mesh());
  plan_machine("16 GPUs, four switches", four_by_four);
  plan_machine("16 GPUs, four switches, writes collapse", collapsing);
  plan_machine("16 GPUs, NVSwitch", test::with_nvswitch(16, 450));
  plan_machine("16 GPUs through host memory", four_by_four, true);
  plan_machine("64 GPUs, eight switches", many);
  plan_nodes("64 nodes of 8", two_switches, 64);
  plan_nodes("4096 nodes of 8", two_switches, 4096);
  return 0;
}
