// SPDX-License-Identifier: BSD-3-Clause
//
// Graphs of any sequence on any stream: random programs of all collectives, groups, sends and receives, fused calls
// and copies, on one stream and on side streams that fork and join, are captured from every stream, in every
// capture mode, and launched again and again, graphs of several sizes in turn with eager programs; every byte is
// compared with a model. An MPI program (mpirun -np N tests/device_capture_test [quick] [seed]); rank r uses device
// r % devices. Exit 77 without a GPU, 1 with a failure; it ends itself after five minutes.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/gpu/capture_program.hpp"
#include "tests/gpu/graph.hpp"

namespace xyl::gpu_test {
namespace {

constexpr std::size_t part_bytes = 2 << 20;

struct captured {
  capture_program program;
  cudaGraphExec_t runnable;
};

captured make_graph(capture_machine& machine, program_maker& maker, int length, int number) {
  constexpr cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal,
                                             cudaStreamCaptureModeRelaxed};
  captured g{maker.make(length), nullptr};
  g.runnable = capture(
      machine.streams[g.program.main], [&] { machine.enqueue(g.program); }, modes[number % 3]);
  return g;
}

// Graphs and eager programs in turns; all of it follows what was before, on stream 0.
void programs(std::uint64_t seed, std::size_t most_bytes, const std::vector<int>& lengths, int rounds) {
  std::mt19937_64 random(seed);
  capture_machine machine(part_bytes, seed);
  program_maker maker(random, ranks_, part_bytes, most_bytes);
  std::vector<captured> graphs;
  for (const int length : lengths)
    graphs.push_back(make_graph(machine, maker, length, static_cast<int>(graphs.size())));
  machine.check("nothing but captures");
  std::string since;
  for (int round = 0; round < rounds; ++round) {
    const std::size_t which = random() % (graphs.size() + 2);
    if (which < graphs.size()) {
      const int times = 1 + static_cast<int>(random() % 3);
      for (int i = 0; i < times; ++i) {
        must(cudaGraphLaunch(graphs[which].runnable, machine.streams[0]), "cudaGraphLaunch");
        machine.account(graphs[which].program);
      }
      since += "\na graph, " + std::to_string(times) + " times, " + graphs[which].program.text();
    } else if (which == graphs.size()) {
      const capture_program p = maker.make(1 + static_cast<int>(random() % 6));
      machine.follow(p.main, 0);
      machine.enqueue(p);
      machine.follow(0, p.main);
      machine.account(p);
      since += "\neagerly " + p.text();
    } else {
      // One goes, another comes; what is in flight ends first.
      machine.check(since);
      since.clear();
      const std::size_t gone = random() % graphs.size();
      must(cudaGraphExecDestroy(graphs[gone].runnable), "cudaGraphExecDestroy");
      graphs[gone] = make_graph(machine, maker, lengths[gone], round);
    }
    if (round % 4 == 3) {
      machine.check(since);
      since.clear();
    }
  }
  machine.check(since);
  for (const captured& g : graphs) must(cudaGraphExecDestroy(g.runnable), "cudaGraphExecDestroy");
}

}  // namespace
}  // namespace xyl::gpu_test

int main(int argc, char** argv) {
  using namespace xyl::gpu_test;
  const bool quick = argc > 1 && std::strcmp(argv[1], "quick") == 0;
  const std::uint64_t seed = argc > 1 + quick ? std::strtoull(argv[1 + quick], nullptr, 0) : 1;
  return mpi_program(argc, argv, [&] {
    ::alarm(300);
    ::setenv("XYLEM_TIMEOUT", "20", 0);
    if (make_communicator()) {
      step("small calls", [&] { programs(seed, 20'000, {1, 4, 15, 60}, quick ? 24 : 80); });
      step("calls of all sizes", [&] { programs(seed + 1000, part_bytes, {2, 10, 30}, quick ? 12 : 40); });
    }
    destroy_communicator();
  });
}
