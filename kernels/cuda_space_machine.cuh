// SPDX-License-Identifier: BSD-3-Clause
//
// The instructions of the CUDA space: all PTX, and all that depends on the SM, is in this file. What orders memory
// says so here; why that is enough stands where it is used (cuda_space.cuh, fused_space.cuh).
#pragma once

#include <cstdint>

#include "proto/space.hpp"
#include "proto/sync_path.hpp"

namespace xyl::machine {

__device__ __forceinline__ void store_release(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
__device__ __forceinline__ void store_release(volatile std::uint32_t* to, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
__device__ __forceinline__ std::uint64_t load_acquire(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
__device__ __forceinline__ void store_relaxed(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
__device__ __forceinline__ std::uint64_t load_relaxed(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
// Flags, in the way that all ranks have agreed on; a block takes one branch of each. Fenced, the fence before the
// store and the one after the last load do what release and acquire do; the loads in between may find nothing.
__device__ __forceinline__ void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
__device__ __forceinline__ void post_flag(flag_order how, std::uint64_t* to, std::uint64_t value) {
  if (how == flag_order::release) {
    store_release(to, value);
  } else if (how == flag_order::device_release) {
    // Between ranks of one GPU: what orders for all of it orders for all of them.
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
  } else {
    fence_system();
    store_relaxed(to, value);
  }
}
// As wide as flags order in that way.
__device__ __forceinline__ void fence_as(flag_order how) {
  if (how == flag_order::device_release)
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
  else
    fence_system();
}
__device__ __forceinline__ std::uint64_t look_at_flag(flag_order how, const std::uint64_t* from) {
  if (how == flag_order::release) return load_acquire(from);
  if (how != flag_order::device_release) return load_relaxed(from);
  std::uint64_t value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
// After the look that found what was wanted.
__device__ __forceinline__ void flag_was_seen(flag_order how) {
  if (how == flag_order::fenced) fence_system();
}
// Both words in one access; each is whole, and no order between them is relied on.
__device__ __forceinline__ void store_line(line* to, std::uint64_t first, std::uint64_t second) {
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(first), "l"(second) : "memory");
}
__device__ __forceinline__ void load_line(const line* from, std::uint64_t (&word)[2]) {
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(word[0]), "=l"(word[1])
               : "l"(from)
               : "memory");
}
// All 16 bytes as one scalar, so that what is seen of them is seen together (see sync_path.hpp). A vector would be
// several operations to the memory model. At system scope such scalars exist from PTX ISA 8.4 on.
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1204
inline constexpr bool has_whole_lines = true;
__device__ __forceinline__ void store_whole(unit16* to, const unit16& u) {
  asm volatile(
      "{ .reg .b64 low, high; .reg .b128 whole; mov.b64 low, {%1, %2}; mov.b64 high, {%3, %4}; "
      "mov.b128 whole, {low, high}; st.relaxed.sys.global.b128 [%0], whole; }" ::"l"(to),
      "r"(u.word[0]), "r"(u.word[1]), "r"(u.word[2]), "r"(u.word[3])
      : "memory");
}
__device__ __forceinline__ unit16 load_whole(const unit16* from) {
  unit16 u;
  asm volatile(
      "{ .reg .b64 low, high; .reg .b128 whole; ld.relaxed.sys.global.b128 whole, [%4]; "
      "mov.b128 {low, high}, whole; mov.b64 {%0, %1}, low; mov.b64 {%2, %3}, high; }"
      : "=r"(u.word[0]), "=r"(u.word[1]), "=r"(u.word[2]), "=r"(u.word[3])
      : "l"(from)
      : "memory");
  return u;
}
#else
inline constexpr bool has_whole_lines = false;
__device__ void store_whole(unit16* to, const unit16& u);
__device__ unit16 load_whole(const unit16* from);
#endif
// Ordinary accesses, which the compiler keeps on their side of the accesses above. It is told that the address is
// in global memory, since that is not seen of pointers inside a struct.
__device__ __forceinline__ unit16 load_unit(const unit16* from) {
  __builtin_assume(__isGlobal(from));
  const uint4 v = *reinterpret_cast<const uint4*>(from);
  return {{v.x, v.y, v.z, v.w}};
}
__device__ __forceinline__ void store_unit(unit16* to, unit16 u) {
  __builtin_assume(__isGlobal(to));
  *reinterpret_cast<uint4*>(to) = make_uint4(u.word[0], u.word[1], u.word[2], u.word[3]);
}
// The same, of what the second-level cache may forget first.
__device__ __forceinline__ unit16 load_unit_once(const unit16* from) {
  __builtin_assume(__isGlobal(from));
  const uint4 v = __ldcs(reinterpret_cast<const uint4*>(from));
  return {{v.x, v.y, v.z, v.w}};
}
__device__ __forceinline__ void store_unit_once(unit16* to, unit16 u) {
  __builtin_assume(__isGlobal(to));
  __stcs(reinterpret_cast<uint4*>(to), make_uint4(u.word[0], u.word[1], u.word[2], u.word[3]));
}
// Asks for a line to be brought to the second-level cache; nothing waits for it.
__device__ __forceinline__ void fetch_line(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(from)));
}
// The turn word is shared by the blocks of one device alone.
__device__ __forceinline__ std::uint64_t load_turn(const std::uint64_t* turn) {
  std::uint64_t word;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(turn) : "memory");
  return word;
}
__device__ __forceinline__ void add_turn(std::uint64_t* turn, std::uint64_t weight) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(turn), "l"(weight) : "memory");
}
__device__ __forceinline__ std::uint64_t time_ns() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

// Arguments come from constant memory, where the first look at every 64 bytes is a trip to the second-level cache.
// These looks are made here, while the launch before is still running.
template <class Arguments>
__device__ __forceinline__ void fetch_arguments(const Arguments& given, std::size_t begin, std::size_t end) {
#pragma unroll
  for (std::size_t at = begin; at < end; at += 64) {
    const std::uint32_t word = reinterpret_cast<const std::uint32_t*>(&given)[at / 4];
    asm volatile("" ::"r"(word));
  }
}

// Programmatic dependent launch, which exists from compute capability 9.0 on; in a launch that is none, or where it
// does not exist, both are nothing. The first returns when all earlier launches that this one depends on have ended
// and what they wrote is visible. The second says that the next launch may be scheduled; it makes nothing visible.
__device__ __forceinline__ void await_earlier_launches() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void let_next_launch_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Clusters. Where there are none, fused_work::is_clustered is false.
//
// Blocks of a cluster hand each other words with stores that a barrier in the receiver's shared memory counts: who
// has waited for the bytes it expects sees them. A barrier of the whole cluster would have to release everything
// that its blocks ever wrote, also to the peers, before anybody could go on: 1.3 us after a row of packets.
__device__ __forceinline__ std::uint32_t shared_address(const void* here) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(here));
}
__device__ __forceinline__ void init_meeting(std::uint64_t* meeting) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(meeting)) : "memory");
#endif
}
// Behind init_meeting, in the lane that did it; the others of the block arrive without. Relaxed is enough: the
// fence makes the barriers known to the cluster, and nothing else was written for it.
__device__ __forceinline__ void arrive_in_cluster() {
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x == 0) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
  // Acquire: see arrive_in_cluster.
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}
// One lane of the block, once a meeting: so many bytes will come.
__device__ __forceinline__ void expect_bytes(std::uint64_t* meeting, std::uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(meeting)), "r"(bytes)
               : "memory");
#endif
}
// To the same place in that block's shared memory; its meeting counts the bytes, with release order.
__device__ __forceinline__ void send_in_cluster(std::uint64_t* here, unsigned block, std::uint64_t value,
                                                std::uint64_t* meeting) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .b32 to, counter; mapa.shared::cluster.u32 to, %0, %2; mapa.shared::cluster.u32 counter, %1, %2; "
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [to], %3, [counter]; }" ::"r"(
          shared_address(here)),
      "r"(shared_address(meeting)), "r"(block), "l"(value)
      : "memory");
#endif
}
// Waits for what the meeting expects. Acquire in the cluster: the words that the bytes are of are there.
__device__ __forceinline__ void await_bytes(std::uint64_t* meeting, unsigned parity) {
#if __CUDA_ARCH__ >= 900
  std::uint32_t done = 0;
  while (done == 0)
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; "
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(shared_address(meeting)), "r"(parity)
        : "memory");
#endif
}

// Conversions of pairs, the first value in the low half; a pass for the host, or for an SM without the
// instruction, lacks it.
__device__ __forceinline__ void decode_f16x2(std::uint32_t pair, float& low, float& high) {
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
      : "=f"(low), "=f"(high)
      : "r"(pair));
}
__device__ __forceinline__ std::uint32_t f16x2(float low, float high) {
  std::uint32_t pair;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#else
  asm("{ .reg .b16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h}; }"
      : "=r"(pair)
      : "f"(low), "f"(high));
#endif
  return pair;
}
#if __CUDA_ARCH__ >= 800
inline constexpr bool converts_bf16 = true;
__device__ __forceinline__ std::uint32_t bf16x2(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
#else
inline constexpr bool converts_bf16 = false;
__device__ std::uint32_t bf16x2(float low, float high);
#endif
#if __CUDA_ARCH__ >= 890
inline constexpr bool converts_e4m3 = true;
__device__ __forceinline__ std::uint32_t e4m3x2(float low, float high) {
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}
#else
inline constexpr bool converts_e4m3 = false;
__device__ std::uint32_t e4m3x2(float low, float high);
#endif
#if __CUDA_ARCH__ >= 1000 && (defined(__CUDA_ARCH_SPECIFIC__) || defined(__CUDA_ARCH_FAMILY_SPECIFIC__))
inline constexpr bool converts_e2m1 = true;
__device__ __forceinline__ std::uint32_t e2m1x2(float low, float high) {
  std::uint32_t word;
  asm("{ .reg .b8 pair; cvt.rn.satfinite.e2m1x2.f32 pair, %1, %2; mov.b32 %0, {pair, pair, pair, pair}; }"
      : "=r"(word)
      : "f"(high), "f"(low));
  return word & 0xff;
}
#else
inline constexpr bool converts_e2m1 = false;
__device__ std::uint32_t e2m1x2(float low, float high);
#endif

}  // namespace xyl::machine
