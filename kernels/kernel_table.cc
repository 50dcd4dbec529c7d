// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/kernel_table.hpp"

#include <vector>

#include "kernels/arguments.hpp"
#include "kernels/kernel_family.hpp"
#include "proto/stand_in.hpp"

namespace xyl {
namespace {

struct type_entry {
  xylDataType_t type;
  std::array<kernel_family, algorithms> family;  // by algorithm
};

template <class T>
kernel_family wide_family_of() {
  if constexpr (has_own_kernels<T>)
    return wide_packet_kernels<T>();
  else
    return {};
}

template <class T>
kernel_family line_family_of() {
  if constexpr (has_own_kernels<T>)
    return line_packet_kernels<T>();
  else
    return {};
}

template <class T>
type_entry entry(xylDataType_t type) {
  const packet_families packet = packet_kernels<stand_in_of<T>>();
  const flagged_families flagged = flagged_kernels<stand_in_of<T>>();
  return {type,
          {packet.one_shot, flagged.one_shot, flagged.two_shot, flagged.ring, packet.two_shot, wide_family_of<T>(),
           line_family_of<T>()}};
}

const std::array<type_entry, 14>& table() {
  static const std::array<type_entry, 14> all = {
      entry<std::int8_t>(xylInt8),       entry<std::uint8_t>(xylUint8),     entry<std::int16_t>(xylInt16),
      entry<std::uint16_t>(xylUint16),   entry<std::int32_t>(xylInt32),     entry<std::uint32_t>(xylUint32),
      entry<std::int64_t>(xylInt64),     entry<std::uint64_t>(xylUint64),   entry<float16>(xylFloat16),
      entry<bfloat16>(xylBfloat16),      entry<float>(xylFloat32),          entry<double>(xylFloat64),
      entry<float8_e4m3>(xylFloat8e4m3), entry<float8_e5m2>(xylFloat8e5m2),
  };
  return all;
}

}  // namespace

kernel choose_kernel(algorithm how, xylDataType_t type, xylRedOp_t operation, int ranks) {
  for (const type_entry& e : table()) {
    if (e.type != type) continue;
    return choose_of(e.family[static_cast<std::size_t>(how)], operation, ranks);
  }
  return {};
}

std::span<const kernel> all_kernels() {
  static const std::vector<kernel> all = [] {
    std::vector<kernel> list;
    for (const type_entry& e : table())
      for (const kernel_family& family : e.family) list_family(family, list);
    return list;
  }();
  return all;
}

}  // namespace xyl
