// SPDX-License-Identifier: BSD-3-Clause
//
// Text to number, strictly: the whole text, no sign, no blanks, no locale, nothing that overflows. For environment
// variables and command lines; what was wrong is for the caller to say, who knows what is allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace xyl {

// Decimal digits.
std::optional<std::uint64_t> parse_count(std::string_view text);

// Decimal digits, then nothing or one of K, M, G (either case): times 2^10, 2^20, 2^30.
std::optional<std::uint64_t> parse_size(std::string_view text);

// Decimal digits with an optional fraction, in seconds; the result is in nanoseconds, rounded.
std::optional<std::int64_t> parse_seconds(std::string_view text);

// ASCII letters of either case are equal.
bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace xyl
