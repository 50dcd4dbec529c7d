// SPDX-License-Identifier: BSD-3-Clause
//
// CUDA graphs in GPU tests: captured, with the promise checked that none of their nodes runs on the host, and
// timed.
#pragma once

#include <algorithm>
#include <vector>

#include "tests/gpu/mpi_program.hpp"

namespace xyl::gpu_test {

// What work() enqueues on the stream, and on streams that it joins to that one.
template <class F>
cudaGraphExec_t capture(cudaStream_t stream, F work,
                        cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
  cudaGraph_t graph;
  cudaGraphExec_t runnable;
  must(cudaStreamBeginCapture(stream, mode), "cudaStreamBeginCapture");
  work();
  must(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  std::size_t nodes = 0, hosts = 0;
  must(cudaGraphGetNodes(graph, nullptr, &nodes), "cudaGraphGetNodes");
  std::vector<cudaGraphNode_t> all(nodes);
  must(cudaGraphGetNodes(graph, all.data(), &nodes), "cudaGraphGetNodes");
  for (cudaGraphNode_t node : all) {
    cudaGraphNodeType type;
    must(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
    hosts += type == cudaGraphNodeTypeHost;
  }
  expect(hosts == 0, "%zu of %zu nodes of a graph run on the host", hosts, nodes);
  must(cudaGraphInstantiate(&runnable, graph, 0), "cudaGraphInstantiate");
  must(cudaGraphDestroy(graph), "cudaGraphDestroy");
  return runnable;
}

// The same, launched so many times and done with.
template <class F>
void replay(cudaStream_t stream, int times, F work) {
  cudaGraphExec_t runnable = capture(stream, work);
  for (int i = 0; i < times; ++i) must(cudaGraphLaunch(runnable, stream), "cudaGraphLaunch");
  must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  must(cudaGraphExecDestroy(runnable), "cudaGraphExecDestroy");
}

// Microseconds of one of the calls, of which enqueue() enqueues one: the median of launches of a graph of `calls`.
template <class F>
double time_in_graph(cudaStream_t stream, int calls, int repetitions, F enqueue) {
  constexpr int warm = 2;
  cudaEvent_t begin, end;
  must(cudaEventCreate(&begin), "cudaEventCreate");
  must(cudaEventCreate(&end), "cudaEventCreate");
  cudaGraphExec_t runnable = capture(stream, [&] {
    for (int i = 0; i < calls; ++i) enqueue();
  });
  std::vector<double> times;
  for (int i = 0; i < repetitions + warm; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    must(cudaEventRecord(begin, stream), "cudaEventRecord");
    must(cudaGraphLaunch(runnable, stream), "cudaGraphLaunch");
    must(cudaEventRecord(end, stream), "cudaEventRecord");
    must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    if (i >= warm) times.push_back(ms * 1000 / calls);
  }
  std::sort(times.begin(), times.end());
  must(cudaGraphExecDestroy(runnable), "cudaGraphExecDestroy");
  must(cudaEventDestroy(begin), "cudaEventDestroy");
  must(cudaEventDestroy(end), "cudaEventDestroy");
  return times[times.size() / 2];
}

}  // namespace xyl::gpu_test
