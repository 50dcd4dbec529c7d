// SPDX-License-Identifier: BSD-3-Clause
//
// The loops of host_reduction.hpp. This file is compiled once per instruction set, with XYLEM_ISA naming it; the
// code is the same and the compiler vectorises it for what it was given. Everything has internal linkage but the
// table: an inline function shared with another object could otherwise carry this object's instructions there.
#include <cstring>
#include <type_traits>

#include "exec/host_reduction_tables.hpp"

namespace xyl {
namespace {

// Accumulators of one piece stay in the first-level cache.
constexpr std::size_t piece = 512;

template <class T, class Operation>
struct loops {
  using A = typename element_traits<T>::accumulator;

  static void reduce(void* destination, void* also, const void* const* sources, int count_of_sources,
                     std::size_t elements, std::uint32_t divisor) {
    T *const out = static_cast<T*>(destination), *const copy = static_cast<T*>(also);
    if (count_of_sources == 2 && divisor == 1) {
      const T *const a = static_cast<const T*>(sources[0]), *const b = static_cast<const T*>(sources[1]);
      if (copy == nullptr)
        pair(out, a, b, elements);
      else
        pair(out, copy, a, b, elements);
      return;
    }
    for (std::size_t at = 0; at < elements; at += piece) {
      const std::size_t n = elements - at < piece ? elements - at : piece;
      several(out, sources, count_of_sources, at, n, divisor);
      if (copy != nullptr) std::memcpy(copy + at, out + at, n * sizeof(T));
    }
  }

 private:
  static void pair(T* out, const T* a, const T* b, std::size_t elements) {
    // In place means the same index: no iteration depends on another.
#pragma GCC ivdep
    for (std::size_t i = 0; i < elements; ++i)
      out[i] = element_traits<T>::encode(
          Operation::combine(element_traits<T>::decode(a[i]), element_traits<T>::decode(b[i])));
  }

  static void pair(T* out, T* copy, const T* a, const T* b, std::size_t elements) {
    // The same, and nobody else looks at the copy before it is announced.
#pragma GCC ivdep
    for (std::size_t i = 0; i < elements; ++i) {
      const T combined = element_traits<T>::encode(
          Operation::combine(element_traits<T>::decode(a[i]), element_traits<T>::decode(b[i])));
      out[i] = combined;
      copy[i] = combined;
    }
  }

  static void several(T* out, const void* const* sources, int count_of_sources, std::size_t at, std::size_t n,
                      std::uint32_t divisor) {
    A sum[piece];
    const T* const first = static_cast<const T*>(sources[0]) + at;
    for (std::size_t i = 0; i < n; ++i) sum[i] = element_traits<T>::decode(first[i]);
    for (int s = 1; s < count_of_sources; ++s) {
      const T* const next = static_cast<const T*>(sources[s]) + at;
      for (std::size_t i = 0; i < n; ++i) sum[i] = Operation::combine(sum[i], element_traits<T>::decode(next[i]));
    }
    const reduction<portable_codec<T>, Operation> finishing{divisor};
    if (divisor != 1)
      for (std::size_t i = 0; i < n; ++i) sum[i] = finishing.finish(sum[i]);
    for (std::size_t i = 0; i < n; ++i) out[at + i] = element_traits<T>::encode(sum[i]);
  }
};

// Where the sign makes no difference, integers share the loops of the unsigned: a fifth of all.
template <class Operation>
inline constexpr bool looks_at_signs =
    std::is_same_v<Operation, operation::sum> ||  // an average divides
    std::is_same_v<Operation, operation::max> || std::is_same_v<Operation, operation::min>;
template <class T, class Operation>
using stand_in = typename std::conditional_t<element_traits<T>::is_integer && !looks_at_signs<Operation>,
                                             std::make_unsigned<T>, std::type_identity<T>>::type;

constexpr host_reductions make_table(instruction_set isa) {
  host_reductions table{};
  table.isa = isa;
  element_types::for_each([&](auto type, int t) {
    reduction_operations::for_each([&](auto op, int o) {
      using T = typename decltype(type)::type;
      using Operation = typename decltype(op)::type;
      if constexpr (element_traits<T>::is_integer || !decltype(op)::integers_only)
        table.function[t][o] = loops<stand_in<T, Operation>, Operation>::reduce;
    });
  });
  return table;
}

}  // namespace

template <>
const host_reductions& host_reductions_of<instruction_set::XYLEM_ISA>() {
  static constinit const host_reductions table = make_table(instruction_set::XYLEM_ISA);
  return table;
}

}  // namespace xyl
