// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf_layer.hpp"

#include <algorithm>

#include "proto/call.hpp"
#include "tools/perf_types.hpp"

namespace xyl {
namespace {

constexpr int poison_byte = 0xff;

// -64/64 ... 64/64.
float sixty_fourths(std::uint64_t salt, std::uint64_t stream, std::uint64_t index) {
  const std::uint64_t bits = mix64(mix64(salt * 0x9e3779b97f4a7c15ull + index) + stream * 0xd1342543de82ef95ull);
  return static_cast<float>(static_cast<int>(bits % 129) - 64) / 64;
}

constexpr std::uint64_t residual_stream = 1'000'001;
constexpr std::uint64_t weight_stream = 1'000'002;

std::vector<std::byte> stored(xylDataType_t type, const std::vector<float>& values) {
  std::vector<std::byte> out(values.size() * info_of(type).size);
  for (std::size_t i = 0; i < values.size(); ++i) store_activation(type, out.data(), i, values[i]);
  return out;
}

}  // namespace

fused_layer::fused_layer(perf_team& team, std::size_t hidden, bool gemma_style, bool fp32_weight)
    : team_(team), hidden_(hidden), gemma_style_(gemma_style), fp32_weight_(fp32_weight) {}

std::string fused_layer::describe(const layer_call& what) const {
  return format_text("%s of %zu token%s x %zu %s%s%s", info_of(what.pattern).name, what.tokens,
                     what.tokens == 1 ? "" : "s", hidden_, info_of(what.type).name,
                     what.fused ? "" : ", with a separate kernel",
                     what.writes_norm ? "" : ", quantised rows alone");
}

result fused_layer::allocate(xylDataType_t type, std::size_t most_tokens) {
  const std::size_t rows = most_tokens * hidden_ * info_of(type).size;
  std::size_t scales = 0;
  for (const pattern_info& p : all_patterns())
    scales = std::max(scales, scale_bytes(p.pattern, most_tokens, hidden_));
  own_.clear();
  XYL_TRY(team_.allocate(rows));
  for (perf_rank& r : team_.own) {
    own_.emplace_back();
    buffers& b = own_.back();
    b.input = r.send;
    b.output = r.recv;
    for (std::byte** rows_of : {&b.residual, &b.sum, &b.residual_out}) XYL_TRY(r.memory->allocate(rows, *rows_of));
    XYL_TRY(r.memory->allocate(hidden_ * sizeof(float), b.weight));
    XYL_TRY(r.memory->allocate(sizeof(float), b.scale));
    XYL_TRY(r.memory->allocate(most_tokens * hidden_, b.quantised));
    XYL_TRY(r.memory->allocate(scales, b.scales));
  }
  return {};
}

std::vector<float> fused_layer::input_row(int rank, std::size_t token) const {
  std::vector<float> out(hidden_);
  for (std::size_t i = 0; i < hidden_; ++i)
    out[i] = sixty_fourths(salt_, static_cast<std::uint64_t>(rank), token * hidden_ + i);
  return out;
}

std::vector<float> fused_layer::residual_row(std::size_t token) const {
  std::vector<float> out(hidden_);
  for (std::size_t i = 0; i < hidden_; ++i) out[i] = sixty_fourths(salt_, residual_stream, token * hidden_ + i);
  return out;
}

std::vector<float> fused_layer::weight_values() const {
  std::vector<float> out(hidden_);
  for (std::size_t i = 0; i < hidden_; ++i) out[i] = 1 + sixty_fourths(salt_, weight_stream, i) / 2;
  return out;
}

// So that norms, which are 3 at most as a rule, fill the range of the format.
float fused_layer::scale_of(xylFusedPattern_t pattern) const {
  return is_nvfp4(pattern) ? 448.0f * 6 / 8 : 8.0f / 448;
}

result fused_layer::prepare(const layer_call& what) {
  ++salt_;
  const std::size_t row_bytes = hidden_ * info_of(what.type).size;
  const std::vector<std::byte> weight = stored(fp32_weight_ ? xylFloat32 : what.type, weight_values());
  const float scale = scale_of(what.pattern);
  for (std::size_t r = 0; r < own_.size(); ++r) {
    perf_memory& memory = *team_.own[r].memory;
    const buffers& b = own_[r];
    for (std::byte* output : {b.sum, b.output, b.residual_out})
      XYL_TRY(memory.fill(output, poison_byte, what.tokens * row_bytes));
    XYL_TRY(memory.write(b.weight, weight.data(), weight.size()));
    XYL_TRY(memory.write(b.scale, reinterpret_cast<const std::byte*>(&scale), sizeof scale));
    for (std::size_t t = 0; t < what.tokens; ++t) {
      const std::vector<std::byte> input = stored(what.type, input_row(team_.own[r].rank, t));
      const std::vector<std::byte> residual = stored(what.type, residual_row(t));
      XYL_TRY(memory.write(b.input + t * row_bytes, input.data(), row_bytes));
      XYL_TRY(memory.write(b.residual + t * row_bytes, residual.data(), row_bytes));
    }
  }
  return clear_quantised(what);
}

result fused_layer::clear_quantised(const layer_call& what) {
  for (std::size_t r = 0; r < own_.size(); ++r) {
    perf_memory& memory = *team_.own[r].memory;
    XYL_TRY(memory.fill(own_[r].quantised, poison_byte, what.tokens * hidden_));
    XYL_TRY(memory.fill(own_[r].scales, poison_byte, scale_bytes(what.pattern, what.tokens, hidden_)));
  }
  return {};
}

result fused_layer::run_fused(const layer_call& what) {
  arguments_.resize(own_.size());
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const buffers& b = own_[i];
    xylAllReduceRMSNormArgs_t& args = arguments_[i];
    args = {};
    args.size = sizeof args;
    args.pattern = what.pattern;
    args.type = what.type;
    args.weight_type = fp32_weight_ ? xylFloat32 : what.type;
    args.eps = layer_eps;
    args.tokens = what.tokens;
    args.hidden = hidden_;
    args.input = b.input;
    if (what.writes_norm) args.output = b.output;
    if (has_norm(what.pattern)) {
      args.residual = b.residual;
      args.residual_out = what.keeps_residual ? b.residual_out : b.residual;
      args.weight = b.weight;
      args.gemma_style = gemma_style_;
    }
    if (quantises(what.pattern)) args.quantised = b.quantised;
    if (scale_bytes(what.pattern, 1, hidden_) > 0) args.scales = b.scales;
    if (what.pattern == xylFusedFp8Static || is_nvfp4(what.pattern))
      args.scale = reinterpret_cast<const float*>(b.scale);
    const perf_rank& r = team_.own[i];
    if (const xylResult_t code = xylAllReduceRMSNorm(&args, r.comm, r.memory->stream()); code != xylSuccess)
      return error(code, "xylAllReduceRMSNorm (%s) on rank %d: %s: %s", describe(what).c_str(), r.rank,
                   xylGetErrorString(code), xylGetLastError(r.comm));
  }
  return {};
}

result fused_layer::run_separately(const layer_call& what) {
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const perf_rank& r = team_.own[i];
    std::byte* const sum = has_norm(what.pattern) ? own_[i].sum : own_[i].output;
    if (const xylResult_t code =
            xylAllReduce(own_[i].input, sum, what.tokens * hidden_, what.type, xylSum, r.comm, r.memory->stream());
        code != xylSuccess)
      return error(code, "xylAllReduce (%s) on rank %d: %s: %s", describe(what).c_str(), r.rank,
                   xylGetErrorString(code), xylGetLastError(r.comm));
  }
  return {};
}

result fused_layer::run(const layer_call& what) {
  const bool is_group = own_.size() > 1;
  if (is_group && xylGroupStart() != xylSuccess) return error(xylInternalError, "xylGroupStart failed");
  result done = what.fused ? run_fused(what) : run_separately(what);
  if (is_group)
    if (const xylResult_t end = xylGroupEnd(); done.ok() && end != xylSuccess)
      done = error(end, "xylGroupEnd (%s): %s", describe(what).c_str(), xylGetErrorString(end));
  XYL_TRY(std::move(done));
  if (what.fused || !has_norm(what.pattern)) return {};
  for (std::size_t i = 0; i < own_.size(); ++i)
    XYL_TRY(team_.own[i].memory->add_norm({what.type, what.tokens, hidden_, layer_eps, gemma_style_, fp32_weight_,
                                           own_[i].sum, own_[i].residual, own_[i].weight, own_[i].output}));
  return {};
}

}  // namespace xyl
