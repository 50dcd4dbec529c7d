// SPDX-License-Identifier: BSD-3-Clause
//
// One allreduce of a layer with what follows it, for all ranks that a thread drives: buffers, data, the fused call,
// the same with a separate kernel, and checks of every output against perf_reference.hpp. Inputs are multiples of
// 1/64 up to 1 and differ by rank; residual and weight are the same on all ranks. Such sums are exact in fp32, so
// the sum with the residual is checked bit by bit whatever the order of addition.
#pragma once

#include <string>
#include <vector>

#include "tools/perf_model.hpp"
#include "tools/perf_rank.hpp"
#include "tools/perf_reference.hpp"

namespace xyl {

inline constexpr float layer_eps = 1e-6f;

struct layer_call {
  xylFusedPattern_t pattern = xylFusedResidualRMSNorm;
  xylDataType_t type = xylBfloat16;
  std::size_t tokens = 1;
  bool fused = true;
  bool writes_norm = true;     // false: of a quantising pattern the quantised rows alone
  bool keeps_residual = true;  // residual_out is a buffer of its own; false: the residual is updated in place
};

class fused_layer {
 public:
  fused_layer(perf_team& team, std::size_t hidden, bool gemma_style, bool fp32_weight);

  // For calls up to this size, of any pattern.
  result allocate(xylDataType_t type, std::size_t most_tokens);
  // New data in every input, poison in every output.
  result prepare(const layer_call& what);
  // The call on all own ranks.
  result run(const layer_call& what);
  // Before another call with the same data, of which the outputs but the norm are to be checked.
  result clear_quantised(const layer_call& what);
  // Compares every output with what `times` calls after prepare() must have made of it. Without writes_norm the
  // norm is taken from an earlier call.
  result check(const layer_call& what, int times, fault_count& faults);

  std::string describe(const layer_call& what) const;

 private:
  struct buffers {
    std::byte *input, *residual, *weight, *scale;
    std::byte *sum, *output, *residual_out, *quantised, *scales;
  };
  // What the outputs of one token's row must be. sum is rounded.
  struct expected_row {
    std::vector<float> sum, residual;
    std::vector<double> norm;
  };
  std::vector<float> input_row(int rank, std::size_t token) const;
  std::vector<float> residual_row(std::size_t token) const;
  std::vector<float> weight_values() const;
  float scale_of(xylFusedPattern_t pattern) const;
  expected_row expect(const layer_call& what, int times, std::size_t token) const;

  result run_fused(const layer_call& what);
  result run_separately(const layer_call& what);
  result check_rank(const layer_call& what, const std::vector<expected_row>& rows, std::size_t index,
                    fault_count& faults);

  perf_team& team_;
  std::size_t hidden_;
  bool gemma_style_;
  bool fp32_weight_;
  std::uint64_t salt_ = 0;
  std::vector<buffers> own_;  // as team_.own
  // A group may read them when it ends.
  std::vector<xylAllReduceRMSNormArgs_t> arguments_;
};

}  // namespace xyl
