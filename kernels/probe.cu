// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/cuda_space_machine.cuh"
#include "kernels/probe_kernels.hpp"

namespace xyl::probe {
namespace {

// 32 KB: a look at the clock costs little beside it, and the slowest link still ends soon after its time.
constexpr unsigned units_of_chunk = 4 * stream_lanes;

// The block's last words to the host. Its lanes' stores are performed before: the fence orders this lane's, and the
// barrier in front of it, after a fence of every lane, those of the others.
__device__ void end_proof(proof_outcome& out, unsigned missing, unsigned wrong) {
  machine::fence_system();
  __shared__ unsigned sum[2];
  if (threadIdx.x == 0) sum[0] = sum[1] = 0;
  __syncthreads();
  atomicAdd(&sum[0], missing);
  atomicAdd(&sum[1], wrong);
  __syncthreads();
  if (threadIdx.x != 0) return;
  machine::store_relaxed(&out.missing, sum[0]);
  machine::store_relaxed(&out.wrong, sum[1]);
  // Release: whoever finds this finds the counts.
  machine::store_release(&out.ended, 1);
}

// Relaxed accesses of system scope go past the first-level cache, which would show what was there before.
__device__ void compare(const proof_arguments& a, const std::uint64_t* words, std::uint32_t from,
                        std::uint32_t to) {
  unsigned missing = 0, wrong = 0;
  for (unsigned i = threadIdx.x; i < proof_words; i += blockDim.x) {
    const std::uint64_t word = machine::load_relaxed(words + i);
    if (word == pattern(a.seed, from, to, i)) continue;
    if (word == 0)
      ++missing;
    else
      ++wrong;
  }
  end_proof(a.outcome[blockIdx.x], missing, wrong);
}

__global__ void fill_kernel(region* own, std::uint64_t seed, std::uint32_t rank) {
  for (unsigned i = threadIdx.x; i < proof_words; i += blockDim.x) own->own[i] = pattern(seed, rank, rank, i);
}

__global__ void write_kernel(const __grid_constant__ proof_arguments a) {
  const std::uint32_t peer = a.peer[blockIdx.x];
  std::uint64_t* const to = a.memory[blockIdx.x]->proof[a.rank];
  for (unsigned i = threadIdx.x; i < proof_words; i += blockDim.x)
    machine::store_relaxed(to + i, pattern(a.seed, a.rank, peer, i));
  end_proof(a.outcome[blockIdx.x], 0, 0);
}

__global__ void verify_kernel(const __grid_constant__ proof_arguments a) {
  const std::uint32_t peer = a.peer[blockIdx.x];
  compare(a, a.own->proof[peer], peer, a.rank);
}

__global__ void read_kernel(const __grid_constant__ proof_arguments a) {
  const std::uint32_t peer = a.peer[blockIdx.x];
  compare(a, a.memory[blockIdx.x]->own, peer, peer);
}

__global__ void __launch_bounds__(stream_lanes) stream_kernel(const __grid_constant__ stream_arguments a) {
  const std::uint64_t units = a.bytes / sizeof(unit16), chunks = units / units_of_chunk;
  auto* const memory = reinterpret_cast<unit16*>(a.memory);
  const std::uint64_t began = machine::time_ns();
  std::uint64_t done = 0, mixed = 0, now = began;
  // Each block goes round through chunks of its own.
  for (std::uint64_t chunk = blockIdx.x % chunks;; chunk = (chunk + gridDim.x) % chunks) {
    unit16* const at = memory + chunk * units_of_chunk + threadIdx.x;
    if (a.pull) {
      std::uint64_t word[units_of_chunk / stream_lanes][2];
#pragma unroll
      for (unsigned i = 0; i < units_of_chunk / stream_lanes; ++i)
        machine::load_line(reinterpret_cast<const line*>(at + i * stream_lanes), word[i]);
#pragma unroll
      for (unsigned i = 0; i < units_of_chunk / stream_lanes; ++i) mixed ^= word[i][0] ^ word[i][1];
    } else {
      const auto value = static_cast<std::uint32_t>(done);
#pragma unroll
      for (unsigned i = 0; i < units_of_chunk / stream_lanes; ++i)
        machine::store_unit(at + i * stream_lanes, unit16{{value, value, value, value}});
    }
    ++done;
    now = machine::time_ns();
    if (__syncthreads_or(now - began >= a.duration_ns)) break;
  }
  // What is still on its way belongs to the time.
  if (!a.pull) machine::fence_system();
  __syncthreads();
  now = machine::time_ns();
  if (threadIdx.x != 0) return;
  stream_outcome& out = a.outcome[blockIdx.x];
  out.bytes = done * units_of_chunk * sizeof(unit16);
  out.began_ns = began;
  out.ended_ns = now;
  out.mixed = mixed;  // so that every lane has waited for what it loaded
}

__global__ void flags_kernel(const __grid_constant__ flags_arguments a) {
  const std::uint64_t first = machine::time_ns();
  std::uint64_t began = first, now = first;
  std::uint32_t trip = 1;
  const std::uint32_t last = a.trips + untimed_trips;
  for (; trip <= last; ++trip) {
    if (trip == untimed_trips + 1) began = machine::time_ns();
    // Release and acquire, as flags of protocols are.
    if (a.is_first) machine::store_release(a.theirs, flag_value(a.step, trip));
    bool came = false;
    for (unsigned polls = 0;; ++polls) {
      came = machine::load_acquire(a.mine) >= flag_value(a.step, trip);
      if (came) break;
      if (polls % 64 == 63) {
        now = machine::time_ns();
        if (now - first > a.deadline_ns) break;
      }
    }
    if (!came) break;
    if (!a.is_first) machine::store_release(a.theirs, flag_value(a.step, trip));
  }
  now = machine::time_ns();
  a.outcome->trips = trip > last ? a.trips : 0;
  a.outcome->ns = now - began;
}

}  // namespace

cudaError_t launch_fill(region* own, std::uint64_t seed, std::uint32_t rank, cudaStream_t stream) {
  fill_kernel<<<1, proof_lanes, 0, stream>>>(own, seed, rank);
  return cudaGetLastError();
}
cudaError_t launch_write(const proof_arguments& a, cudaStream_t stream) {
  write_kernel<<<a.peers, proof_lanes, 0, stream>>>(a);
  return cudaGetLastError();
}
cudaError_t launch_verify(const proof_arguments& a, cudaStream_t stream) {
  verify_kernel<<<a.peers, proof_lanes, 0, stream>>>(a);
  return cudaGetLastError();
}
cudaError_t launch_read(const proof_arguments& a, cudaStream_t stream) {
  read_kernel<<<a.peers, proof_lanes, 0, stream>>>(a);
  return cudaGetLastError();
}
cudaError_t launch_stream(const stream_arguments& a, cudaStream_t stream) {
  stream_kernel<<<stream_blocks, stream_lanes, 0, stream>>>(a);
  return cudaGetLastError();
}
cudaError_t launch_flags(const flags_arguments& a, cudaStream_t stream) {
  flags_kernel<<<1, 1, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace xyl::probe
