// SPDX-License-Identifier: BSD-3-Clause
//
// Multiplies a rank's input by its scalar before a sum, as exec/host_scale.hpp says. It waits for nobody. A scalar
// on the device is read here, when the stream has come to this.
#include "exec/dispatch.hpp"
#include "kernels/collective_arguments.hpp"
#include "kernels/collective_table.hpp"

namespace xyl {
namespace {

constexpr unsigned scale_lanes = 256;

template <class T>
__global__ void __launch_bounds__(scale_lanes) scale_kernel(const __grid_constant__ scale_arguments given) {
  using traits = element_traits<T>;
  T scalar;
  if (given.by.on_device)
    scalar = *static_cast<const T*>(given.by.on_device);
  else
    memcpy(&scalar, &given.by.bits, sizeof scalar);
  const auto factor = traits::decode(scalar);
  const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (int p = 0; p < given.pieces; ++p) {
    const T* const from = reinterpret_cast<const T*>(given.input + p * given.input_stride);
    T* const to = reinterpret_cast<T*>(given.output) + p * given.elements;
    for (std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < given.elements;
         i += step)
      to[i] = traits::encode(operation::prod::combine(factor, traits::decode(from[i])));
  }
}

}  // namespace

kernel scaling_kernel(int type) {
  kernel found{nullptr, scale_lanes, 0};
  element_types::for_each([&](auto entry, int) {
    if (entry.code == type)
      found.function = reinterpret_cast<const void*>(scale_kernel<typename decltype(entry)::type>);
  });
  return found;
}

}  // namespace xyl
