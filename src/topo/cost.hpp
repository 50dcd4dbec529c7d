// SPDX-License-Identifier: BSD-3-Clause
// T(n) = launch + sum over phases [ rounds * (flag ways * flag + sync) + n * slope ], slope being the time per byte
// of the slowest edge, direction or capacity group (loads.hpp). Both parts of a schedule's time are constants, so
// that time rises with n, and the sizes at which schedules overtake each other follow without a search.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topo/schedule.hpp"

namespace xyl::topo {

struct line {
  double fixed_us = 0;
  double ns_per_byte = 0;
  [[nodiscard]] double us(std::uint64_t bytes) const {
    return fixed_us + ns_per_byte * static_cast<double>(bytes) / 1000;
  }
};

[[nodiscard]] line cost_of_phase(const fabric& f, const phase& p, const load_table& loads);
[[nodiscard]] line cost_of(const fabric& f, const schedule& s);

// The lower envelope of lines over sizes from 0: which line is lowest up to which size. Sizes rise and the last one
// is the largest there is. Of equal lines the first wins. Empty for no lines.
struct lowest {
  std::uint64_t up_to_bytes = 0;
  std::uint32_t index = 0;
};
[[nodiscard]] std::vector<lowest> envelope(const std::vector<line>& lines);

}  // namespace xyl::topo
