// SPDX-License-Identifier: BSD-3-Clause
//
// The space of the self-tests of sync paths (proto/sync_trial.hpp) for a CUDA block: the very instructions that the
// kernels of the collectives use. Wide lines are held by eight lanes, sixteen bytes each, and stored in one
// instruction of their warp; that they arrive whole is for the link to say.
#pragma once

#include "kernels/cuda_space_machine.cuh"
#include "proto/sync_trial.hpp"

namespace xyl {

class cuda_trial_space {
 public:
  __device__ __forceinline__ unsigned lane() const { return threadIdx.x; }
  __device__ __forceinline__ unsigned lanes() const { return blockDim.x; }
  __device__ __forceinline__ void sync() { __syncthreads(); }
  __device__ __forceinline__ bool all(bool verdict) { return __syncthreads_and(verdict) != 0; }
  __device__ __forceinline__ void await_earlier() { machine::await_earlier_launches(); }
  __device__ __forceinline__ void trying(sync_path) {}
  __device__ __forceinline__ void sent(launch_overlap overlap) {
    if (overlap == launch_overlap::early) machine::let_next_launch_start();
  }
  __device__ __forceinline__ void received(launch_overlap overlap) {
    if (overlap == launch_overlap::late) machine::let_next_launch_start();
  }
  __device__ __forceinline__ std::uint64_t now_ns() const { return machine::time_ns(); }
  __device__ __forceinline__ bool claim(std::uint32_t* word, std::uint32_t value) {
    return atomicCAS(word, 0u, value) == 0;
  }
  __device__ __forceinline__ std::uint32_t peek(const std::uint32_t* word) const {
    return *static_cast<const volatile std::uint32_t*>(word);
  }

  __device__ __forceinline__ void post(flag_order how, flag* f, epoch_t n) {
    machine::post_flag(how, &f->epoch, n);
  }
  __device__ __forceinline__ epoch_t look(flag_order how, const flag* f) const {
    return machine::look_at_flag(how, &f->epoch);
  }
  __device__ __forceinline__ void seen(flag_order how) const { machine::flag_was_seen(how); }

  __device__ __forceinline__ void put(line* l, std::uint64_t data, std::uint32_t n) {
    const std::uint64_t tag = static_cast<std::uint64_t>(n) << 32;
    machine::store_line(l, tag | (data & 0xffffffffu), tag | data >> 32);
  }
  __device__ __forceinline__ bool get(const line* l, std::uint32_t n, std::uint64_t& data) const {
    std::uint64_t word[2];
    machine::load_line(l, word);
    data = (word[0] & 0xffffffffu) | word[1] << 32;
    return word[0] >> 32 == n && word[1] >> 32 == n;
  }

  __device__ __forceinline__ void put_line(unit16* l, const unit16& whole) {
    if constexpr (machine::has_whole_lines) machine::store_whole(l, whole);
  }
  __device__ __forceinline__ unit16 get_line(const unit16* l) const {
    if constexpr (machine::has_whole_lines)
      return machine::load_whole(l);
    else
      return {};
  }

  __device__ __forceinline__ unsigned wide_lanes() const { return wide; }
  template <class F>
  __device__ __forceinline__ void put_wide(wide_line* l, F word, std::uint32_t n) {
    const unsigned i = 2 * (threadIdx.x % wide);
    const std::uint64_t first = word(i), second = i + 1 < 15 ? word(i + 1) : n;
    __syncwarp(group());  // the eight lanes store together
    machine::store_line(reinterpret_cast<line*>(l) + i / 2, first, second);
  }
  template <class F>
  __device__ __forceinline__ bool get_wide(const wide_line* l, std::uint32_t n, F take) const {
    const unsigned i = 2 * (threadIdx.x % wide);
    std::uint64_t word[2];
    __syncwarp(group());
    machine::load_line(reinterpret_cast<const line*>(l) + i / 2, word);
    if (!__all_sync(group(), i + 1 < 15 || word[1] == n)) return false;
    take(i, word[0]);
    if (i + 1 < 15) take(i + 1, word[1]);
    return true;
  }
  __device__ __forceinline__ bool any_of_wide(bool v) const { return __any_sync(group(), v) != 0; }

  __device__ __forceinline__ unit16 load_peer16(const unit16* from) const { return machine::load_unit(from); }
  __device__ __forceinline__ void store16(unit16* to, unit16 data) { machine::store_unit(to, data); }

 private:
  static constexpr unsigned wide = 8;
  static __device__ __forceinline__ unsigned group() { return 0xffu << (threadIdx.x % 32 / wide * wide); }
};

}  // namespace xyl
