// SPDX-License-Identifier: BSD-3-Clause
//
// A fused_data as the structures of xylem_fused.h.
#pragma once

#include "proto/fused_data.hpp"
#include "xylem/xylem.h"

namespace xyl::test {

template <class T>
constexpr xylDataType_t code_of() {
  return std::is_same_v<T, float> ? xylFloat32 : std::is_same_v<T, float16> ? xylFloat16 : xylBfloat16;
}

struct fused_call {
  xylAllReduceRMSNormArgs_t args{};
  xylMoeReduceArgs_t moe{};
  bool is_moe = false;

  // where(p): where the call finds the buffer that lies at p, null for null.
  template <class T, class Where>
  fused_call(fused_data<T>& d, Where where) : is_moe(d.f.experts != 0) {
    const bool quant = quantises(d.f.pattern);
    args.size = sizeof args;
    args.pattern = static_cast<xylFusedPattern_t>(d.f.pattern);
    args.type = code_of<T>();
    args.weight_type = d.f.weight_is_float ? xylFloat32 : args.type;
    args.eps = d.f.eps;
    args.tokens = d.f.tokens;
    args.hidden = d.f.hidden;
    args.input = where(d.input.raw());
    args.residual = d.has_residual() ? where(d.residual.raw()) : nullptr;
    args.weight = where(d.weight.raw());
    args.scale = reinterpret_cast<const float*>(where(d.scale.raw()));
    args.output = d.output_buffer() ? where(d.output_buffer()) : nullptr;
    args.residual_out = d.residual_out_buffer() ? where(d.residual_out_buffer()) : nullptr;
    args.quantised = quant ? where(d.quantised.raw()) : nullptr;
    args.scales = d.scales.size() ? where(d.scales.raw()) : nullptr;
    args.gemma_style = d.f.gemma;
    args.residual_sharded = d.f.residual_sharded;
    moe.size = sizeof moe;
    moe.experts_per_token = d.f.experts;
    moe.expert_rows = d.f.tokens * d.f.experts;
    if (!is_moe) return;
    moe.expert_output = where(d.expert_output.raw());
    moe.rows = d.f.expert_table ? reinterpret_cast<const std::int32_t*>(where(d.expert_row.raw())) : nullptr;
    moe.weights = reinterpret_cast<const float*>(where(d.expert_weight.raw()));
  }
  template <class T>
  explicit fused_call(fused_data<T>& d) : fused_call(d, [](std::byte* p) { return p; }) {}

  xylResult_t operator()(xylComm_t comm, xylStream_t stream = nullptr) const {
    return is_moe ? xylMoeAllReduceRMSNorm(&moe, &args, comm, stream) : xylAllReduceRMSNorm(&args, comm, stream);
  }
};

}  // namespace xyl::test
