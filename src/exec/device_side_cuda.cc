// SPDX-License-Identifier: BSD-3-Clause
//
// The device half of a communicator with CUDA. All memory, events and code that a launch needs exist after
// connect(): a launch allocates nothing and loads nothing, so it can be captured, and cannot wait behind a kernel
// that waits for this rank. Relies on one lock per communicator in the caller.
#include <algorithm>
#include <cstring>
#include <vector>

#include "exec/block_shape.hpp"
#include "exec/cuda_device_side.hpp"
#include "exec/device_fused.hpp"
#include "exec/dispatch.hpp"
#include "exec/room.hpp"
#include "kernels/arch.hpp"
#include "kernels/collective_table.hpp"
#include "kernels/fused_table.hpp"
#include "kernels/joint.hpp"
#include "kernels/pull_table.hpp"
#include "kernels/sync_table.hpp"
#include "os/machine.hpp"
#include "proto/flagged.hpp"
#include "proto/partition.hpp"
#include "proto/turn.hpp"

namespace xyl {

namespace {

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(device_handle::ipc));
static_assert(device_capacity == argument_capacity(0));

// A kernel loaded, and how many blocks of it the whole device holds at once. Under MPS the number of
// multiprocessors is what this client may use.
result load_kernel(int device, const kernel& k, unsigned ranks, std::int32_t& max_blocks) {
  int multiprocessors = 0;
  XYL_TRY(cuda_result(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
                      "cudaDeviceGetAttribute"));
  // Lazy loading at the first launch may wait for a kernel that runs, which may wait for this launch.
  cudaFuncAttributes attributes;
  if (const cudaError_t status = cudaFuncGetAttributes(&attributes, k.function); status != cudaSuccess) {
    int major = 0, minor = 0;
    (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    (void)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    return error(cuda_result(status, "cudaFuncGetAttributes").code(),
                 "the GPU of this rank is SM %d%d, and this library has code for SM %s alone (%s); configure "
                 "--with-cuda-arch=LIST",
                 major, minor, built_in_archs(), cudaGetErrorString(status));
  }
  int blocks = 0;
  XYL_TRY(
      cuda_result(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k.function, static_cast<int>(k.most_lanes),
                                                                shape_of(k, UINT64_MAX / 2, ranks).shared_bytes),
                  "cudaOccupancyMaxActiveBlocksPerMultiprocessor"));
  blocks *= multiprocessors;
  max_blocks = max_blocks == 0 ? blocks : std::min(max_blocks, blocks);
  return {};
}

result load_kernels(int device, unsigned ranks, device_handle& handle) {
  for (const kernel& k : all_kernels()) XYL_TRY(load_kernel(device, k, ranks, handle.max_blocks));
  for (const kernel& k : all_collective_kernels()) XYL_TRY(load_kernel(device, k, ranks, handle.max_blocks));
  for (const kernel& k : all_pull_kernels()) XYL_TRY(load_kernel(device, k, ranks, handle.max_pull_blocks));
  // These wait for nobody, or are one block, so any number of their blocks may run.
  const auto load = [](const kernel& k) {
    cudaFuncAttributes attributes;
    if (cudaFuncGetAttributes(&attributes, k.function) != cudaSuccess)
      (void)cudaGetLastError();  // said at the launch
  };
  element_types::for_each([&](auto entry, int) {
    load(scaling_kernel(entry.code));
    load(choose_copied_kernel(entry.code));
    load(choose_joint_reduce_kernel(entry.code));
  });
  load(joint_move_kernel());
  // One block of each rank, while nothing else of the communicator runs.
  cudaFuncAttributes attributes;
  XYL_TRY(cuda_result(cudaFuncGetAttributes(&attributes, trial_kernel().function),
                      "cudaFuncGetAttributes of the self-test"));
  for (const xylDataType_t type : {xylFloat16, xylBfloat16, xylFloat32})
    for (const fused_pattern pattern : {fused_pattern::norm, fused_pattern::fp8_static})
      for (const rows_spread spread : {rows_spread::narrow, rows_spread::wide})
        load(choose_rows_kernel(type, pattern, spread));
  load(copying_kernels().step);
  load(copying_kernels().deliver);
  for (const fused_kernel_entry& e : all_fused_kernels())
    XYL_TRY(load_kernel(device, e.function, ranks, handle.max_fused_blocks[static_cast<int>(e.form)]));
  return find_clusters(device, handle);
}

}  // namespace

result cuda_device_side::initialise(std::byte* host_control, std::size_t host_bytes) {
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  XYL_TRY(load_kernels(device_, map_.ranks, handle_));

  // An allocation of 2 MB or more is not shared with others of this process, so that nothing else is exported with
  // it.
  const std::size_t bytes = std::max<std::size_t>(device_bytes(), 2u << 20);
  void* allocated = nullptr;
  XYL_TRY(cuda_result(cudaMalloc(&allocated, bytes), "cudaMalloc of the workspace"));
  workspace_ = static_cast<std::byte*>(allocated);
  // On a stream of its own: other work of the device may be waiting for a peer.
  XYL_TRY(cuda_result(cudaStreamCreateWithFlags(&own_stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"));
  XYL_TRY(clear_workspace());

  XYL_TRY(cuda_result(cudaHostRegister(host_control, host_bytes, cudaHostRegisterMapped | cudaHostRegisterPortable),
                      "cudaHostRegister of the control page"));
  registered_ = host_control;
  void* reached = nullptr;
  XYL_TRY(cuda_result(cudaHostGetDevicePointer(&reached, host_control, 0), "cudaHostGetDevicePointer"));
  host_control_ = static_cast<control_block*>(reached);
  XYL_TRY(order_.create());

  cudaDeviceProp properties;
  XYL_TRY(cuda_result(cudaGetDeviceProperties(&properties, device_), "cudaGetDeviceProperties"));
  std::memcpy(handle_.uuid, &properties.uuid, sizeof handle_.uuid);
  handle_.pci_domain = properties.pciDomainID;
  handle_.pci_bus = properties.pciBusID;
  handle_.pci_device = properties.pciDeviceID;
  handle_.sm = 10 * properties.major + properties.minor;
  process_token process;
  XYL_TRY(current_process(process));
  std::memcpy(handle_.process, process.data(), sizeof handle_.process);
  handle_.address = reinterpret_cast<std::uint64_t>(workspace_);
  handle_.ordinal = device_;
  cudaIpcMemHandle_t ipc;
  // Where this is refused (some containers), ranks of the same process still work.
  if (cudaIpcGetMemHandle(&ipc, workspace_) == cudaSuccess)
    std::memcpy(handle_.ipc, &ipc, sizeof ipc);
  else
    (void)cudaGetLastError();
  return {};
}

result cuda_device_side::reach_device(int ordinal, int p) const {
  if (ordinal == device_) return {};
  const cudaError_t status = cudaDeviceEnablePeerAccess(ordinal, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    (void)cudaGetLastError();
    return {};
  }
  if (status != cudaSuccess)
    return error(cuda_result(status, "").code(), "device %d cannot reach device %d of rank %d: %s", device_,
                 ordinal, p, cudaGetErrorString(status));
  return {};
}

result cuda_device_side::clear_workspace() {
  cudaError_t cleared = cudaMemsetAsync(workspace_, 0, device_bytes(), own_stream_);
  if (cleared == cudaSuccess) cleared = cudaStreamSynchronize(own_stream_);
  return cuda_result(cleared, "cudaMemsetAsync of the workspace");
}

result cuda_device_side::reset() {
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  XYL_TRY(order_.drain());
  return clear_workspace();
}

result cuda_device_side::open_peer(const device_handle& peer, int p, std::byte*& workspace) {
  if (std::memcmp(peer.process, handle_.process, sizeof peer.process) == 0) {
    workspace = reinterpret_cast<std::byte*>(peer.address);
    return reach_device(peer.ordinal, p);
  }
  cudaIpcMemHandle_t ipc;
  std::memcpy(&ipc, peer.ipc, sizeof ipc);
  void* mapped = nullptr;
  if (const cudaError_t status = cudaIpcOpenMemHandle(&mapped, ipc, cudaIpcMemLazyEnablePeerAccess);
      status != cudaSuccess)
    return error(cuda_result(status, "").code(),
                 "device %d cannot map the workspace of rank %d (its device %d, another process): %s", device_, p,
                 peer.ordinal, cudaGetErrorString(status));
  mapped_.push_back(mapped);
  workspace = static_cast<std::byte*>(mapped);
  return {};
}

result cuda_device_side::connect(std::span<const device_handle> all, int rank,
                                 std::shared_ptr<const peer_group> windows) {
  if (all.size() > static_cast<std::size_t>(device_capacity))
    return error(xylInvalidUsage, "%zu ranks with devices are more than the %d that this library is made for",
                 all.size(), device_capacity);
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  rank_ = rank;
  peers_.assign(all.size(), nullptr);
  windows_ = std::move(windows);
  for (int p = 0; p < static_cast<int>(all.size()); ++p) {
    if (windows_) {
      staged_.emplace_back();
      if (result r = registered_memory::acquire(windows_->workspace(p), map_.bytes, staged_.back()); !r.ok())
        return error(r.code(), "device %d cannot reach the host memory of rank %d: %s", device_, p,
                     r.text().c_str());
      peers_[static_cast<std::size_t>(p)] = staged_.back()->device();
    } else if (p == rank)
      peers_[static_cast<std::size_t>(p)] = workspace_;
    else
      XYL_TRY(open_peer(all[static_cast<std::size_t>(p)], p, peers_[static_cast<std::size_t>(p)]));
  }
  if (all.size() == 1 || map_.copy_stride == 0 || !(windows_ || copies_) || copying_[0].streams[0]) return {};
  if (map_.bytes - map_.copies > map_.messages - map_.bulk)
    return error(xylInternalError,
                 "chunks for copy engines are larger than the staging memory that they are taken to");
  for (copy_queues_cuda& queues : copying_) XYL_TRY(queues.create());
  return {};
}

// Programmatic launches: from compute capability 9.0 on, and captured into graphs by drivers from 12.3 on.
bool cuda_device_side::can_overlap() const {
  int driver = 0;
  return known_archs::of(handle_.sm).has_programmatic_launch && cudaDriverGetVersion(&driver) == cudaSuccess &&
         driver >= 12030;
}

bool cuda_device_side::has_line_kernels() const {
  return choose_kernel(algorithm::line_packet, xylFloat32, xylSum, 2).function != nullptr;
}

void cuda_device_side::use(const sync_choice& choice) {
  sync_ = choice;
  if (!can_overlap()) sync_.packet_overlap = sync_.flag_overlap = launch_overlap::none;
}

memory_kind cuda_device_side::classify(const void* pointer) const {
  cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
    (void)cudaGetLastError();
    return memory_kind::host;
  }
  switch (attributes.type) {
    case cudaMemoryTypeHost:  // pinned: every device reaches it
    case cudaMemoryTypeManaged:
      return memory_kind::device;
    case cudaMemoryTypeDevice:
      return attributes.device == device_ ? memory_kind::device : memory_kind::other_device;
    default:
      return memory_kind::host;
  }
}

// What the protocol divides among its blocks: units of the message, or of a share of it.
std::uint64_t cuda_device_side::units_of_block(const device_launch& how, xylDataType_t type,
                                               std::uint64_t count) const {
  const bool in_packs = uses_wide_packets(how.how), in_sheets = uses_line_packets(how.how);
  const std::uint64_t per_unit = (in_packs                ? 16 * wide_pack::units
                                  : in_sheets             ? 16 * line_sheet::units
                                  : uses_packets(how.how) ? 8
                                                          : 16) /
                                 facts_of(type)->bytes;
  std::uint64_t units = units_of(count, per_unit);
  if (has_shares(how.how)) units = units_of(units, map_.ranks);
  if (in_packs) return (units_of(units, how.blocks) + 1) / 2 * 2;  // a warp holds two
  return in_sheets ? units_of(units, how.blocks) : units_of_each(units, how.blocks);
}

// Where ranks meet in host memory, a long one-shot goes in even steps of at most so many bytes of all blocks
// together. A step takes some 5 us to be told and seen: in steps of 128 KB 16 MB took 981 us, of 256 KB 633, at
// once 660.
std::uint32_t cuda_device_side::step_units(std::uint64_t units_of_block, unsigned blocks) const {
  constexpr std::uint64_t step_bytes = 1 << 20;
  const std::uint64_t steps = units_of(units_of_block * blocks, step_bytes / 16);
  return steps < 2
             ? 0
             : static_cast<std::uint32_t>((units_of(units_of_block, std::min(steps, most_steps)) + 7) / 8 * 8);
}

result cuda_device_side::all_reduce(device_launch how, const void* send, void* recv, std::uint64_t count,
                                    const call_record& record, xylStream_t stream) {
  const int ranks = static_cast<int>(peers_.size());
  if (ranks == 1 && how.how == algorithm::ring) how.how = algorithm::one_shot;  // a ring takes two
  const auto type = static_cast<xylDataType_t>(record.type);
  const auto operation = how.is_sum ? xylSum : static_cast<xylRedOp_t>(record.operation);
  const kernel k = choose_kernel(how.how, type, operation, ranks);
  if (!k.function) return error(xylInvalidArgument, "no kernel for type %d", static_cast<int>(type));
  XYL_TRY(check_blocks(how.blocks));
  if (how.addend && how.how != algorithm::one_shot && !(has_shares(how.how) && how.how != algorithm::ring))
    return error(xylInternalError, "%s adds nothing to its sums", name_of(how.how));
  XYL_TRY(how.step_units == 0
              ? check_room(map_, how.how, facts_of(type)->bytes, count)
              : check_steps(map_, how.how, facts_of(type)->bytes, count, how.step_units, how.blocks));

  const device_scope scope(device_);
  XYL_TRY(scope.status());
  XYL_TRY(order_.before(stream));
  const std::uint64_t units = units_of_block(how, type, count);
  const std::uint32_t step = windows_ && map_.ranks == 2 && how.how == algorithm::one_shot
                                 ? step_units(units, how.blocks)
                                 : how.step_units;
  const auto with = [&]<int Capacity>(std::integral_constant<int, Capacity>) {
    kernel_arguments<Capacity> arguments;
    arguments.units_of_block = units;
    describe(arguments, send, recv, k.count_of(count, facts_of(type)->bytes), record);
    arguments.what.ring = how.ring;
    arguments.what.addend = static_cast<const std::byte*>(how.addend);
    arguments.what.step_units = step;
    arguments.what.pulls = how.pulls;
    return launch(k, how.blocks, shape_of(k, step ? std::min<std::uint64_t>(units, step) : units, map_.ranks),
                  arguments, stream, needs_no_flag(how.how) ? sync_.packet_overlap : sync_.flag_overlap);
  };
  XYL_TRY(with_capacity(k, with));
  return order_.after(stream);
}

int device_side::count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  (void)cudaGetLastError();
  return 0;
}

int device_side::current_device() {
  int device = 0;
  if (count() == 0) return -1;
  if (cudaGetDevice(&device) == cudaSuccess) return device;
  (void)cudaGetLastError();
  return -1;
}

result device_side::create(int device, const layout& map, std::byte* host_control, std::size_t host_bytes,
                           std::int64_t deadline_ns, bool copies, std::unique_ptr<device_side>& out) {
  auto side = std::make_unique<cuda_device_side>(device, map, deadline_ns, copies);
  XYL_TRY(side->initialise(host_control, host_bytes));
  out = std::move(side);
  return {};
}

}  // namespace xyl
