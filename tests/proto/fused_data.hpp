// SPDX-License-Identifier: BSD-3-Clause
//
// One rank's buffers for a fused call, filled, and what became of them. Outputs begin as a pattern of bytes, so
// that what was not written shows.
#pragma once

#include <algorithm>

#include "proto/fused_reference.hpp"
#include "proto/space.hpp"

namespace xyl::test {

// Bytes, aligned as a caller's must be, with a guard behind them.
class aligned_bytes {
 public:
  static constexpr unsigned char filling = 0xa5;
  explicit aligned_bytes(std::size_t bytes = 0) : bytes_(bytes), storage_((bytes + 15) / 16 + 4) {
    std::memset(storage_.data(), filling, storage_.size() * 16);
  }
  unsigned char* data() { return reinterpret_cast<unsigned char*>(storage_.data()); }
  const unsigned char* data() const { return reinterpret_cast<const unsigned char*>(storage_.data()); }
  std::byte* raw() { return reinterpret_cast<std::byte*>(storage_.data()); }
  std::size_t size() const { return bytes_; }
  std::size_t allocated() const { return storage_.size() * 16; }  // guard included
  template <class T>
  std::vector<T> row(std::uint64_t number, std::size_t elements) const {
    std::vector<T> out(elements);
    std::memcpy(out.data(), data() + number * elements * sizeof(T), elements * sizeof(T));
    return out;
  }
  bool untouched_from(std::size_t begin) const {
    return std::all_of(data() + begin, data() + storage_.size() * 16, [](unsigned char b) { return b == filling; });
  }
  friend bool operator==(const aligned_bytes& a, const aligned_bytes& b) {
    return a.bytes_ == b.bytes_ && std::memcmp(a.data(), b.data(), a.bytes_) == 0;
  }

 private:
  std::size_t bytes_;
  std::vector<unit16> storage_;
};

// Whether the call can be done in this form.
inline bool goes_in(fused_form form, const fused_case& f) {
  if (f.residual_sharded && !uses_shares(form)) return false;
  if (pulls(form) && f.experts != 0) return false;
  return form != fused_form::one_shot_pull || !f.in_place;
}

inline std::uint64_t share_of(std::uint64_t tokens, int ranks) {
  return (tokens + static_cast<unsigned>(ranks) - 1) / static_cast<unsigned>(ranks);
}

template <class T>
struct fused_data {
  fused_case f;
  int rank, ranks;
  aligned_bytes input, residual, weight, scale, output, residual_out, quantised, scales;
  aligned_bytes expert_output, expert_row, expert_weight;

  bool has_residual() const { return f.with_residual && f.pattern != fused_pattern::all_reduce; }
  bool is_mine(std::uint64_t token) const {
    return token / share_of(f.tokens, ranks) == static_cast<std::uint64_t>(rank);
  }
  float scale_value() const { return f.pattern == fused_pattern::fp8_static ? 0.0173f : 311.5f; }
  std::uint64_t scale_bytes() const {
    const std::uint64_t hidden = f.hidden;
    switch (f.pattern) {
      case fused_pattern::fp8_per_token:
        return f.tokens * 4;
      case fused_pattern::fp8_per_group:
        return f.tokens * (hidden / 128) * 4;
      case fused_pattern::nvfp4_linear:
        return f.tokens * (hidden / 16);
      case fused_pattern::nvfp4_swizzled:
        return (f.tokens + 127) / 128 * ((hidden + 63) / 64) * 512;
      default:
        return 0;
    }
  }

  fused_data(const fused_case& f, int rank, int ranks) : f(f), rank(rank), ranks(ranks) {
    const std::uint64_t elements = f.tokens * f.hidden, bytes = elements * sizeof(T);
    input = rows(f.tokens, stream_of_input(rank), false);
    if (has_residual()) residual = rows(f.tokens, stream_of_residual, f.residual_sharded);
    weight = aligned_bytes(f.hidden * (f.weight_is_float ? 4 : sizeof(T)));
    for (unsigned i = 0; i < f.hidden; ++i) {
      const float w = weight_at(i);
      if (f.weight_is_float) {
        std::memcpy(weight.data() + i * 4, &w, 4);
      } else {
        const T t = element_traits<T>::encode(w);
        std::memcpy(weight.data() + i * sizeof(T), &t, sizeof t);
      }
    }
    scale = aligned_bytes(4);
    const float s = scale_value();
    std::memcpy(scale.data(), &s, 4);
    if (f.with_output) output = aligned_bytes(bytes);
    if (f.with_residual_out && f.pattern != fused_pattern::all_reduce) residual_out = aligned_bytes(bytes);
    if (quantises(f.pattern)) quantised = aligned_bytes(is_nvfp4(f.pattern) ? elements / 2 : elements);
    scales = aligned_bytes(scale_bytes());
    if (f.experts) {
      expert_output = rows(f.tokens * f.experts, stream_of_expert(rank), false);
      expert_row = aligned_bytes(f.tokens * f.experts * 4);
      expert_weight = aligned_bytes(f.tokens * f.experts * 4);
      for (std::uint64_t t = 0; t < f.tokens; ++t)
        for (unsigned k = 0; k < f.experts; ++k) {
          const std::int32_t row = expert_row_of(f, rank, t, k);
          const float w = expert_weight_of(f, rank, t, k);
          std::memcpy(expert_row.data() + (t * f.experts + k) * 4, &row, 4);
          std::memcpy(expert_weight.data() + (t * f.experts + k) * 4, &w, 4);
        }
    }
  }

  // As a number of the weight's own type.
  float weight_at(unsigned i) const {
    const float w = decoded(fused_value<float>(f.seed + 1, stream_of_weight, 3, i));
    return f.weight_is_float ? w : decoded(element_traits<T>::encode(w));
  }

  std::byte* output_buffer() { return !f.with_output ? nullptr : f.in_place ? input.raw() : output.raw(); }
  std::byte* residual_out_buffer() {
    return !residual_out.size() ? nullptr : f.in_place && has_residual() ? residual.raw() : residual_out.raw();
  }
  const aligned_bytes& output_rows() const { return f.in_place ? input : output; }
  const aligned_bytes& residual_rows() const { return f.in_place && has_residual() ? residual : residual_out; }

  // "" or what is wrong. Costs time: once per case is enough, other ranks are compared with this one.
  std::string check() const {
    std::vector<float> w(f.hidden);
    for (unsigned i = 0; i < f.hidden; ++i) w[i] = weight_at(i);
    const auto fail = [&](std::uint64_t t, const std::string& what) {
      return "row " + std::to_string(t) + " on rank " + std::to_string(rank) + ": " + what;
    };
    for (std::uint64_t t = 0; t < f.tokens; ++t) {
      std::vector<T> r(f.hidden);
      for (unsigned i = 0; i < f.hidden; ++i) r[i] = residual_of<T>(f, ranks, t, i);
      const auto same = [&](const std::vector<T>& a) {
        return std::memcmp(a.data(), r.data(), r.size() * sizeof(T)) == 0;
      };
      if (f.pattern == fused_pattern::all_reduce) {
        if (!same(output_rows().template row<T>(t, f.hidden))) return fail(t, "wrong sum");
        continue;
      }
      if (residual_out.size() && (!f.residual_sharded || is_mine(t)) &&
          !same(residual_rows().template row<T>(t, f.hidden)))
        return fail(t, "wrong residual");
      if (!f.with_output) continue;
      const std::vector<T> norm = output_rows().template row<T>(t, f.hidden);
      if (const std::string wrong = norm_error(f, r, w, norm); !wrong.empty()) return fail(t, wrong);
      if (!quantises(f.pattern)) continue;
      const quantised_row q = quantised_reference(f.pattern, norm, scale_value());
      if (std::memcmp(quantised.data() + t * q.values.size(), q.values.data(), q.values.size()) != 0)
        return fail(t, "wrong quantised values");
      const unsigned size = is_nvfp4(f.pattern) ? 1 : 4;
      for (std::size_t k = 0; k < q.scales.size() / size; ++k)
        if (std::memcmp(scales.data() + place_of_scale(t, k, q.scales.size() / size) * size,
                        q.scales.data() + k * size, size) != 0)
          return fail(t, "wrong scale " + std::to_string(k));
    }
    return "";
  }

  // Guards, and rows that this rank must not touch.
  std::string check_untouched() const {
    for (const aligned_bytes* b : {&input, &residual, &weight, &output, &residual_out, &quantised, &scales})
      if (!b->untouched_from(b->size())) return "bytes behind a buffer were written";
    if (f.residual_sharded && residual_out.size() && !f.in_place)
      for (std::uint64_t t = 0; t < f.tokens; ++t)
        for (std::size_t i = 0; i < f.hidden * sizeof(T) && !is_mine(t); ++i)
          if (residual_out.data()[t * f.hidden * sizeof(T) + i] != aligned_bytes::filling)
            return "a residual row of another rank was written";
    return "";
  }

  // f(buffer) for each of them.
  template <class Each>
  void for_each_buffer(Each f) {
    for (aligned_bytes* b : {&input, &residual, &weight, &scale, &output, &residual_out, &quantised, &scales,
                             &expert_output, &expert_row, &expert_weight})
      f(*b);
  }

  // What is to be equal on all ranks and in all forms.
  bool same_outputs(const fused_data& other) const {
    return (!f.with_output || output_rows() == other.output_rows()) && quantised == other.quantised &&
           scales == other.scales &&
           (f.residual_sharded || residual_out.size() == 0 || residual_rows() == other.residual_rows());
  }

 private:
  // The row-major place, or its place in tiles: written out as a tensor of [tile of rows][tile of
  // blocks][32][4][4].
  std::size_t place_of_scale(std::uint64_t t, std::size_t k, std::size_t per_row) const {
    if (f.pattern != fused_pattern::nvfp4_swizzled) return t * per_row + k;
    const std::size_t tiles = (f.hidden + 63) / 64;
    const std::size_t tile = t / 128 * tiles + k / 4;
    return ((tile * 32 + t % 32) * 4 + t % 128 / 32) * 4 + k % 4;
  }
  aligned_bytes rows(std::uint64_t count, std::uint64_t stream, bool only_mine) const {
    aligned_bytes out(count * f.hidden * sizeof(T));
    for (std::uint64_t t = 0; t < count; ++t)
      for (unsigned i = 0; i < f.hidden; ++i) {
        if (only_mine && !is_mine(t)) continue;  // stays a pattern that must not be used
        const T x = fused_value<T>(f.seed, stream, t, i);
        std::memcpy(out.data() + (t * f.hidden + i) * sizeof(T), &x, sizeof x);
      }
    return out;
  }
};

}  // namespace xyl::test
