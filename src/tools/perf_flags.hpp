// SPDX-License-Identifier: BSD-3-Clause
//
// Flags whose values are judged here rather than by CLI11, so that all of them are refused alike.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/parse.hpp"
#include "base/result.hpp"
#include "tools/perf_options.hpp"

namespace xyl {

inline constexpr std::uint64_t largest_message = 1ull << 40;

// False: the text is not what `allowed` says.
using flag_reader = std::function<bool(const std::string& text)>;
CLI::Option* add_flag(CLI::App& app, const char* flags, const char* help, std::string allowed, const char* shape,
                      flag_reader read);

CLI::Option* add_count(CLI::App& app, const char* flags, const char* help, int least, int most, int& out);
CLI::Option* add_size(CLI::App& app, const char* flags, const char* help, std::uint64_t& out);

// A name or `all`. member: what of a row of the table is meant.
template <class Value, class Table>
CLI::Option* add_names(CLI::App& app, const char* flags, const char* help, const std::string& names,
                       const char* shape, Value Table::value_type::*member, const Table& table,
                       std::optional<Value> (*named)(std::string_view), std::vector<Value>& out) {
  return add_flag(app, flags, help, "one of " + names + ", or all", shape,
                  [member, table, named, &out](const std::string& text) {
                    if (equal_ignoring_case(text, "all")) {
                      out.clear();
                      for (const auto& row : table) out.push_back(row.*member);
                      return true;
                    }
                    const std::optional<Value> value = named(text);
                    if (value) out = {*value};
                    return value.has_value();
                  });
}

// What every subcommand has: how often, how many ranks, where, and the files.
void add_common_flags(CLI::App& app, perf_options& out);

// Adds a subcommand's flags; what is returned is asked when all flags are known, and completes the options: "", or
// what contradicts what.
using contradiction = std::function<std::string()>;
contradiction add_sweep_flags(CLI::App& app, perf_options& out);
contradiction add_decode_flags(CLI::App& app, perf_options& out);
contradiction add_fused_flags(CLI::App& app, perf_options& out);

}  // namespace xyl
