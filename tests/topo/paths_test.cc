// SPDX-License-Identifier: BSD-3-Clause
// Paths over graphs made by hand: what limits them, what vetoes them, what they refuse.
#include "topo/paths.hpp"

#include <gtest/gtest.h>

#include "topo/assembly.hpp"

namespace xyl::topo {
namespace {

figure nominal(double value, confidence trust = confidence::medium) { return {value, source::nominal, trust}; }

// Two NUMA nodes with a root complex and two GPUs each, one of the four on a slow link.
struct two_nodes {
  graph g;
  std::vector<vertex_id> gpu;
  vertex_id memory[2] = {};
  std::uint32_t between = 0;

  two_nodes() {
    vertex_id numa[2];
    for (vertex_id& n : numa) {
      n = g.add(make_vertex(vertex_kind::numa_node, "node"));
      memory[&n - numa] = g.add(make_vertex(vertex_kind::host_memory, "memory"));
      g.link(n, memory[&n - numa], edge_kind::memory, nominal(100), nominal(0.1));
      const vertex_id complex = g.add(make_vertex(vertex_kind::root_complex, "complex"));
      g.link(n, complex, edge_kind::internal, nominal(80), nominal(0.2));
      for (int i = 0; i < 2; ++i) {
        gpu.push_back(g.add(make_vertex(vertex_kind::gpu, "GPU")));
        g.link(complex, gpu.back(), edge_kind::pcie, nominal(gpu.size() == 4 ? 8 : 50), nominal(0.3));
      }
    }
    between = g.link(numa[0], numa[1], edge_kind::socket_link, nominal(30), nominal(0.5));
  }
};

TEST(paths, classes_hops_and_limits) {
  const two_nodes m;
  const path_finder find(m.g);
  const path same = find.find(m.gpu[0], m.gpu[0]);
  EXPECT_EQ(name_of(same), "LOC");
  EXPECT_EQ(same.hops, 0u);
  EXPECT_FALSE(same.write.known());
  const path near = find.find(m.gpu[0], m.gpu[1]);
  EXPECT_EQ(name_of(near), "PHB");
  EXPECT_EQ(near.write, nominal(50));
  EXPECT_DOUBLE_EQ(near.latency.value, 0.6);
  const path far = find.find(m.gpu[0], m.gpu[2]);
  EXPECT_EQ(name_of(far), "SYS");
  EXPECT_EQ(far.hops, 5u);
  EXPECT_EQ(far.write, nominal(30));
  EXPECT_NEAR(far.latency.value, 1.5, 1e-9);
  EXPECT_EQ(find.find(m.gpu[0], m.gpu[3]).read, nominal(8));
}

TEST(paths, reading_and_writing_have_figures_of_their_own) {
  two_nodes m;
  m.g.edges[m.between].write = nominal(3);
  m.g.edges[m.between].read = nominal(20);
  const path there = find_path(m.g, m.gpu[0], m.gpu[2]);
  EXPECT_DOUBLE_EQ(there.write.value, 3);
  EXPECT_DOUBLE_EQ(there.read.value, 20);
  const path back = find_path(m.g, m.gpu[2], m.gpu[0]);
  EXPECT_DOUBLE_EQ(back.write.value, 30);
  EXPECT_DOUBLE_EQ(back.read.value, 30);
}

TEST(paths, an_edge_without_information_limits_nothing_but_costs_trust) {
  two_nodes m;
  m.g.edges[m.between].write = m.g.edges[m.between].read = {};
  const path p = find_path(m.g, m.gpu[0], m.gpu[2]);
  EXPECT_EQ(p.write, nominal(50, confidence::low));
  m.g.edges[m.between].latency = {};
  EXPECT_FALSE(find_path(m.g, m.gpu[0], m.gpu[2]).latency.known());
}

TEST(paths, a_group_is_shared_by_the_edges_that_a_way_crosses) {
  two_nodes m;
  const std::vector<std::uint32_t> crossed = find_path(m.g, m.gpu[0], m.gpu[1]).edges;
  m.g.groups.push_back({"complex", crossed, {60, source::measured, confidence::high}});
  EXPECT_EQ(find_path(m.g, m.gpu[0], m.gpu[1]).write, (figure{30, source::measured, confidence::high}));
  EXPECT_DOUBLE_EQ(find_path(m.g, m.gpu[1], m.gpu[0]).write.value, 50);  // the other directions
}

TEST(paths, a_pair_figure_replaces_the_edges) {
  two_nodes m;
  m.g.pairs.push_back({m.gpu[0],
                       m.gpu[1],
                       {44, source::measured, confidence::high},
                       {},
                       {0.7, source::measured, confidence::high},
                       true});
  const path p = find_path(m.g, m.gpu[0], m.gpu[1]);
  EXPECT_EQ(p.what, path_class::phb);
  EXPECT_DOUBLE_EQ(p.write.value, 44);
  EXPECT_DOUBLE_EQ(p.read.value, 50);
  EXPECT_DOUBLE_EQ(p.latency.value, 0.7);
  EXPECT_DOUBLE_EQ(find_path(m.g, m.gpu[1], m.gpu[0]).write.value, 50);
}

TEST(paths, a_veto_stages_through_the_nearest_host_memory) {
  two_nodes m;
  m.g.pairs.push_back({m.gpu[0], m.gpu[2], {44, source::nominal, confidence::low}, {}, {}, false});
  const path p = find_path(m.g, m.gpu[0], m.gpu[2]);
  EXPECT_EQ(name_of(p), "HOST");
  EXPECT_EQ(p.hops, 3u + 4u);
  EXPECT_DOUBLE_EQ(p.write.value, 30);
  EXPECT_EQ(m.g.edges[p.edges[2]].to, m.memory[0]);
  EXPECT_EQ(name_of(find_path(m.g, m.gpu[2], m.gpu[0])), "SYS");
  // Through the other one, on purpose.
  const path other = path_finder(m.g).find_staged(m.gpu[0], m.memory[1], m.gpu[2]);
  EXPECT_EQ(other.hops, 4u + 3u);
}

TEST(paths, nvlink_goes_first_and_never_through_another_gpu) {
  two_nodes m;
  const auto nvlink = [&](vertex_id a, vertex_id b, unsigned links) {
    const std::uint32_t e = m.g.link(a, b, edge_kind::nvlink, nominal(25 * links), nominal(0.4));
    m.g.edges[e].links = m.g.edges[e + 1].links = links;
  };
  nvlink(m.gpu[0], m.gpu[1], 4);
  nvlink(m.gpu[1], m.gpu[2], 2);
  EXPECT_EQ(name_of(find_path(m.g, m.gpu[0], m.gpu[1])), "NV4");
  EXPECT_EQ(name_of(find_path(m.g, m.gpu[2], m.gpu[1])), "NV2");
  EXPECT_EQ(name_of(find_path(m.g, m.gpu[0], m.gpu[2])), "SYS");
  EXPECT_EQ(name_of(path_finder(m.g).find_without_nvlink(m.gpu[0], m.gpu[1])), "PHB");
  const vertex_id fabric = m.g.add(make_vertex(vertex_kind::nv_switch, "NVSwitch"));
  nvlink(m.gpu[0], fabric, 6);
  nvlink(fabric, m.gpu[2], 5);
  const path p = find_path(m.g, m.gpu[0], m.gpu[2]);
  EXPECT_EQ(name_of(p), "NV5");
  EXPECT_DOUBLE_EQ(p.write.value, 125);
}

TEST(paths, the_wider_of_two_equally_long_ways) {
  graph g;
  const vertex_id a = g.add(make_vertex(vertex_kind::gpu, "a")), b = g.add(make_vertex(vertex_kind::gpu, "b"));
  const vertex_id sockets[] = {
      g.add(make_vertex(vertex_kind::socket, "0")), g.add(make_vertex(vertex_kind::socket, "1")),
      g.add(make_vertex(vertex_kind::socket, "2")), g.add(make_vertex(vertex_kind::socket, "3"))};
  g.link(a, sockets[0], edge_kind::pcie, nominal(60), {});
  g.link(b, sockets[3], edge_kind::pcie, nominal(60), {});
  for (int middle : {1, 2}) {
    g.link(sockets[0], sockets[middle], edge_kind::socket_link, nominal(10.0 * middle), {});
    g.link(sockets[middle], sockets[3], edge_kind::socket_link, nominal(40), {});
  }
  EXPECT_DOUBLE_EQ(find_path(g, a, b).write.value, 20);
  EXPECT_EQ(find_path(g, a, b).what, path_class::sys);
}

TEST(paths, what_is_not_there_is_host_without_edges) {
  const two_nodes m;
  const path_finder find(m.g);
  for (vertex_id bad : {static_cast<vertex_id>(m.g.vertices.size()), no_vertex}) {
    EXPECT_EQ(name_of(find.find(m.gpu[0], bad)), "HOST");
    EXPECT_EQ(name_of(find.find(bad, bad)), "HOST");
    EXPECT_TRUE(find.find_without_nvlink(bad, m.gpu[0]).edges.empty());
    EXPECT_TRUE(find.find_staged(m.gpu[0], bad, m.gpu[1]).edges.empty());
    EXPECT_EQ(find.nearest_memory(bad), no_vertex);
  }
  graph islands;
  const vertex_id a = islands.add(make_vertex(vertex_kind::gpu, "a")),
                  b = islands.add(make_vertex(vertex_kind::gpu, "b"));
  EXPECT_EQ(name_of(find_path(islands, a, b)), "HOST");
  EXPECT_TRUE(find_path(islands, a, b).edges.empty());
  EXPECT_EQ(name_of(find_path(graph(), 0, 1)), "HOST");
}

}  // namespace
}  // namespace xyl::topo
