// SPDX-License-Identifier: BSD-3-Clause
// JSON that may be hostile, through nlohmann-json: bounded in size and depth, and every key asked for or refused.
// Nothing here throws; a mistake is said with the place where it is ("pairs[2].write").
#pragma once

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace xyl::topo {

using json = nlohmann::ordered_json;

inline constexpr std::size_t json_limit = std::size_t{4} << 20;  // bytes

[[nodiscard]] result read_json(std::string_view text, json& out);

// An error about an element of a list of the outermost object ("pairs[2].write is -1; ...") with the line where
// that element begins in front.
[[nodiscard]] result with_line(std::string_view text, const result& r);

// where names the value in errors.
[[nodiscard]] result expect_object(const json& value, const std::string& where,
                                   std::initializer_list<std::string_view> keys);
[[nodiscard]] result expect_array(const json& value, const std::string& where);
[[nodiscard]] result take_text(const json& object, const char* key, const std::string& where, std::string& out);
// Finite and within least to most.
[[nodiscard]] result take_number(const json& object, const char* key, const std::string& where, double least,
                                 double most, double& out);
[[nodiscard]] result take_whole(const json& object, const char* key, const std::string& where, std::uint64_t most,
                                std::uint64_t& out);
[[nodiscard]] result take_switch(const json& object, const char* key, const std::string& where,
                                 std::optional<bool>& out);

}  // namespace xyl::topo
