// SPDX-License-Identifier: BSD-3-Clause
// nlohmann-json's exceptions end here.
#include "topo/json_read.hpp"

#include <algorithm>
#include <cmath>

#include "topo/xml.hpp"

namespace xyl::topo {
namespace {

constexpr int deepest = 16;

// Of text that is JSON: brackets that are not in a string. Of anything else it is a bound on what the parser opens.
int depth_of(std::string_view text) {
  int depth = 0, most = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\')
      ++i;
    else if (c == '"')
      in_string = !in_string;
    else if (!in_string && (c == '[' || c == '{'))
      most = std::max(most, ++depth);
    else if (!in_string && (c == ']' || c == '}'))
      --depth;
  }
  return most;
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
  if (depth_of(text) > deepest) return error(xylInvalidArgument, "JSON nested deeper than %d", deepest);
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
