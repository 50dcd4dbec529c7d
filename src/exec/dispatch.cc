// SPDX-License-Identifier: BSD-3-Clause
#include "exec/dispatch.hpp"

namespace xyl {

const type_facts* facts_of(int type) {
  static constexpr type_facts facts[element_types::size] = {
      {"int8", 1, true},        {"uint8", 1, true},      {"int16", 2, true},    {"uint16", 2, true},
      {"int32", 4, true},       {"uint32", 4, true},     {"int64", 8, true},    {"uint64", 8, true},
      {"float16", 2, false},    {"bfloat16", 2, false},  {"float32", 4, false}, {"float64", 8, false},
      {"float8e4m3", 1, false}, {"float8e5m2", 1, false}};
  const int index = element_types::index_of(type);
  return index < 0 ? nullptr : &facts[index];
}

const char* name_of_operation(int op) {
  switch (op) {
    case xylSum:
      return "sum";
    case xylProd:
      return "prod";
    case xylMax:
      return "max";
    case xylMin:
      return "min";
    case xylAvg:
      return "avg";
    case xylBitAnd:
      return "and";
    case xylBitOr:
      return "or";
    case xylBitXor:
      return "xor";
    default:
      return nullptr;
  }
}

}  // namespace xyl
