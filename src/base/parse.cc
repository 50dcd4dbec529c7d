// SPDX-License-Identifier: BSD-3-Clause
#include "base/parse.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace xyl {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::optional<std::uint64_t> parse_count(std::string_view text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  int shift = 0;
  if (!text.empty() && !is_digit(text.back())) {
    switch (to_lower(text.back())) {
      case 'k':
        shift = 10;
        break;
      case 'm':
        shift = 20;
        break;
      case 'g':
        shift = 30;
        break;
      default:
        return std::nullopt;
    }
    text.remove_suffix(1);
  }
  const std::optional<std::uint64_t> value = parse_count(text);
  if (!value || *value > UINT64_MAX >> shift) return std::nullopt;
  return *value << shift;
}

std::optional<std::int64_t> parse_seconds(std::string_view text) {
  // from_chars alone would also take a sign, "inf" and "nan".
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) { return is_digit(c) || c == '.'; });
  double seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, seconds, std::chars_format::fixed);
  if (!plain || error != std::errc() || stop != end || seconds > 9e9) return std::nullopt;
  return static_cast<std::int64_t>(std::llround(seconds * 1e9));
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return to_lower(x) == to_lower(y); });
}

}  // namespace xyl
