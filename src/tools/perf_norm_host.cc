// SPDX-License-Identifier: BSD-3-Clause
//
// Squares are added up in eight sums side by side, so that the compiler can use vectors.
#include <cmath>

#include "proto/element.hpp"
#include "tools/perf_norm.hpp"

namespace xyl {
namespace {

constexpr std::size_t lanes = 8;  // hidden is a multiple of it

template <class T, class Weight>
void add_norm(const norm_call& call) {
  const T* sum = reinterpret_cast<const T*>(call.sum);
  T* residual = reinterpret_cast<T*>(call.residual);
  const Weight* weight = reinterpret_cast<const Weight*>(call.weight);
  T* output = reinterpret_cast<T*>(call.output);
  const float one = call.gemma_style ? 1.0f : 0.0f;
  for (std::size_t row = 0; row < call.tokens; ++row) {
    float squares[lanes] = {};
    for (std::size_t i = 0; i < call.hidden; i += lanes)
      for (std::size_t k = 0; k < lanes; ++k) {
        const float s = element_traits<T>::decode(sum[i + k]);
        const T r = element_traits<T>::encode(s + element_traits<T>::decode(residual[i + k]));
        residual[i + k] = r;
        const float rounded = element_traits<T>::decode(r);
        squares[k] += rounded * rounded;
      }
    float total = 0;
    for (float s : squares) total += s;
    const float factor = 1.0f / std::sqrt(total / static_cast<float>(call.hidden) + call.eps);
    for (std::size_t i = 0; i < call.hidden; ++i)
      output[i] = element_traits<T>::encode(element_traits<T>::decode(residual[i]) * factor *
                                            (one + element_traits<Weight>::decode(weight[i])));
    sum += call.hidden;
    residual += call.hidden;
    output += call.hidden;
  }
}

template <class T>
void add_norm_of(const norm_call& call) {
  call.fp32_weight ? add_norm<T, float>(call) : add_norm<T, T>(call);
}

}  // namespace

void add_norm_on_host(const norm_call& call) {
  if (call.type == xylFloat16) return add_norm_of<float16>(call);
  if (call.type == xylBfloat16) return add_norm_of<bfloat16>(call);
  add_norm_of<float>(call);
}

}  // namespace xyl
