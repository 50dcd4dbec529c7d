// SPDX-License-Identifier: BSD-3-Clause
//
// The operations that a communicator was asked for: a sum of inputs that each rank first multiplies by a scalar of
// its own. To the protocols it is a sum whose input was scaled beforehand, into memory that no peer writes: the
// part of this rank's workspace that is meant for data from itself.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "comm/request.hpp"
#include "exec/host_scale.hpp"

namespace xyl {

// What a reduction does, once the ABI's code was looked up.
struct chosen_operation {
  int combining = 0;          // xylSum for averages and created operations
  int recorded = 0;           // in the call_record: all ranks' must be equal
  std::uint32_t divisor = 1;  // of an average
  std::optional<scaling> scale;
};

// call_record::operation of all created ones: scalars and numbers may differ among the ranks.
inline constexpr int premultiplied_sum = 200;

// "sum", "premulsum"; never null.
const char* describe_operation(int recorded);

class created_operations {
 public:
  // The code of the new operation.
  result create(const scaling& s, int& op);
  result destroy(int op);
  // The operation of a reduction that check_arguments() has let through.
  result choose(const request& r, int ranks, chosen_operation& out) const;

 private:
  std::vector<std::optional<scaling>> all_;  // by code
};

}  // namespace xyl
