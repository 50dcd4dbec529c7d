// SPDX-License-Identifier: BSD-3-Clause
//
// The device half of a communicator with CUDA: its memory, and the launches. All memory, events and code that a
// launch needs exist after connect(): a launch allocates nothing and loads nothing, so it can be captured, and
// cannot wait behind a kernel that waits for this rank. Relies on one lock per communicator in the caller.
#pragma once

#include <type_traits>
#include <vector>

#include "exec/block_shape.hpp"
#include "exec/device_side.hpp"
#include "exec/registered_memory.hpp"
#include "exec/stream_order.hpp"
#include "kernels/arguments.hpp"
#include "kernels/kernel_table.hpp"
#include "proto/copied_schedule.hpp"
#include "proto/partition.hpp"

namespace xyl {

// f(constant) for the capacity of the kernel's arguments.
template <class F>
result with_capacity(const kernel& k, F f) {
  switch (k.capacity) {
    case argument_capacity(2):
      return f(std::integral_constant<int, argument_capacity(2)>());
    case argument_capacity(4):
      return f(std::integral_constant<int, argument_capacity(4)>());
    case argument_capacity(8):
      return f(std::integral_constant<int, argument_capacity(8)>());
    default:
      return f(std::integral_constant<int, argument_capacity(0)>());
  }
}

// A block's part of so many units. Blocks begin at multiples of 128 bytes, so that no two of them touch the same line.
inline std::uint64_t units_of_each(std::uint64_t units, unsigned blocks) {
  return (units_of(units, blocks) + 7) / 8 * 8;
}

struct copied_work;

// What copies between steps are enqueued on, beside the caller's stream.
struct copy_queues_cuda {
  copy_queues_cuda() = default;
  copy_queues_cuda(const copy_queues_cuda&) = delete;
  ~copy_queues_cuda();
  // On the device of the communicator.
  result create();
  cudaStream_t streams[copy_queues - 1] = {};  // by queue, without the computing one
  cudaEvent_t marks[copy_mark::count] = {};
};

class cuda_device_side final : public device_side {
 public:
  cuda_device_side(int device, const layout& map, std::int64_t deadline_ns, bool copies)
      : device_(device), map_(map), copies_(copies), deadline_ns_(deadline_ns) {}
  ~cuda_device_side() override {
    const device_scope scope(device_);
    end_trials();
    disconnect();
    if (workspace_) (void)cudaFree(workspace_);
    if (registered_) (void)cudaHostUnregister(registered_);
    if (own_stream_) (void)cudaStreamDestroy(own_stream_);
    (void)cudaGetLastError();
  }

  result initialise(std::byte* host_control, std::size_t host_bytes);
  const device_handle& handle() const override { return handle_; }
  result connect(std::span<const device_handle> all, int rank, std::shared_ptr<const peer_group> windows) override;
  result reset() override;
  const layout& map() const override { return map_; }
  memory_kind classify(const void* pointer) const override;
  result all_reduce(device_launch how, const void* send, void* recv, std::uint64_t count, const call_record& record,
                    xylStream_t stream) override;
  // In device_copied_cuda.cc.
  result all_reduce_by_copies(const void* send, void* recv, std::uint64_t count, const call_record& record,
                              xylStream_t stream) override;
  result move_by_copies(const movement& how, bool adds_up, const void* send, void* recv, const call_record& record,
                        xylStream_t stream) override;
  // In device_collectives_cuda.cc.
  result reduce(const device_reduce& how, const void* send, void* recv, std::uint64_t count,
                const call_record& record, xylStream_t stream) override;
  result move(const device_move& how, const void* send, void* recv, const call_record& record,
              xylStream_t stream) override;
  result run_transfers(std::span<const transfer> all, unsigned blocks, const call_record& record,
                       xylStream_t stream) override;
  result swap(const device_swap& how, const void* input, void* output, std::uint64_t count,
              const call_record& record, xylStream_t stream) override;
  bool can_swap(xylDataType_t type, bool sums) const override;
  result scale(const device_scale& how, const void* input, xylStream_t stream, const void*& scaled) override;
  // In device_trial_cuda.cc.
  result prepare_trials() override;
  result try_path(const trial_plan& plan, trial_finding& out) override;
  void end_trials() override;
  void use(const sync_choice& choice) override;
  const sync_choice& in_use() const override { return sync_; }
  bool can_overlap() const override;
  bool has_line_kernels() const override;
  // In device_windows_cuda.cc.
  result pull_reduce(pull_form form, unsigned blocks, const pull_call<device_capacity>& what,
                     xylStream_t stream) override;
  result pull_move(window_use use, unsigned blocks, const movement& how, const pull_call<device_capacity>& what,
                   xylStream_t stream) override;
  std::byte* scratch_of(int p) const override {
    return windows_ ? nullptr : peers_[static_cast<std::size_t>(p)] + map_.scratch_offset(static_cast<unsigned>(p));
  }
  bool can_copy() const override { return copying_[0].streams[0] != nullptr; }
  result export_memory(const void* memory, exported_memory& out) const override;
  result open_memory(const exported_memory& of, int p, bool same_process, std::byte*& out, void*& opened) override;
  void close_memory(void* opened) override;
  result copy(void* to, const void* from, std::size_t bytes, xylStream_t stream) override {
    const device_scope scope(device_);
    XYL_TRY(scope.status());
    return cuda_result(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
  }
  result join(xylStream_t stream, xylStream_t other) override {
    const device_scope scope(device_);
    XYL_TRY(scope.status());
    return order_.join(stream, other);
  }
  xylStream_t own_stream() const override { return own_stream_; }
  // In device_fused_cuda.cc.
  result fused(const fused_launch& how, const fused_work& work, const call_record& record,
               xylStream_t stream) override;
  bool can_add(xylDataType_t type) const override;
  result fused_rows(const fused_work& work, xylDataType_t type, xylStream_t stream) override;
  // In device_joint_cuda.cc.
  result reduce_jointly(const joint_reduction<device_capacity>& what, xylDataType_t type, xylRedOp_t operation,
                        std::uint32_t divisor, xylStream_t stream) override;
  result move_jointly(std::span<const joint_piece> all, xylStream_t stream) override;
  result begin_joint(xylStream_t stream) override;
  result end_joint(xylStream_t stream) override;
  void wait_at_most(std::int64_t deadline_ns) override { deadline_ns_ = deadline_ns; }
  result drain() override {
    const device_scope scope(device_);
    XYL_TRY(scope.status());
    return order_.drain();
  }
  void disconnect() override {
    const device_scope scope(device_);
    for (void* mapped : mapped_) (void)cudaIpcCloseMemHandle(mapped);
    mapped_.clear();
    staged_.clear();
    windows_.reset();
  }

 private:
  result open_peer(const device_handle& peer, int p, std::byte*& workspace);
  trial_order trial_launch() const;
  // Lets this device reach another one of this process.
  result reach_device(int ordinal, int p) const;
  result clear_workspace();
  std::uint64_t device_bytes() const { return copies_ ? map_.bytes : map_.copies; }
  std::byte* copied_at(int rank, const copied_chunk& k) const;
  std::byte* landed_at(const copied_chunk& k) const;
  result copy_chunk(const copied_work& w, copy_queue kind, const copied_chunk& k, cudaStream_t queue) const;
  result compute_chunk(const copied_work& w, const copied_chunk& k, bool adds_up, const call_record& record,
                       cudaStream_t queue);
  result run_copies(const copied_work& w, const call_record& record, cudaStream_t stream);
  std::uint64_t units_of_block(const device_launch& how, xylDataType_t type, std::uint64_t count) const;
  std::uint32_t step_units(std::uint64_t units_of_block, unsigned blocks) const;
  // What every kernel that works with peers is given. With an overlap it is scheduled when the launch before allows
  // that, and must wait for that launch's end before it touches anything.
  template <class Arguments>
  result launch(const kernel& k, unsigned blocks, const block_shape& block, Arguments arguments,
                cudaStream_t stream, launch_overlap overlap = launch_overlap::none) {
    arguments.host_control = host_control_;
    arguments.deadline_ns = static_cast<std::uint64_t>(deadline_ns_);
    arguments.what.map = map_;
    arguments.what.map.headers_by_block = windows_ != nullptr;
    arguments.what.own = workspace_;
    for (std::size_t p = 0; p < peers_.size(); ++p) arguments.what.workspace[p] = peers_[p];
    arguments.overlap = overlap;
    arguments.flags = sync_.flags;
    if constexpr (requires { arguments.lanes_of_group; }) arguments.lanes_of_group = block.lanes_of_group;
    return launch_alone(k, blocks, block, arguments, stream, overlap);
  }
  // A launch without peers.
  template <class Arguments>
  result launch_alone(const kernel& k, unsigned blocks, const block_shape& block, Arguments& arguments,
                      cudaStream_t stream, launch_overlap overlap) {
    void* list[] = {&arguments};
    // In which order the attributes stand does not matter.
    cudaLaunchAttribute attributes[2]{};
    cudaLaunchConfig_t shape{};
    shape.gridDim = dim3(blocks);
    shape.blockDim = dim3(block.lanes);
    shape.dynamicSmemBytes = block.shared_bytes;
    shape.stream = stream;
    shape.attrs = attributes;
    if (overlap != launch_overlap::none) {
      attributes[shape.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attributes[shape.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (block.cluster > 1) {
      attributes[shape.numAttrs].id = cudaLaunchAttributeClusterDimension;
      attributes[shape.numAttrs++].val.clusterDim = {block.cluster, 1, 1};
    }
    return cuda_result(cudaLaunchKernelExC(&shape, k.function, list), "cudaLaunchKernelExC");
  }
  template <class Arguments>
  void describe(Arguments& arguments, const void* send, void* recv, std::uint64_t count,
                const call_record& record) const {
    arguments.what.input = static_cast<const std::byte*>(send);
    arguments.what.output = static_cast<std::byte*>(recv);
    arguments.what.count = count;
    arguments.what.fingerprint = fingerprint(record);
    arguments.what.record = record;
    arguments.what.rank = rank_;
    arguments.what.ranks = static_cast<std::int32_t>(peers_.size());
  }
  result check_blocks(unsigned blocks) const;

  const int device_;
  const layout map_;
  const bool copies_;  // the workspace in device memory has room for them
  std::int64_t deadline_ns_;
  int rank_ = -1;
  sync_choice sync_;
  cudaGraphExec_t trials_[2] = {};         // without and with overlap, while there are trials
  std::byte* workspace_ = nullptr;         // in device memory
  std::byte* registered_ = nullptr;        // this rank's host control page
  control_block* host_control_ = nullptr;  // the same as the device reaches it
  std::vector<void*> mapped_;              // other processes' workspaces
  std::vector<std::byte*> peers_;          // by rank
  // In host memory, if that is where workspaces lie: by rank, this one's too.
  std::shared_ptr<const peer_group> windows_;
  std::vector<std::shared_ptr<registered_memory>> staged_;
  device_handle handle_{};
  cudaStream_t own_stream_ = nullptr;
  stream_order order_;
  copy_queues_cuda copying_[2];  // for eager calls and for captured ones
};

}  // namespace xyl
