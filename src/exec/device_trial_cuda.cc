// SPDX-License-Identifier: BSD-3-Clause
//
// Launches of the self-tests of sync paths. A trial is one graph: what is measured is the device and not how fast
// this process can launch, and no peer waits for a launch of this rank while the process has no processor. The
// graphs are made before any rank launches: making one may wait for kernels that run, and those for this rank.
#include <cstddef>

#include "exec/cuda_device_side.hpp"
#include "exec/device_trial.hpp"
#include "kernels/sync_table.hpp"

namespace xyl {

namespace {

// A trial that wants fewer lets the rest do nothing.
constexpr std::uint32_t recorded_launches = 33;

result launch_trial(const kernel& k, const trial_order& order, bool overlaps, cudaStream_t stream) {
  trial_order given = order;
  void* list[] = {&given};
  cudaLaunchAttribute attribute{};
  cudaLaunchConfig_t shape{};
  shape.gridDim = dim3(1);
  shape.blockDim = dim3(k.most_lanes);
  shape.stream = stream;
  if (overlaps) {
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    shape.attrs = &attribute;
    shape.numAttrs = 1;
  }
  return cuda_result(cudaLaunchKernelExC(&shape, k.function, list), "cudaLaunchKernelExC of a self-test");
}

result record_trial(trial_order order, bool overlaps, cudaStream_t stream, cudaGraphExec_t& out) {
  XYL_TRY(cuda_result(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture"));
  result launched;
  for (std::uint32_t i = 0; i < recorded_launches && launched.ok(); ++i) {
    order.is_first = i == 0;
    launched = launch_trial(trial_kernel(), order, overlaps && i > 0, stream);
  }
  cudaGraph_t graph = nullptr;
  // Also after a failure, or the stream would go on being captured.
  result ended = cuda_result(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  if (launched.ok() && ended.ok())
    launched = cuda_result(cudaGraphInstantiate(&out, graph, 0), "cudaGraphInstantiate");
  if (graph) (void)cudaGraphDestroy(graph);
  XYL_TRY(std::move(launched));
  XYL_TRY(std::move(ended));
  return cuda_result(cudaGraphUpload(out, stream), "cudaGraphUpload");
}

}  // namespace

trial_order cuda_device_side::trial_launch() const {
  trial_order order;
  order.rank = rank_;
  order.ranks = static_cast<std::int32_t>(peers_.size());
  order.map = map_;
  order.own = workspace_;
  for (std::size_t p = 0; p < peers_.size(); ++p) order.workspace[p] = peers_[p];
  return order;
}

result cuda_device_side::prepare_trials() {
  if (peers_.size() > trial_order::capacity || map_.blocks < 2)
    return error(xylInternalError, "self-tests on %zu ranks with %u blocks", peers_.size(), map_.blocks);
  end_trials();
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  XYL_TRY(record_trial(trial_launch(), false, own_stream_, trials_[0]));
  if (can_overlap()) XYL_TRY(record_trial(trial_launch(), true, own_stream_, trials_[1]));
  return cuda_result(cudaStreamSynchronize(own_stream_), "cudaStreamSynchronize");
}

void cuda_device_side::end_trials() {
  const device_scope scope(device_);
  for (cudaGraphExec_t& graph : trials_) {
    if (graph) (void)cudaGraphExecDestroy(graph);
    graph = nullptr;
  }
}

result cuda_device_side::try_path(const trial_plan& plan, trial_finding& out) {
  out = {};
  const cudaGraphExec_t launches = trials_[plan.what.overlap != launch_overlap::none];
  if (launches == nullptr || plan.what.launches > recorded_launches)
    return error(xylInternalError, "a self-test of %u launches that were not prepared", plan.what.launches);
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  std::byte* const there = workspace_ + map_.trial_offset();
  static_assert(offsetof(trial_state, plan) == 0);
  XYL_TRY(cuda_result(cudaMemcpyAsync(there, &plan, sizeof plan, cudaMemcpyHostToDevice, own_stream_),
                      "cudaMemcpyAsync of a self-test"));
  XYL_TRY(cuda_result(cudaGraphLaunch(launches, own_stream_), "cudaGraphLaunch of a self-test"));
  // Ended before the copy is asked for: see kernel_check.
  XYL_TRY(cuda_result(cudaStreamSynchronize(own_stream_), "cudaStreamSynchronize of a self-test"));
  trial_state state;
  XYL_TRY(cuda_result(cudaMemcpyAsync(&state, there, sizeof state, cudaMemcpyDeviceToHost, own_stream_),
                      "cudaMemcpyAsync of a self-test"));
  XYL_TRY(cuda_result(cudaStreamSynchronize(own_stream_), "cudaStreamSynchronize of a self-test"));
  out = finding_of(state, plan);
  return {};
}

}  // namespace xyl
