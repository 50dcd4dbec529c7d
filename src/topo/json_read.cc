// SPDX-License-Identifier: BSD-3-Clause
// nlohmann-json's exceptions end here.
#include "topo/json_read.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "topo/xml.hpp"

namespace xyl::topo {
namespace {

constexpr int deepest = 16;

// Calls see(character, depth) for every character outside of strings; a bracket counts as outside of what it opens.
// Of anything but JSON it is a bound on what a parser opens. Ends early where see() says so.
template <typename See>
void walk(std::string_view text, See see) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
      continue;
    }
    if (c == '"') in_string = !in_string;
    const bool closes = !in_string && (c == ']' || c == '}');
    if (closes) --depth;
    if (!see(c, i, depth, in_string)) return;
    if (!in_string && (c == '[' || c == '{')) ++depth;
  }
}

std::size_t line_of(std::string_view text, std::size_t at) {
  return 1 +
         static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

// Where the text is nested too deep; npos: nowhere.
std::size_t too_deep_at(std::string_view text) {
  std::size_t found = std::string_view::npos;
  walk(text, [&](char c, std::size_t at, int depth, bool in_string) {
    if (!in_string && (c == '[' || c == '{') && depth >= deepest) found = at;
    return found == std::string_view::npos;
  });
  return found;
}

// Where the element of that number begins in the list that is the value of a key of the outermost object.
std::size_t row_at(std::string_view text, std::string_view key, std::size_t row) {
  std::size_t found = std::string_view::npos, string_begins = 0, rows = 0;
  bool was_in_string = false, in_list = false, named = false;
  walk(text, [&](char c, std::size_t at, int depth, bool in_string) {
    if (in_string && !was_in_string) string_begins = at + 1;
    if (!in_string && was_in_string && depth == 1) named = text.substr(string_begins, at - string_begins) == key;
    was_in_string = in_string;
    if (in_string) return true;
    if (in_list && depth == 1 && c == ']') return false;
    if (in_list && depth == 2 && c == ',') ++rows;
    const bool blank = c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',';
    if (in_list && depth == 2 && !blank && rows == row) {
      found = at;
      return false;
    }
    if (depth == 1 && c == '[' && named) in_list = true;
    return true;
  });
  return found;
}

result misfit(const std::string& where, const char* key, const std::string& wanted, const json& found) {
  std::string seen = found.dump(-1, ' ', true, json::error_handler_t::replace);
  return error(xylInvalidArgument, "%s.%s is %s; %s is expected", where.c_str(), key, shown(seen).c_str(),
               wanted.c_str());
}

const json* member(const json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() ? nullptr : &*at;
}

result missing(const std::string& where, const char* key) {
  return error(xylInvalidArgument, "%s has no \"%s\"", where.c_str(), key);
}

}  // namespace

result read_json(std::string_view text, json& out) {
  if (text.size() > json_limit)
    return error(xylInvalidArgument, "%zu bytes of JSON; at most %zu are read", text.size(), json_limit);
  if (const std::size_t at = too_deep_at(text); at != text.npos)
    return error(xylInvalidArgument, "line %zu: JSON nested deeper than %d", line_of(text, at), deepest);
  try {
    out = json::parse(text);
  } catch (const json::parse_error& failure) {
    // "[json.exception.parse_error.101] parse error at line 3, column 5: ..."
    const std::string_view what = failure.what();
    const std::size_t at = what.find("parse error at ");
    return error(xylInvalidArgument, "%s", shown(at == what.npos ? what : what.substr(at + 15)).c_str());
  } catch (const json::exception& failure) {
    return error(xylInvalidArgument, "%s", shown(failure.what()).c_str());
  }
  return {};
}

result with_line(std::string_view text, const result& r) {
  if (r.ok()) return {};
  // "pairs[2].write is ...": a key, and a number in brackets.
  const std::string& what = r.text();
  const std::size_t open = what.find('['), close = what.find(']', open);
  std::size_t row = 0;
  if (open == what.npos || close == what.npos ||
      std::from_chars(what.data() + open + 1, what.data() + close, row).ptr != what.data() + close)
    return error(r.code(), "%s", what.c_str());
  const std::size_t at = row_at(text, std::string_view(what).substr(0, open), row);
  if (at == text.npos) return error(r.code(), "%s", what.c_str());
  return error(r.code(), "line %zu: %s", line_of(text, at), what.c_str());
}

result expect_object(const json& value, const std::string& where, std::initializer_list<std::string_view> keys) {
  if (!value.is_object()) return error(xylInvalidArgument, "%s is not an object {...}", where.c_str());
  for (const auto& [key, unused] : value.items())
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      std::string known;
      for (std::string_view k : keys) known.append(known.empty() ? "" : ", ").append(k);
      return error(xylInvalidArgument, "%s has the unknown key \"%s\"; known are %s", where.c_str(),
                   shown(key).c_str(), known.c_str());
    }
  return {};
}

result expect_array(const json& value, const std::string& where) {
  return value.is_array() ? result() : error(xylInvalidArgument, "%s is not a list [...]", where.c_str());
}

result take_text(const json& object, const char* key, const std::string& where, std::string& out) {
  const json* value = member(object, key);
  if (!value) return missing(where, key);
  if (!value->is_string()) return misfit(where, key, "a text", *value);
  out = value->get_ref<const std::string&>();
  return {};
}

result take_number(const json& object, const char* key, const std::string& where, double least, double most,
                   double& out) {
  const json* value = member(object, key);
  if (!value) return missing(where, key);
  const double n = value->is_number() ? value->get<double>() : NAN;
  if (!std::isfinite(n) || n < least || n > most)
    return misfit(where, key, format_text("a number from %g to %g", least, most), *value);
  out = n;
  return {};
}

result take_whole(const json& object, const char* key, const std::string& where, std::uint64_t most,
                  std::uint64_t& out) {
  const json* value = member(object, key);
  if (!value) return missing(where, key);
  if (!value->is_number_unsigned() || value->get<std::uint64_t>() > most)
    return misfit(where, key, format_text("a whole number up to %llu", static_cast<unsigned long long>(most)),
                  *value);
  out = value->get<std::uint64_t>();
  return {};
}

result take_switch(const json& object, const char* key, const std::string& where, std::optional<bool>& out) {
  const json* value = member(object, key);
  if (!value) return missing(where, key);
  if (!value->is_boolean()) return misfit(where, key, "true or false", *value);
  out = value->get<bool>();
  return {};
}

}  // namespace xyl::topo
