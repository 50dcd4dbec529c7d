// SPDX-License-Identifier: BSD-3-Clause
//
// Kernels of the fused allreduce; instantiated per type and form by kernels/fused_*.cu. Those for any number of
// ranks do everything; those for 2, 4 and 8 do not mix experts' outputs; and where a row goes one way, there is one
// that does not quantise either. What is pulled is pulled between two ranks.
#pragma once

#include "kernels/codec_cuda.cuh"
#include "kernels/fused_limits.hpp"
#include "kernels/fused_space.cuh"
#include "kernels/fused_table.hpp"
#include "kernels/quantise_cuda.cuh"
#include "proto/fused_pull.hpp"
#include "proto/fused_slices.hpp"
#include "proto/fused_two_shot_packet.hpp"

namespace xyl {

template <fused_form Form, int Ranks>
using fused_space_of = fused_space<argument_capacity(Ranks), fused_pieces_of_lane(Form), !uses_packets(Form)>;

// Inputs are written by their ranks' earlier launches: they are read by ordinary loads.
template <int Capacity, int Pieces>
class fused_pull_space : public fused_space<Capacity, Pieces, true> {
  using base = fused_space<Capacity, Pieces, true>;

 public:
  __device__ __forceinline__ fused_pull_space(const fused_pull_arguments<Capacity>& given, fused_state& state)
      : base(given, state), given_(given) {}

  __device__ __forceinline__ void begin_early() {
    machine::fetch_arguments(given_, sizeof(fused_arguments<Capacity>), sizeof given_);
    base::begin_early();
  }

 private:
  const fused_pull_arguments<Capacity>& given_;
};

template <fused_form Form, int Ranks>
using fused_pull_space_of = fused_pull_space<argument_capacity(Ranks), fused_pieces_of_lane(Form)>;

template <fused_form Form, class T, int Ranks, bool Quantises>
__global__ void __launch_bounds__(most_fused_lanes(Form, Ranks), fused_blocks_of_multiprocessor(Form))
    fused_pull_kernel(const __grid_constant__ fused_pull_arguments<argument_capacity(Ranks)> given) {
  using kind = fused_kind<cuda_codec<T>, cuda_quantiser, Ranks, false, Quantises>;
  __shared__ fused_state state;
  fused_pull_space_of<Form, Ranks> space(given, state);
  fused_one_shot_pull<kind>(space, given.what, given.work, given.input_of);
}

template <fused_form Form, class T, int Ranks, bool Quantises>
__global__ void __launch_bounds__(most_fused_lanes(Form, Ranks), fused_blocks_of_multiprocessor(Form))
    fused_kernel(const __grid_constant__ fused_arguments<argument_capacity(Ranks)> given) {
  using kind = fused_kind<cuda_codec<T>, cuda_quantiser, Ranks, Ranks == 0, Quantises>;
  __shared__ fused_state state;
  fused_space_of<Form, Ranks> space(given, state);
  if constexpr (Form == fused_form::packet)
    fused_packet<kind>(space, given.what, given.work);
  else if constexpr (Form == fused_form::two_shot_packet)
    fused_two_shot_packet<kind>(space, given.what, given.work);
  else if constexpr (Form == fused_form::one_shot)
    fused_one_shot<kind>(space, given.what, given.work);
  else if constexpr (Form == fused_form::two_shot_slices)
    fused_two_shot_slices<kind>(space, given.what, given.work);
  else
    fused_two_shot<kind>(space, given.what, given.work);
}

template <fused_form Form, class T, int Ranks, bool Quantises = true>
kernel fused_handle_of() {
  const auto kernel_of = [] {
    if constexpr (pulls(Form))
      return reinterpret_cast<const void*>(fused_pull_kernel<Form, T, Ranks, Quantises>);
    else
      return reinterpret_cast<const void*>(fused_kernel<Form, T, Ranks, Quantises>);
  };
  return {kernel_of(), most_fused_lanes(Form, Ranks), argument_capacity(Ranks)};
}

template <fused_form Form, class T, int Ranks, bool Quantises>
kernel fused_handle_if_built() {
  if constexpr (has_fused_kernel_for(Form, Ranks, Quantises))
    return fused_handle_of<Form, T, Ranks, Quantises>();
  else
    return {};
}

template <fused_form Form, class T>
fused_family fused_kernels() {
  fused_family family;
  if constexpr (has_fused_kernel_for_any(Form)) family.any = fused_handle_of<Form, T, 0>();
  if constexpr (!std::is_same_v<T, float>)
    family.fixed = {fused_handle_if_built<Form, T, 2, true>(), fused_handle_if_built<Form, T, 4, true>(),
                    fused_handle_if_built<Form, T, 8, true>()};
  return family;
}

template <fused_form Form, class T>
fixed_kernels plain_fused_kernels() {
  return {fused_handle_if_built<Form, T, 2, false>(), fused_handle_if_built<Form, T, 4, false>(),
          fused_handle_if_built<Form, T, 8, false>()};
}

}  // namespace xyl
