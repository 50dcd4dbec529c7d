// SPDX-License-Identifier: BSD-3-Clause
//
// Links between GPUs: memory that others map through CUDA's interprocess handles, and kernels that write, read and
// wait. Outcomes are in pinned host memory, so that they can be read while a kernel hangs in an access that never
// ends; then nothing of CUDA is called any more, since it would wait too.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <string>

#include "base/clock.hpp"
#include "exec/cuda_error.hpp"
#include "kernels/probe_kernels.hpp"
#include "probe/link.hpp"

namespace xyl::probe {
namespace {

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(topo::probe_handle));

constexpr timespec between_looks{0, 20'000};

// In pinned memory that kernels write into.
struct outcomes {
  proof_outcome proof[topo::probe_most_ranks];
  stream_outcome stream[stream_blocks];
  flags_outcome flags;
};

result find_device(const std::uint8_t (&uuid)[16], int& out) {
  int count = 0;
  XYL_TRY(cuda_result(cudaGetDeviceCount(&count), "cudaGetDeviceCount"));
  for (int d = 0; d < count; ++d) {
    cudaDeviceProp properties;
    XYL_TRY(cuda_result(cudaGetDeviceProperties(&properties, d), "cudaGetDeviceProperties"));
    if (std::memcmp(&properties.uuid, uuid, sizeof uuid) != 0) continue;
    out = d;
    return {};
  }
  return error(xylSystemError, "the GPU of this rank is not among the %d that the probe's helper sees", count);
}

// Host memory of one NUMA node, as a kernel reaches it.
class node_memory {
 public:
  node_memory() = default;
  node_memory(const node_memory&) = delete;
  ~node_memory() {
    if (at_ != MAP_FAILED) ::munmap(at_, host_stream_bytes);
  }

  result create(std::uint32_t node) {
    at_ = ::mmap(nullptr, host_stream_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at_ == MAP_FAILED) return system_error("mmap of %zu bytes", host_stream_bytes);
    // The system call itself: its library is not needed for anything else.
    constexpr int bind = 2, bits = 1024;
    unsigned long mask[bits / (8 * sizeof(unsigned long))] = {};
    mask[node / (8 * sizeof(unsigned long))] |= 1ul << (node % (8 * sizeof(unsigned long)));
    // Where binding is forbidden (containers), memory comes from the node that this runs on, which may be the one.
    unsigned processor = 0, here = 0;
    if (::syscall(SYS_mbind, at_, host_stream_bytes, bind, mask, bits, 0u) != 0 &&
        (::syscall(SYS_getcpu, &processor, &here, nullptr) != 0 || here != node))
      return error(xylSystemError, "memory of NUMA node %u cannot be had", node);
    std::memset(at_, 0, host_stream_bytes);
    XYL_TRY(cuda_result(cudaHostRegister(at_, host_stream_bytes, cudaHostRegisterMapped), "cudaHostRegister"));
    void* reached = nullptr;
    XYL_TRY(cuda_result(cudaHostGetDevicePointer(&reached, at_, 0), "cudaHostGetDevicePointer"));
    device_ = static_cast<std::byte*>(reached);
    return {};
  }
  std::byte* device() const { return device_; }

 private:
  void* at_ = MAP_FAILED;
  std::byte* device_ = nullptr;
};

class cuda_link final : public link {
 public:
  // Nothing is given back to CUDA: the process ends here, and after a fault every call would fail or wait.

  result create(const topo::probe_setup& about, topo::probe_handle& mine) override {
    about_ = about;
    int device = 0;
    XYL_TRY(find_device(about.device, device));
    // A device in exclusive compute mode says so at the first call that needs a context.
    void* at = nullptr;
    cudaError_t status = cudaSetDevice(device);
    if (status == cudaSuccess) status = cudaMalloc(&at, sizeof(region));
    if (status == cudaErrorDevicesUnavailable)
      return error(xylUnhandledCudaError,
                   "the GPU is taken (exclusive compute mode, or all of it in use): no second process gets it");
    XYL_TRY(cuda_result(status, "cudaMalloc of the probe's memory"));
    own_ = static_cast<region*>(at);
    void* pinned = nullptr;
    XYL_TRY(cuda_result(cudaHostAlloc(&pinned, sizeof(outcomes), cudaHostAllocMapped), "cudaHostAlloc"));
    seen_ = static_cast<outcomes*>(pinned);
    void* reached = nullptr;
    XYL_TRY(cuda_result(cudaHostGetDevicePointer(&reached, pinned, 0), "cudaHostGetDevicePointer"));
    told_ = static_cast<outcomes*>(reached);
    XYL_TRY(cuda_result(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"));
    XYL_TRY(cuda_result(cudaMemsetAsync(own_, 0, sizeof(region), stream_), "cudaMemsetAsync"));
    XYL_TRY(cuda_result(launch_fill(own_, about.seed, about.rank, stream_), "launching a kernel"));
    XYL_TRY(cuda_result(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"));
    cudaIpcMemHandle_t ipc;
    XYL_TRY(cuda_result(cudaIpcGetMemHandle(&ipc, own_), "cudaIpcGetMemHandle"));
    std::memcpy(&mine, &ipc, sizeof mine);
    return {};
  }

  result open(int peer, const topo::probe_handle& theirs) override {
    cudaIpcMemHandle_t ipc;
    std::memcpy(&ipc, &theirs, sizeof ipc);
    void* mapped = nullptr;
    XYL_TRY(
        cuda_result(cudaIpcOpenMemHandle(&mapped, ipc, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle"));
    peers_[static_cast<std::size_t>(peer)] = static_cast<region*>(mapped);
    return {};
  }

  result write(std::span<const int> peers, verdicts out) override { return prove(peers, out, launch_write); }
  result verify(std::span<const int> peers, verdicts out) override { return prove(peers, out, launch_verify); }
  result read(std::span<const int> peers, verdicts out) override { return prove(peers, out, launch_read); }

  result stream(int peer, bool pull, std::uint32_t duration_us, double& rate) override {
    return stream_at(peers_[static_cast<std::size_t>(peer)]->stream, stream_bytes, pull, duration_us, rate);
  }

  result flags(int peer, bool is_first, std::uint32_t step, double& one_way_us) override {
    XYL_TRY(still_works());
    seen_->flags = {};
    flags_arguments a{};
    a.mine = &own_->flags[static_cast<std::size_t>(peer)].value;
    a.theirs = &peers_[static_cast<std::size_t>(peer)]->flags[about_.rank].value;
    a.outcome = &told_->flags;
    a.deadline_ns = half_step_ns() / 2;
    a.step = step;
    a.trips = about_.round_trips;
    a.is_first = is_first;
    XYL_TRY(cuda_result(launch_flags(a, stream_), "launching a kernel"));
    XYL_TRY(wait());
    if (seen_->flags.trips == 0) return error(xylTimeout, "flags of rank %d did not come", peer);
    one_way_us = static_cast<double>(seen_->flags.ns) / (2000.0 * static_cast<double>(seen_->flags.trips));
    return {};
  }

  result host_stream(std::uint32_t node, bool read, std::uint32_t duration_us, double& rate) override {
    XYL_TRY(still_works());
    if (node >= 1024) return error(xylInvalidUsage, "NUMA node %u", node);
    const auto [at, is_new] = nodes_.try_emplace(node);
    if (is_new)
      if (result made = at->second.create(node); !made.ok()) {
        nodes_.erase(at);
        return made;
      }
    return stream_at(at->second.device(), host_stream_bytes, read, duration_us, rate);
  }

 private:
  std::int64_t half_step_ns() const { return std::int64_t{about_.step_ms} * 500'000; }

  // For the last launch; what hangs is not waited for again.
  result wait() {
    const deadline until = deadline::in_ns(half_step_ns());
    for (;;) {
      const cudaError_t status = cudaStreamQuery(stream_);
      if (status == cudaSuccess) return {};
      if (status != cudaErrorNotReady) return hang(cuda_result(status, "a kernel of the probe"));
      if (until.passed())
        return hang(error(xylTimeout, "a kernel of the probe did not end within %u ms", about_.step_ms / 2));
      ::nanosleep(&between_looks, nullptr);
    }
  }
  result hang(result why) {
    hung_ = why.text();
    return why;
  }
  result still_works() const { return hung_.empty() ? result() : result(xylUnhandledCudaError, hung_); }

  result prove(std::span<const int> peers, verdicts out,
               cudaError_t (*launch)(const proof_arguments&, cudaStream_t)) {
    XYL_TRY(still_works());
    if (peers.empty()) return {};
    proof_arguments a{};
    for (std::size_t i = 0; i < peers.size(); ++i) {
      const auto p = static_cast<std::size_t>(peers[i]);
      a.memory[i] = peers_[p];
      a.peer[i] = static_cast<std::uint32_t>(p);
      seen_->proof[i] = {};
    }
    a.own = own_;
    a.outcome = told_->proof;
    a.seed = about_.seed;
    a.rank = about_.rank;
    a.peers = static_cast<std::uint32_t>(peers.size());
    XYL_TRY(cuda_result(launch(a, stream_), "launching a kernel"));
    result ended = wait();
    for (std::size_t i = 0; i < peers.size(); ++i) {
      proof_outcome& o = seen_->proof[i];
      topo::probe_verdict& verdict = out[static_cast<std::size_t>(peers[i])];
      // Acquire: the counts were written before.
      if (std::atomic_ref(o.ended).load(std::memory_order_acquire) == 0)
        verdict = topo::probe_verdict::silent;
      else if (o.wrong > 0)
        verdict = topo::probe_verdict::wrong;
      else
        verdict = o.missing > 0 ? topo::probe_verdict::dropped : topo::probe_verdict::good;
    }
    return ended;
  }

  result stream_at(std::byte* memory, std::uint64_t bytes, bool pull, std::uint32_t duration_us, double& rate) {
    XYL_TRY(still_works());
    std::memset(seen_->stream, 0, sizeof seen_->stream);
    stream_arguments a{};
    a.memory = memory;
    a.bytes = bytes;
    a.outcome = told_->stream;
    a.duration_ns = std::uint64_t{duration_us} * 1000;
    a.pull = pull;
    XYL_TRY(cuda_result(launch_stream(a, stream_), "launching a kernel"));
    XYL_TRY(wait());
    std::uint64_t sum = 0, began = UINT64_MAX, ended = 0;
    for (const stream_outcome& o : seen_->stream) {
      sum += o.bytes;
      began = std::min(began, o.began_ns);
      ended = std::max(ended, o.ended_ns);
    }
    if (ended <= began) return error(xylInternalError, "the clock of the GPU stands still");
    rate = static_cast<double>(sum) / static_cast<double>(ended - began);
    return {};
  }

  topo::probe_setup about_{};
  region* own_ = nullptr;
  std::array<region*, topo::probe_most_ranks> peers_{};
  outcomes* seen_ = nullptr;  // as the host reaches it
  outcomes* told_ = nullptr;  // and the device
  cudaStream_t stream_ = nullptr;
  std::map<std::uint32_t, node_memory> nodes_;
  std::string hung_;  // why nothing goes on any more
};

}  // namespace

result make_device_link(std::unique_ptr<link>& out) {
  out = std::make_unique<cuda_link>();
  return {};
}

}  // namespace xyl::probe
