// SPDX-License-Identifier: BSD-3-Clause
#include "comm/fused_arguments.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/enumeration.hpp"
#include "exec/dispatch.hpp"
#include "proto/user_memory.hpp"

namespace xyl {
namespace {

using arguments = xylAllReduceRMSNormArgs_t;

constexpr std::uint64_t most_experts = 64;

// Structures grow at their end. A shorter one is an older caller's, once there is an older version; a longer one is
// a newer caller's, which is understood as long as it asks for nothing new.
template <class Struct>
result read_structure(const Struct* given, const char* name, Struct& out) {
  if (given == nullptr) return error(xylInvalidArgument, "%s is NULL", name);
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < sizeof(Struct) || size > 65536)
    return error(xylInvalidArgument,
                 "%s->size is %zu; set it to sizeof(*%s), which is %zu in the library, and zero the rest first",
                 name, size, name, sizeof(Struct));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  if (std::any_of(bytes + sizeof(Struct), bytes + size, [](unsigned char b) { return b != 0; }))
    return error(xylInvalidArgument,
                 "%s->size is %zu, but this library knows only the first %zu bytes, and those behind are not zero",
                 name, size, sizeof(Struct));
  std::memcpy(&out, given, sizeof(Struct));
  return {};
}

const char* name_of_pattern(int pattern) {
  static constexpr const char* names[] = {
      "xylFusedAllReduce",      "xylFusedResidualRMSNorm", "xylFusedFp8Static",         "xylFusedFp8PerToken",
      "xylFusedFp8PerGroup128", "xylFusedNvfp4Linear",     "xylFusedNvfp4Swizzled128x4"};
  return names[pattern];
}

result check_kind(const arguments& a) {
  const int number = number_of(a.pattern), type_number = number_of(a.type),
            weight_number = number_of(a.weight_type);
  if (number < xylFusedAllReduce || number > xylFusedNvfp4Swizzled128x4)
    return error(xylInvalidArgument, "%d is not a pattern (xylFusedPattern_t)", number);
  const auto pattern = static_cast<fused_pattern>(number);
  const type_facts* const type = facts_of(type_number);
  if (type_number != xylFloat16 && type_number != xylBfloat16 && type_number != xylFloat32)
    return error(xylInvalidArgument, "type is %s; the fused allreduce takes float16, bfloat16 and float32",
                 type ? type->name : "no data type");
  if (is_nvfp4(pattern) && a.type == xylFloat32)
    return error(
        xylInvalidArgument,
        "%s cannot quantise float32: NVFP4 is made from norms that are rounded to float16 or bfloat16; use one "
        "of these types, or an FP8 pattern",
        name_of_pattern(a.pattern));
  if (pattern != fused_pattern::all_reduce && weight_number != xylFloat32 && weight_number != type_number) {
    const type_facts* const weight = facts_of(weight_number);
    return error(xylInvalidArgument, "weight_type is %s; it must be float32 or, like the activations, %s",
                 weight ? weight->name : "no data type", type->name);
  }
  if (pattern != fused_pattern::all_reduce && !(a.eps >= 0 && std::isfinite(a.eps)))
    return error(xylInvalidArgument, "eps is %g; it must be finite and not negative", static_cast<double>(a.eps));
  return {};
}

result check_shape(const arguments& a) {
  const auto pattern = static_cast<fused_pattern>(a.pattern);
  const unsigned width = std::max(8u, scale_width(pattern));
  if (a.hidden < 8 || a.hidden > most_hidden)
    return error(xylInvalidArgument, "hidden is %zu; rows of 8 to %u elements can be normalised", a.hidden,
                 most_hidden);
  if (a.hidden % width != 0)
    return error(xylInvalidArgument, "hidden is %zu; %s needs a multiple of %u", a.hidden,
                 name_of_pattern(a.pattern), width);
  // No element is larger than four bytes.
  if (a.tokens > PTRDIFF_MAX / 4 / a.hidden)
    return error(xylInvalidArgument, "%zu tokens of %zu elements exceed the address space (negative number?)",
                 a.tokens, a.hidden);
  return {};
}

// A pointer must be given, must not be, or may.
enum class presence { needed, refused, optional };

result check_presence(const arguments& a, bool is_moe) {
  const auto pattern = static_cast<fused_pattern>(a.pattern);
  const bool norm = pattern != fused_pattern::all_reduce, quant = quantises(pattern);
  const bool scales = quant && pattern != fused_pattern::fp8_static;
  const bool scale = pattern == fused_pattern::fp8_static || is_nvfp4(pattern);
  const struct {
    const char* name;
    const void* pointer;
    presence wanted;
    const char* what;
  } list[] = {
      {"input", a.input, is_moe ? presence::optional : presence::needed, "this rank's addend"},
      {"residual", a.residual, norm ? presence::optional : presence::refused, "residual"},
      {"weight", a.weight, norm ? presence::needed : presence::optional, "the weights of the norm"},
      {"scale", a.scale, scale ? presence::needed : presence::optional, "the scale to quantise with"},
      {"output", a.output, quant ? presence::optional : presence::needed, norm ? "the norm" : "the sum"},
      {"residual_out", a.residual_out, norm ? presence::optional : presence::refused, "residual"},
      {"quantised", a.quantised, quant ? presence::needed : presence::refused, "quantised values"},
      {"scales", a.scales, scales ? presence::needed : presence::refused, "scales to give back"},
  };
  for (const auto& one : list) {
    if (one.wanted == presence::needed && one.pointer == nullptr && a.tokens > 0)
      return error(xylInvalidArgument, "%s is NULL; %s needs it: %s", one.name, name_of_pattern(a.pattern),
                   one.what);
    if (one.wanted == presence::refused && one.pointer != nullptr)
      return error(xylInvalidArgument, "%s is given, but %s has no %s; set it to NULL", one.name,
                   name_of_pattern(a.pattern), one.what);
  }
  if (a.residual_sharded && !norm)
    return error(xylInvalidArgument, "residual_sharded is set, but %s has no residual", name_of_pattern(a.pattern));
  return {};
}

result check_mixture(const arguments& a, const xylMoeReduceArgs_t& m) {
  if (m.experts_per_token < 1 || m.experts_per_token > most_experts)
    return error(xylInvalidArgument, "experts_per_token is %zu; 1 to %llu are possible", m.experts_per_token,
                 static_cast<unsigned long long>(most_experts));
  if (m.expert_rows > INT32_MAX)
    return error(xylInvalidArgument, "expert_rows is %zu; it must be below 2^31", m.expert_rows);
  if (a.tokens > PTRDIFF_MAX / 4 / most_experts)
    return error(xylInvalidArgument, "%zu tokens of %zu experts exceed the address space (negative number?)",
                 a.tokens, m.experts_per_token);
  if (a.tokens == 0) return {};
  if (m.weights == nullptr)
    return error(xylInvalidArgument, "weights is NULL; every expert row is multiplied by one");
  if (m.expert_output == nullptr && m.expert_rows > 0)
    return error(xylInvalidArgument, "expert_output is NULL, but expert_rows is %zu", m.expert_rows);
  if (m.rows == nullptr && m.expert_rows != m.experts_per_token * a.tokens)
    return error(xylInvalidArgument,
                 "expert_rows is %zu; without `rows` each token has its %zu, which is %zu for %zu tokens",
                 m.expert_rows, m.experts_per_token, m.experts_per_token * a.tokens, a.tokens);
  return {};
}

result check_buffers(const fused_request& r) {
  for (unsigned i = 0; i < r.count_of_buffers; ++i)
    if (const fused_request::buffer& b = r.buffers[i]; !is_aligned(b.begin, b.alignment))
      return error(xylInvalidArgument, "%s is not aligned to %u bytes", b.name, b.alignment);
  for (unsigned i = 0; i < r.count_of_buffers; ++i)
    for (unsigned k = 0; k < r.count_of_buffers; ++k) {
      const fused_request::buffer &out = r.buffers[i], &other = r.buffers[k];
      if (i == k || !out.is_output || (other.is_output && k < i)) continue;
      const auto a = reinterpret_cast<std::uintptr_t>(out.begin), b = reinterpret_cast<std::uintptr_t>(other.begin);
      if (a >= b + other.bytes || b >= a + out.bytes) continue;
      if (a == b && !other.is_output && out.may_be_in_place && other.may_be_in_place) continue;
      return error(xylInvalidArgument,
                   "%s and %s overlap; only output and residual_out may lie in place of input or residual, exactly",
                   out.name, other.name);
    }
  return {};
}

// Rows are read 16 bytes at a time; they may be worked on in place.
void add_rows(fused_request& r, const char* name, const void* begin, std::uint64_t bytes, bool is_output,
              bool in_place = true) {
  if (begin != nullptr && bytes != 0)
    r.buffers[r.count_of_buffers++] = {name, begin, bytes, 16, is_output, in_place};
}
void add_numbers(fused_request& r, const char* name, const void* begin, std::uint64_t count, unsigned bytes,
                 bool is_output = false) {
  if (begin != nullptr && count != 0)
    r.buffers[r.count_of_buffers++] = {name, begin, count * bytes, bytes, is_output, false};
}

}  // namespace

void fused_request::describe(call_record& record) const {
  std::uint32_t eps_bits;
  std::memcpy(&eps_bits, &work.eps, sizeof eps_bits);
  const std::uint32_t flags[] = {work.output != nullptr,
                                 work.residual_out != nullptr,
                                 work.residual != nullptr,
                                 work.weight_is_float,
                                 work.gemma,
                                 work.residual_sharded,
                                 work.experts != 0,
                                 work.expert_row != nullptr,
                                 work.input != nullptr};
  record.what = collective::fused_all_reduce;
  record.type = static_cast<std::uint8_t>(type);
  record.operation = static_cast<std::uint8_t>(work.pattern);
  record.root = work.experts << 16;
  for (std::uint32_t i = 0; i < sizeof flags / sizeof *flags; ++i) record.root |= flags[i] << i;
  record.count = work.tokens;
  record.more = std::uint64_t{work.hidden} << 32 | eps_bits;
}

result read_fused_arguments(const xylAllReduceRMSNormArgs_t* args, const xylMoeReduceArgs_t* moe, bool is_moe,
                            fused_request& out) {
  arguments a;
  xylMoeReduceArgs_t m{};
  XYL_TRY(read_structure(args, "args", a));
  if (is_moe) XYL_TRY(read_structure(moe, "moe", m));
  XYL_TRY(check_kind(a));
  XYL_TRY(check_shape(a));
  XYL_TRY(check_presence(a, is_moe));
  if (is_moe) XYL_TRY(check_mixture(a, m));

  out = {};
  out.type = static_cast<int>(a.type);
  out.element_bytes = facts_of(out.type)->bytes;
  fused_work& w = out.work;
  w.pattern = static_cast<fused_pattern>(a.pattern);
  w.input = static_cast<const std::byte*>(a.input);
  w.residual = static_cast<const std::byte*>(a.residual);
  w.weight = static_cast<const std::byte*>(a.weight);
  w.scale = w.pattern == fused_pattern::fp8_static || is_nvfp4(w.pattern) ? a.scale : nullptr;
  w.output = static_cast<std::byte*>(a.output);
  w.residual_out = static_cast<std::byte*>(a.residual_out);
  w.quantised = static_cast<std::byte*>(a.quantised);
  w.scales = static_cast<std::byte*>(a.scales);
  w.expert_output = static_cast<const std::byte*>(m.expert_output);
  w.expert_row = m.rows;
  w.expert_weight = m.weights;
  w.experts = static_cast<std::uint32_t>(m.experts_per_token);
  w.expert_rows = static_cast<std::uint32_t>(m.expert_rows);
  w.tokens = a.tokens;
  w.hidden = static_cast<std::uint32_t>(a.hidden);
  w.inverse_hidden = 1.0f / static_cast<float>(w.hidden);
  w.eps = w.pattern == fused_pattern::all_reduce ? 0 : a.eps;
  w.weight_is_float = w.pattern != fused_pattern::all_reduce && a.weight_type == xylFloat32;
  w.gemma = a.gemma_style != 0;
  w.residual_sharded = a.residual_sharded != 0;

  const std::uint64_t rows = a.tokens * a.hidden * out.element_bytes;
  const std::uint64_t scales = w.pattern == fused_pattern::nvfp4_swizzled
                                   ? (a.tokens + 127) / 128 * ((a.hidden + 63) / 64) * 512
                                   : a.tokens * w.scales_of_row();
  add_rows(out, "input", w.input, rows, false);
  add_rows(out, "residual", w.residual, rows, false);
  if (w.pattern != fused_pattern::all_reduce)
    add_rows(out, "weight", w.weight, a.hidden * (w.weight_is_float ? 4 : out.element_bytes), false, false);
  add_numbers(out, "scale", w.scale, 1, 4);
  add_rows(out, "output", w.output, rows, true);
  add_rows(out, "residual_out", w.residual_out, rows, true);
  add_rows(out, "quantised", w.quantised, a.tokens * w.quantised_bytes_of_row(), true, false);
  add_numbers(out, "scales", w.scales, scales, static_cast<unsigned>(w.scale_bytes()), true);
  if (is_moe) {
    add_rows(out, "expert_output", w.expert_output, m.expert_rows * a.hidden * out.element_bytes, false, false);
    add_numbers(out, "rows", w.expert_row, a.tokens * w.experts, 4);
    add_numbers(out, "weights", w.expert_weight, a.tokens * w.experts, 4);
  }
  return check_buffers(out);
}

}  // namespace xyl
