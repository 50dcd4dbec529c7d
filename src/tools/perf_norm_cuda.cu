// SPDX-License-Identifier: BSD-3-Clause
//
// The separate kernel: one block per row, 16 bytes a thread and step; a thread keeps its share of the row in
// registers between the sum of squares and the norm.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "tools/perf_norm.hpp"

namespace xyl {
namespace {

constexpr int most_threads = 1024;
constexpr int most_steps = 4;  // 16384 elements of 4 bytes are 4096 times 16 bytes
constexpr int warp = 32;

template <class T>
struct alignas(16) pack {
  static constexpr int count = 16 / sizeof(T);
  T values[count];
};

__device__ float number(float x) { return x; }
__device__ float number(__half x) { return __half2float(x); }
__device__ float number(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void round_to(float x, float& out) { out = x; }
__device__ void round_to(float x, __half& out) { out = __float2half_rn(x); }
__device__ void round_to(float x, __nv_bfloat16& out) { out = __float2bfloat16_rn(x); }

__device__ float warp_sum(float x) {
  for (int distance = warp / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(~0u, x, distance);
  return x;
}

// Every thread gets the sum over the block, which has whole warps.
__device__ float block_sum(float x) {
  __shared__ float parts[warp];
  const int warps = static_cast<int>(blockDim.x) / warp;
  const int lane = static_cast<int>(threadIdx.x) % warp;
  x = warp_sum(x);
  if (lane == 0) parts[threadIdx.x / warp] = x;
  __syncthreads();
  return warp_sum(lane < warps ? parts[lane] : 0.0f);
}

template <class T, class Weight>
__global__ void __launch_bounds__(most_threads) add_norm(const __grid_constant__ norm_call call) {
  using rows = pack<T>;
  const std::size_t begin = blockIdx.x * call.hidden;
  const rows* const sum = reinterpret_cast<const rows*>(reinterpret_cast<const T*>(call.sum) + begin);
  rows* const residual = reinterpret_cast<rows*>(reinterpret_cast<T*>(call.residual) + begin);
  rows* const output = reinterpret_cast<rows*>(reinterpret_cast<T*>(call.output) + begin);
  const Weight* const weight = reinterpret_cast<const Weight*>(call.weight);
  const int packs = static_cast<int>(call.hidden) / rows::count;
  rows kept[most_steps];
  float squares = 0;
#pragma unroll
  for (int step = 0; step < most_steps; ++step) {
    const int at = step * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
    if (at >= packs) continue;
    const rows s = sum[at];
    rows r = residual[at];
#pragma unroll
    for (int k = 0; k < rows::count; ++k) {
      round_to(number(s.values[k]) + number(r.values[k]), r.values[k]);
      const float rounded = number(r.values[k]);
      squares += rounded * rounded;
    }
    residual[at] = r;
    kept[step] = r;
  }
  const float mean = block_sum(squares) / static_cast<float>(call.hidden);
  const float factor = 1.0f / sqrtf(mean + call.eps);
  const float one = call.gemma_style ? 1.0f : 0.0f;
#pragma unroll
  for (int step = 0; step < most_steps; ++step) {
    const int at = step * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
    if (at >= packs) continue;
    rows out;
#pragma unroll
    for (int k = 0; k < rows::count; ++k) {
      const float w = one + number(weight[at * rows::count + k]);
      round_to(number(kept[step].values[k]) * factor * w, out.values[k]);
    }
    output[at] = out;
  }
}

template <class T, class Weight>
void launch(const norm_call& call, cudaStream_t stream) {
  const int packs = static_cast<int>(call.hidden) / pack<T>::count;
  const int threads = std::min((packs + warp - 1) / warp * warp, most_threads);
  add_norm<T, Weight><<<static_cast<unsigned>(call.tokens), threads, 0, stream>>>(call);
}

template <class T>
void launch_of(const norm_call& call, cudaStream_t stream) {
  call.fp32_weight ? launch<T, float>(call, stream) : launch<T, T>(call, stream);
}

}  // namespace

int add_norm_on_device(const norm_call& call, xylStream_t stream) {
  if (call.type == xylFloat16)
    launch_of<__half>(call, stream);
  else if (call.type == xylBfloat16)
    launch_of<__nv_bfloat16>(call, stream);
  else
    launch_of<float>(call, stream);
  return cudaGetLastError();
}

}  // namespace xyl
