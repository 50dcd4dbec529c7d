// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf_reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "proto/element.hpp"
#include "tools/perf_types.hpp"

namespace xyl {
namespace {

// Bits of a value of the type, as a number that grows with the value.
std::int64_t position(xylDataType_t type, float value) {
  std::byte bytes[4] = {};
  store_activation(type, bytes, 0, value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, bytes, info_of(type).size);
  const std::uint32_t sign = type == xylFloat32 ? 0x80000000u : 0x8000u;
  const std::int64_t magnitude = bits & (sign - 1);
  return bits & sign ? -magnitude : magnitude;
}

// The nearest of 0, 0.5, 1, 1.5, 2, 3, 4 and 6, ties to the one with an even code, sign in bit 3.
std::uint8_t e2m1(float value) {
  if (std::isnan(value)) return 7;
  const float x = std::fabs(value);
  const int code = x <= 0.25f   ? 0
                   : x < 0.75f  ? 1
                   : x <= 1.25f ? 2
                   : x < 1.75f  ? 3
                   : x <= 2.5f  ? 4
                   : x < 3.5f   ? 5
                   : x <= 5.0f  ? 6
                                : 7;
  return static_cast<std::uint8_t>(code | (std::signbit(value) ? 8 : 0));
}

std::uint8_t e4m3(float value) { return static_cast<std::uint8_t>(fp8_e4m3::encode(value)); }

float largest_magnitude(std::span<const float> values) {
  float out = 0;
  for (float v : values) out = std::max(out, std::fabs(v));
  return out;
}

void append_fp8(std::span<const float> values, float scale, quantised_row& out) {
  const float factor = 1.0f / scale;
  for (float v : values) out.bytes.push_back(e4m3(v * factor));
}

void append_scaled_fp8(std::span<const float> values, quantised_row& out) {
  const float scale = std::max(largest_magnitude(values) / 448.0f, std::ldexp(1.0f, -126));
  out.scales.push_back(scale);
  append_fp8(values, scale, out);
}

void append_nvfp4(std::span<const float> values, float global, quantised_row& out) {
  const std::uint8_t code = e4m3(global * (largest_magnitude(values) * (1.0f / 6)));
  out.block_scales.push_back(code);
  const float block = fp8_e4m3::decode(code);
  const float factor = block == 0 ? 0 : global / block;
  for (std::size_t i = 0; i < values.size(); i += 2)
    out.bytes.push_back(static_cast<std::uint8_t>(e2m1(values[i] * factor) | e2m1(values[i + 1] * factor) << 4));
}

}  // namespace

float load_activation(xylDataType_t type, const std::byte* buffer, std::size_t at) {
  if (type == xylFloat32) {
    float value;
    std::memcpy(&value, buffer + 4 * at, sizeof value);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, buffer + 2 * at, sizeof bits);
  return type == xylFloat16 ? binary16::decode(bits) : bfloat16_format::decode(bits);
}

void store_activation(xylDataType_t type, std::byte* buffer, std::size_t at, float value) {
  if (type == xylFloat32) {
    std::memcpy(buffer + 4 * at, &value, sizeof value);
    return;
  }
  const std::uint16_t bits =
      static_cast<std::uint16_t>(type == xylFloat16 ? binary16::encode(value) : bfloat16_format::encode(value));
  std::memcpy(buffer + 2 * at, &bits, sizeof bits);
}

float round_activation(xylDataType_t type, float value) {
  std::byte bytes[4];
  store_activation(type, bytes, 0, value);
  return load_activation(type, bytes, 0);
}

std::int64_t steps_between(xylDataType_t type, float a, float b) {
  return std::abs(position(type, a) - position(type, b));
}

std::vector<float> sum_rows(const std::vector<std::vector<float>>& rows) {
  std::vector<float> out = rows.front();
  for (std::size_t r = 1; r < rows.size(); ++r)
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += rows[r][i];
  return out;
}

std::vector<float> add_residual(xylDataType_t type, std::span<const float> sum, std::span<const float> residual) {
  std::vector<float> out(sum.size());
  for (std::size_t i = 0; i < sum.size(); ++i) out[i] = round_activation(type, sum[i] + residual[i]);
  return out;
}

std::vector<double> norm_row(std::span<const float> row, std::span<const float> weight, double eps) {
  double squares = 0;
  for (float r : row) squares += static_cast<double>(r) * r;
  const double factor = 1 / std::sqrt(squares / static_cast<double>(row.size()) + eps);
  std::vector<double> out(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) out[i] = row[i] * factor * weight[i];
  return out;
}

// fp32: half a step for each of the products, the division, the root and, halved by the root, the additions in the
// tree; wherever numbers are rounded to 16 bits afterwards that can only tip one of them over to its neighbour.
std::int64_t norm_tolerance(xylDataType_t type) { return type == xylFloat32 ? 8 : 1; }

quantised_row quantise_row(xylFusedPattern_t pattern, std::span<const float> norm, float scale) {
  quantised_row out;
  switch (pattern) {
    case xylFusedFp8Static:
      append_fp8(norm, scale, out);
      break;
    case xylFusedFp8PerToken:
      append_scaled_fp8(norm, out);
      break;
    case xylFusedFp8PerGroup128:
      for (std::size_t i = 0; i < norm.size(); i += 128) append_scaled_fp8(norm.subspan(i, 128), out);
      break;
    case xylFusedNvfp4Linear:
    case xylFusedNvfp4Swizzled128x4:
      for (std::size_t i = 0; i < norm.size(); i += 16) append_nvfp4(norm.subspan(i, 16), scale, out);
      break;
    default:
      break;
  }
  return out;
}

std::size_t swizzled_at(std::size_t token, std::size_t block, std::size_t hidden) {
  const std::size_t column_tiles = (hidden + 63) / 64;
  return ((token / 128) * column_tiles + block / 4) * 512 + (token % 32) * 16 + (token / 32 % 4) * 4 + block % 4;
}

}  // namespace xyl
