// SPDX-License-Identifier: BSD-3-Clause
//
// Names and sizes of element types and operations, as the command line and the report spell them, and which of them
// go together. The first name of each is nccl-tests' where that has one.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "xylem/xylem.h"

namespace xyl {

struct type_info {
  xylDataType_t type;
  const char* name;
  const char* other_name;  // "" where there is none
  std::size_t size;
  bool is_integer;
};

struct operation_info {
  xylRedOp_t operation;
  const char* name;
  bool integers_only;
};

std::span<const type_info> all_types();
std::span<const operation_info> all_operations();

// For values that are in the tables.
const type_info& info_of(xylDataType_t type);
const operation_info& info_of(xylRedOp_t operation);

// By any name, letters of either case.
std::optional<xylDataType_t> type_named(std::string_view name);
std::optional<xylRedOp_t> operation_named(std::string_view name);

inline bool go_together(const type_info& type, const operation_info& operation) {
  return type.is_integer || !operation.integers_only;
}

// "int8, uint8, ... or fp8_e5m2", for messages.
std::string type_list();
std::string operation_list();

}  // namespace xyl
