// SPDX-License-Identifier: BSD-3-Clause
//
// Registered device memory: how it is allocated, let others in, and is worked on.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "exec/cuda_device_side.hpp"
#include "exec/dispatch.hpp"
#include "exec/room.hpp"
#include "kernels/pull_arguments.hpp"
#include "kernels/pull_table.hpp"
#include "proto/partition.hpp"
#include "proto/turn.hpp"

namespace xyl {

namespace {

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(exported_memory::ipc));

// An allocation of 2 MB or more is not shared with others of this process, so that nothing else is exported with
// it.
constexpr std::size_t least_allocation = 2 << 20;

// Where the allocation begins that holds this memory. The driver is there, since there is device memory; the
// reference is given back.
result beginning_of(const void* memory, std::uintptr_t& out) {
  using function = int (*)(unsigned long long* base, std::size_t* bytes, unsigned long long address);
  static const auto get_range = [] {
    function found = nullptr;
    if (void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) {
      found = reinterpret_cast<function>(::dlsym(driver, "cuMemGetAddressRange_v2"));
      ::dlclose(driver);
    }
    return found;
  }();
  unsigned long long base = 0;
  if (get_range == nullptr ||
      get_range(&base, nullptr, static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(memory))) != 0)
    return error(xylUnhandledCudaError, "the driver does not say what allocation its buffer is in");
  out = static_cast<std::uintptr_t>(base);
  return {};
}

template <int Capacity>
void take_buffers(pull_arguments<Capacity>& arguments, const pull_call<device_capacity>& what, std::size_t ranks) {
  std::copy_n(what.input_of, ranks, arguments.input_of);
  std::copy_n(what.output_of, ranks, arguments.output_of);
  arguments.inputs_aligned = what.inputs_aligned;
  arguments.outputs_aligned = what.outputs_aligned;
}

}  // namespace

bool has_current_device() { return device_side::current_device() >= 0; }

result allocate_device_memory(std::size_t bytes, void*& out) {
  return cuda_result(cudaMalloc(&out, std::max(bytes, least_allocation)), "cudaMalloc for xylMemAlloc");
}

result free_device_memory(void* memory) { return cuda_result(cudaFree(memory), "cudaFree"); }

result cuda_device_side::export_memory(const void* memory, exported_memory& out) const {
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  std::memset(&out, 0, sizeof out);
  out.address = reinterpret_cast<std::uintptr_t>(memory);
  out.ordinal = device_;
  cudaPointerAttributes attributes;
  XYL_TRY(cuda_result(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes"));
  if (attributes.type != cudaMemoryTypeDevice)
    return error(xylInvalidUsage, "its buffer is in %s memory, which processes cannot share",
                 attributes.type == cudaMemoryTypeManaged ? "managed" : "pinned host");
  std::uintptr_t base = 0;
  XYL_TRY(beginning_of(memory, base));
  cudaIpcMemHandle_t ipc;
  const cudaError_t status = cudaIpcGetMemHandle(&ipc, reinterpret_cast<void*>(base));
  if (status != cudaSuccess) {
    (void)cudaGetLastError();
    return error(xylInvalidUsage,
                 "its buffer cannot be exported (%s); memory of xylMemAlloc or cudaMalloc can, virtual memory "
                 "(expandable segments) cannot",
                 cudaGetErrorString(status));
  }
  std::memcpy(out.ipc, &ipc, sizeof ipc);
  out.offset = out.address - base;
  return {};
}

result cuda_device_side::open_memory(const exported_memory& of, int p, bool same_process, std::byte*& out,
                                     void*& opened) {
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  opened = nullptr;
  if (same_process) {
    out = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(of.address));
    return reach_device(of.ordinal, p);
  }
  cudaIpcMemHandle_t ipc;
  std::memcpy(&ipc, of.ipc, sizeof ipc);
  const cudaError_t status = cudaIpcOpenMemHandle(&opened, ipc, cudaIpcMemLazyEnablePeerAccess);
  if (status != cudaSuccess) {
    opened = nullptr;
    return error(cuda_result(status, "").code(), "device %d cannot map the buffer of rank %d: %s", device_, p,
                 cudaGetErrorString(status));
  }
  out = static_cast<std::byte*>(opened) + of.offset;
  return {};
}

void cuda_device_side::close_memory(void* opened) {
  const device_scope scope(device_);
  (void)cudaIpcCloseMemHandle(opened);
  (void)cudaGetLastError();
}

result cuda_device_side::pull_reduce(pull_form form, unsigned blocks, const pull_call<device_capacity>& what,
                                     xylStream_t stream) {
  const auto type = static_cast<xylDataType_t>(what.record.type);
  // The record of a fused call says which pattern.
  const auto operation =
      what.record.what == collective::fused_all_reduce ? xylSum : static_cast<xylRedOp_t>(what.record.operation);
  const kernel k = choose_pull_kernel(type, operation, static_cast<int>(peers_.size()));
  if (!k.function) return error(xylInvalidArgument, "no kernel for type %d", static_cast<int>(type));
  XYL_TRY(check_blocks(blocks));
  XYL_TRY(check_room(map_, form, facts_of(type)->bytes, what.count));
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  XYL_TRY(order_.before(stream));
  std::uint64_t units = units_of(what.count, 16 / facts_of(type)->bytes);
  if (form != pull_form::one_shot) units = units_of(units, peers_.size());
  const std::uint64_t each = units_of_each(units, blocks);
  const auto with = [&]<int Capacity>(std::integral_constant<int, Capacity>) {
    pull_arguments<Capacity> arguments;
    describe(arguments, what.input, what.output, k.count_of(what.count, facts_of(type)->bytes), what.record);
    take_buffers(arguments, what, peers_.size());
    arguments.what.addend = what.addend;
    arguments.units_of_block = each;
    arguments.form = form;
    return launch(k, blocks, shape_of(k, each, map_.ranks), arguments, stream, sync_.flag_overlap);
  };
  XYL_TRY(with_capacity(k, with));
  return order_.after(stream);
}

result cuda_device_side::pull_move(window_use use, unsigned blocks, const movement& how,
                                   const pull_call<device_capacity>& what, xylStream_t stream) {
  XYL_TRY(check_blocks(blocks));
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  XYL_TRY(order_.before(stream));
  const kernel k = pull_movement_kernel();
  pull_arguments<argument_capacity(0)> arguments;
  describe(arguments, what.input, what.output, how.bytes, what.record);
  take_buffers(arguments, what, peers_.size());
  arguments.units_of_block = units_of_each(units_of(how.bytes, 16), blocks);
  arguments.how = how;
  arguments.use = use;
  XYL_TRY(
      launch(k, blocks, shape_of(k, arguments.units_of_block, map_.ranks), arguments, stream, sync_.flag_overlap));
  return order_.after(stream);
}

}  // namespace xyl
