// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf_types.hpp"

#include <algorithm>
#include <iterator>

#include "base/parse.hpp"

namespace xyl {
namespace {

constexpr type_info types[] = {
    {xylInt8, "int8", "", 1, true},
    {xylUint8, "uint8", "", 1, true},
    {xylInt16, "int16", "", 2, true},
    {xylUint16, "uint16", "", 2, true},
    {xylInt32, "int32", "", 4, true},
    {xylUint32, "uint32", "", 4, true},
    {xylInt64, "int64", "", 8, true},
    {xylUint64, "uint64", "", 8, true},
    {xylFloat16, "half", "float16", 2, false},
    {xylBfloat16, "bfloat16", "bf16", 2, false},
    {xylFloat32, "float", "float32", 4, false},
    {xylFloat64, "double", "float64", 8, false},
    {xylFloat8e4m3, "f8e4m3", "fp8_e4m3", 1, false},
    {xylFloat8e5m2, "f8e5m2", "fp8_e5m2", 1, false},
};

constexpr operation_info operations[] = {
    {xylSum, "sum", false}, {xylProd, "prod", false}, {xylMax, "max", false}, {xylMin, "min", false},
    {xylAvg, "avg", false}, {xylBitAnd, "and", true}, {xylBitOr, "or", true}, {xylBitXor, "xor", true},
};

template <class Table>
std::string list_of(const Table& table) {
  std::string text;
  for (const auto& row : table) {
    if (!text.empty()) text += &row == &table[std::size(table) - 1] ? " or " : ", ";
    text += row.name;
  }
  return text;
}

}  // namespace

std::span<const type_info> all_types() { return types; }
std::span<const operation_info> all_operations() { return operations; }

const type_info& info_of(xylDataType_t type) {
  return *std::find_if(std::begin(types), std::end(types), [&](const type_info& t) { return t.type == type; });
}

const operation_info& info_of(xylRedOp_t operation) {
  return *std::find_if(std::begin(operations), std::end(operations),
                       [&](const operation_info& o) { return o.operation == operation; });
}

std::optional<xylDataType_t> type_named(std::string_view name) {
  for (const type_info& t : types)
    if (!name.empty() && (equal_ignoring_case(name, t.name) || equal_ignoring_case(name, t.other_name)))
      return t.type;
  return std::nullopt;
}

std::optional<xylRedOp_t> operation_named(std::string_view name) {
  for (const operation_info& o : operations)
    if (equal_ignoring_case(name, o.name)) return o.operation;
  return std::nullopt;
}

std::string type_list() { return list_of(types); }
std::string operation_list() { return list_of(operations); }

}  // namespace xyl
