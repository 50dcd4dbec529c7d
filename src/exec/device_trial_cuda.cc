// SPDX-License-Identifier: BSD-3-Clause
//
// Launches of the self-tests of sync paths. The first launch is eager: it meets the peers. The others are one
// graph, so that what is measured is the device and not how fast this process can launch.
#include "exec/cuda_device_side.hpp"
#include "exec/device_trial.hpp"
#include "kernels/sync_table.hpp"

namespace xyl {

namespace {

// A captured graph that is given back.
class captured {
 public:
  captured() = default;
  captured(const captured&) = delete;
  ~captured() {
    if (ready_) (void)cudaGraphExecDestroy(ready_);
    if (graph_) (void)cudaGraphDestroy(graph_);
  }
  template <class F>
  result record(cudaStream_t stream, F launches) {
    XYL_TRY(
        cuda_result(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture"));
    result launched = launches();
    // Also after a failure, or the stream would go on being captured.
    result ended = cuda_result(cudaStreamEndCapture(stream, &graph_), "cudaStreamEndCapture");
    XYL_TRY(std::move(launched));
    XYL_TRY(std::move(ended));
    XYL_TRY(cuda_result(cudaGraphInstantiate(&ready_, graph_, 0), "cudaGraphInstantiate"));
    return cuda_result(cudaGraphUpload(ready_, stream), "cudaGraphUpload");
  }
  result launch(cudaStream_t stream) const {
    return cuda_result(cudaGraphLaunch(ready_, stream), "cudaGraphLaunch");
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t ready_ = nullptr;
};

result launch_trial(const kernel& k, const trial_order& order, cudaStream_t stream) {
  trial_order given = order;
  void* list[] = {&given};
  cudaLaunchAttribute attribute{};
  cudaLaunchConfig_t shape{};
  shape.gridDim = dim3(1);
  shape.blockDim = dim3(k.most_lanes);
  shape.stream = stream;
  if (order.overlap != launch_overlap::none) {
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    shape.attrs = &attribute;
    shape.numAttrs = 1;
  }
  return cuda_result(cudaLaunchKernelExC(&shape, k.function, list), "cudaLaunchKernelExC of a self-test");
}

}  // namespace

result cuda_device_side::try_path(const trial_plan& plan, trial_finding& out) {
  out = {};
  const int ranks = static_cast<int>(peers_.size());
  if (ranks > trial_order::capacity || map_.blocks < 2 || plan.launches < 2 ||
      plan.launches > trial_order::most_launches)
    return error(xylInternalError, "a self-test of %u launches on %d ranks with %u blocks", plan.launches, ranks,
                 map_.blocks);
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  trial_order order;
  order.path = plan.path;
  order.rank = rank_;
  order.ranks = ranks;
  order.rounds = plan.rounds;
  order.limit_ns = plan.limit_ns;
  order.meeting_ns = plan.meeting_ns;
  order.map = map_;
  for (std::size_t p = 0; p < peers_.size(); ++p) order.workspace[p] = peers_[p];
  order.overlap = plan.overlap;

  const kernel k = trial_kernel();
  captured rest;
  XYL_TRY(rest.record(own_stream_, [&]() -> result {
    for (std::uint32_t i = 1; i < plan.launches; ++i) XYL_TRY(launch_trial(k, order, own_stream_));
    return {};
  }));
  order.begin = plan.begin;
  order.overlap = launch_overlap::none;
  XYL_TRY(launch_trial(k, order, own_stream_));
  XYL_TRY(rest.launch(own_stream_));
  trial_state state;
  XYL_TRY(cuda_result(
      cudaMemcpyAsync(&state, workspace_ + map_.trial_offset(), sizeof state, cudaMemcpyDeviceToHost, own_stream_),
      "cudaMemcpyAsync of a self-test"));
  XYL_TRY(cuda_result(cudaStreamSynchronize(own_stream_), "cudaStreamSynchronize of a self-test"));
  out = finding_of(state, plan);
  return {};
}

}  // namespace xyl
