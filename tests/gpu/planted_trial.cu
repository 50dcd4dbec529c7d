// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>
#include <cstdlib>

#include "kernels/sync_trial.cuh"
#include "tests/gpu/planted_trial.hpp"

namespace xyl::gpu_test {
namespace {

__device__ planted faults_of_paths[sync_paths];

class planted_space : public cuda_trial_space {
 public:
  __device__ explicit planted_space(const trial_order& order) : order_(order) {}

  __device__ void trying(sync_path path) { fault_ = faults_of_paths[static_cast<int>(path)]; }

  __device__ void post(flag_order how, flag* f, epoch_t n) {
    if (fault_ != planted::never || is_meeting(f)) cuda_trial_space::post(how, f, n);
  }
  __device__ void put(line* l, std::uint64_t data, std::uint32_t n) {
    if (fault_ != planted::never) cuda_trial_space::put(l, data ^ lost(), n);
  }
  __device__ void put_line(unit16* l, unit16 whole) {
    whole.word[0] ^= static_cast<std::uint32_t>(lost());
    if (fault_ != planted::never) cuda_trial_space::put_line(l, whole);
  }
  template <class F>
  __device__ void put_wide(wide_line* l, F word, std::uint32_t n) {
    if (fault_ != planted::never)
      cuda_trial_space::put_wide(
          l, [&](unsigned i) { return word(i) ^ lost(); }, n);
  }
  __device__ void store16(unit16* to, unit16 data) {
    data.word[1] ^= static_cast<std::uint32_t>(lost());
    cuda_trial_space::store16(to, data);
  }
  // Every round has one.
  __device__ bool all(bool verdict) {
    const std::uint64_t end = now_ns() + (fault_ == planted::slow ? 100'000 : 0);
    while (now_ns() < end) {
    }
    return cuda_trial_space::all(verdict);
  }

 private:
  // A bit of one lane's data.
  __device__ std::uint64_t lost() const { return fault_ == planted::corrupt && lane() == 5 ? 0x1000 : 0; }
  __device__ bool is_meeting(const flag* f) const {
    for (int r = 0; r < order_.ranks; ++r)
      if (f ==
          at<const flag>(order_, r,
                         order_.map.trial_flag_offset(trial_flag::meeting, static_cast<unsigned>(order_.rank))))
        return true;
    return false;
  }
  const trial_order& order_;
  planted fault_ = planted::none;
};

constexpr unsigned lanes = 256;

__global__ void __launch_bounds__(lanes, 2) planted_kernel(const __grid_constant__ trial_order order) {
  planted_space space(order);
  sync_trial(space, order).run();
}

}  // namespace

kernel planted_trial_kernel() {
  return {reinterpret_cast<const void*>(planted_kernel), lanes, trial_order::capacity};
}

void plant(const planted (&faults)[sync_paths]) {
  if (cudaMemcpyToSymbol(faults_of_paths, faults, sizeof faults) == cudaSuccess) return;
  std::fprintf(stderr, "the faults could not be planted\n");
  std::abort();
}

}  // namespace xyl::gpu_test
