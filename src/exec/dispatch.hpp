// SPDX-License-Identifier: BSD-3-Clause
//
// From the ABI's codes to types: one table of element types, one of operations. `indices` are dense, for tables of
// functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "proto/reduction.hpp"
#include "xylem/xylem.h"

namespace xyl {

template <xylDataType_t Code, class T>
struct type_entry {
  static constexpr xylDataType_t code = Code;
  using type = T;
};
template <xylRedOp_t Code, class Operation, bool IntegersOnly = false>
struct operation_entry {
  static constexpr xylRedOp_t code = Code;
  using type = Operation;
  static constexpr bool integers_only = IntegersOnly;
};

template <class... Entries>
struct entry_list {
  static constexpr int size = sizeof...(Entries);
  // The dense index of a code, -1 if the list does not have it.
  static constexpr int index_of(int code) {
    int at = 0, found = -1;
    ((found = Entries::code == code ? at : found, ++at), ...);
    return found;
  }
  template <class F>
  static constexpr void for_each(F f) {
    int at = 0;
    (f(Entries{}, at++), ...);
  }
};

using element_types = entry_list<
    type_entry<xylInt8, std::int8_t>, type_entry<xylUint8, std::uint8_t>, type_entry<xylInt16, std::int16_t>,
    type_entry<xylUint16, std::uint16_t>, type_entry<xylInt32, std::int32_t>, type_entry<xylUint32, std::uint32_t>,
    type_entry<xylInt64, std::int64_t>, type_entry<xylUint64, std::uint64_t>, type_entry<xylFloat16, float16>,
    type_entry<xylBfloat16, bfloat16>, type_entry<xylFloat32, float>, type_entry<xylFloat64, double>,
    type_entry<xylFloat8e4m3, float8_e4m3>, type_entry<xylFloat8e5m2, float8_e5m2>>;

// An average is a sum that is divided at the end (reduction::divisor).
using reduction_operations =
    entry_list<operation_entry<xylSum, operation::sum>, operation_entry<xylProd, operation::prod>,
               operation_entry<xylMax, operation::max>, operation_entry<xylMin, operation::min>,
               operation_entry<xylBitAnd, operation::bit_and, true>,
               operation_entry<xylBitOr, operation::bit_or, true>,
               operation_entry<xylBitXor, operation::bit_xor, true>>;

// Operations that a communicator was asked for: see comm/operations.hpp.
inline constexpr int first_created_operation = 1024;

constexpr xylRedOp_t without_average(xylRedOp_t op) { return op == xylAvg ? xylSum : op; }

struct type_facts {
  const char* name;
  unsigned bytes;
  bool is_integer;
};
// nullptr for a code that is not a type.
const type_facts* facts_of(int type);
// nullptr for a code that is not an operation.
const char* name_of_operation(int op);

}  // namespace xyl
