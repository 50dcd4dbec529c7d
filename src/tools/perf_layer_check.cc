// SPDX-License-Identifier: BSD-3-Clause
//
// The checking half of a fused layer.
#include <cstring>

#include "tools/perf_layer.hpp"
#include "tools/perf_types.hpp"

namespace xyl {
namespace {

// Faults of one rank.
struct rank_faults {
  fault_count& faults;
  int rank;

  void expect(bool is_right, const char* what, std::size_t token, std::size_t at, double got, double wanted) {
    if (is_right) return;
    faults.add(rank, [&] {
      return format_text("%s of token %zu, number %zu is %.9g, expected %.9g", what, token, at, got, wanted);
    });
  }
};

// Rows of the type as numbers.
result read_rows(perf_memory& memory, xylDataType_t type, const std::byte* from, std::size_t count,
                 std::vector<float>& out) {
  std::vector<std::byte> bytes(count * info_of(type).size);
  XYL_TRY(memory.read(bytes.data(), from, bytes.size()));
  out.resize(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = load_activation(type, bytes.data(), i);
  return {};
}

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// The scales of one row against what is in the buffer.
void check_scales(const layer_call& what, std::size_t hidden, const std::vector<std::byte>& scales,
                  std::size_t token, const quantised_row& wanted, rank_faults& faults) {
  for (std::size_t i = 0; i < wanted.scales.size(); ++i) {
    float got;
    std::memcpy(&got, scales.data() + (token * wanted.scales.size() + i) * sizeof got, sizeof got);
    faults.expect(same_bits(got, wanted.scales[i]), "scale", token, i, got, wanted.scales[i]);
  }
  for (std::size_t i = 0; i < wanted.block_scales.size(); ++i) {
    const std::size_t at = what.pattern == xylFusedNvfp4Swizzled128x4 ? swizzled_at(token, i, hidden)
                                                                      : token * wanted.block_scales.size() + i;
    const int got = static_cast<int>(scales[at]);
    faults.expect(got == wanted.block_scales[i], "scale", token, i, got, wanted.block_scales[i]);
  }
}

}  // namespace

fused_layer::expected_row fused_layer::expect(const layer_call& what, int times, std::size_t token) const {
  std::vector<std::vector<float>> inputs;
  for (int rank = 0; rank < team_.ranks; ++rank) inputs.push_back(input_row(rank, token));
  std::vector<float> sum = sum_rows(inputs);
  expected_row out;
  out.sum = sum;
  for (float& s : out.sum) s = round_activation(what.type, s);
  if (!has_norm(what.pattern)) return out;
  // A separate allreduce rounds its result.
  if (!what.fused) sum = out.sum;
  out.residual = residual_row(token);
  for (int i = 0; i < (what.keeps_residual ? 1 : times); ++i)
    out.residual = add_residual(what.type, sum, out.residual);
  std::vector<float> weight = weight_values();
  for (float& w : weight)
    w = round_activation(fp32_weight_ ? xylFloat32 : what.type, w) + (gemma_style_ ? 1.0f : 0.0f);
  out.norm = norm_row(out.residual, weight, layer_eps);
  return out;
}

result fused_layer::check_rank(const layer_call& what, const std::vector<expected_row>& rows, std::size_t index,
                               fault_count& counted) {
  perf_memory& memory = *team_.own[index].memory;
  const buffers& b = own_[index];
  const std::size_t count = what.tokens * hidden_;
  rank_faults faults{counted, team_.own[index].rank};
  std::vector<float> output;
  std::vector<float> residual;
  XYL_TRY(read_rows(memory, what.type, b.output, count, output));
  const bool is_kept = what.fused && what.keeps_residual;
  XYL_TRY(read_rows(memory, what.type, is_kept ? b.residual_out : b.residual, count, residual));
  std::vector<std::byte> quantised(quantised_bytes(what.pattern, what.tokens, hidden_));
  std::vector<std::byte> scales(scale_bytes(what.pattern, what.tokens, hidden_));
  XYL_TRY(memory.read(quantised.data(), b.quantised, quantised.size()));
  XYL_TRY(memory.read(scales.data(), b.scales, scales.size()));

  for (std::size_t t = 0; t < what.tokens; ++t) {
    const expected_row& wanted = rows[t];
    const std::span<const float> got(output.data() + t * hidden_, hidden_);
    for (std::size_t i = 0; i < hidden_; ++i) {
      if (!has_norm(what.pattern)) {
        faults.expect(same_bits(got[i], wanted.sum[i]), "sum", t, i, got[i], wanted.sum[i]);
        continue;
      }
      const float r = residual[t * hidden_ + i];
      faults.expect(same_bits(r, wanted.residual[i]), "residual", t, i, r, wanted.residual[i]);
      const float norm = round_activation(what.type, static_cast<float>(wanted.norm[i]));
      if (what.writes_norm)
        faults.expect(steps_between(what.type, got[i], norm) <= norm_tolerance(what.type), "norm", t, i, got[i],
                      norm);
    }
    if (!quantises(what.pattern)) continue;
    const quantised_row row = quantise_row(what.pattern, got, scale_of(what.pattern));
    const std::byte* const bytes = quantised.data() + t * row.bytes.size();
    for (std::size_t i = 0; i < row.bytes.size(); ++i)
      faults.expect(static_cast<std::uint8_t>(bytes[i]) == row.bytes[i], "quantised byte", t, i,
                    static_cast<int>(bytes[i]), row.bytes[i]);
    check_scales(what, hidden_, scales, t, row, faults);
  }
  return {};
}

result fused_layer::check(const layer_call& what, int times, fault_count& faults) {
  std::vector<expected_row> rows;
  for (std::size_t t = 0; t < what.tokens; ++t) rows.push_back(expect(what, times, t));
  for (std::size_t i = 0; i < own_.size(); ++i) XYL_TRY(check_rank(what, rows, i, faults));
  return {};
}

}  // namespace xyl
