// SPDX-License-Identifier: BSD-3-Clause
//
// What the buffers of one call hold before it, and whether they hold the right thing after it: the output bit by
// bit, the input unchanged, and nothing written behind the end. Buffers have guard_bytes more than their elements
// need.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/perf_collective.hpp"
#include "tools/perf_data.hpp"
#include "tools/perf_rank.hpp"

namespace xyl {

inline constexpr std::size_t guard_bytes = 256;

// The repeated patterns of one check, made when they are first needed, for all ranks of a thread.
class pattern_book {
 public:
  // For a call of any of the ranks.
  pattern_book(const perf_collective& collective, const collective_call& call, std::uint64_t salt);
  // A rank, or expected_part::reduced.
  const std::vector<std::byte>& of(int source);
  std::size_t element_size() const { return element_size_; }
  std::size_t pattern_count() const { return pattern_count_; }

 private:
  data_key key_;
  std::size_t element_size_;
  std::size_t pattern_count_;
  std::map<int, std::vector<std::byte>> patterns_;
};

class buffer_check {
 public:
  buffer_check(const perf_collective& collective, const collective_call& call, perf_memory& memory,
               pattern_book& book)
      : collective_(collective), call_(call), memory_(memory), book_(book) {}

  // Input, and poison wherever there is none.
  result prepare();
  result find_wrong(fault_count& faults);

 private:
  std::size_t input_count() const { return elements_of(collective_.send, call_.count, call_.ranks); }
  std::size_t output_count() const { return elements_of(collective_.recv, call_.count, call_.ranks); }
  // Where poison starts and, behind it, the guard.
  std::byte* poisoned() const;
  std::size_t poisoned_count() const;
  result compare(const char* what, const std::byte* buffer, const std::vector<expected_part>& parts,
                 fault_count& faults);

  const perf_collective& collective_;
  const collective_call& call_;
  perf_memory& memory_;
  pattern_book& book_;
};

}  // namespace xyl
