// SPDX-License-Identifier: BSD-3-Clause
#include "comm/operations.hpp"

#include <algorithm>

#include "exec/dispatch.hpp"

namespace xyl {

const char* describe_operation(int recorded) {
  if (recorded == premultiplied_sum) return "premulsum";
  const char* const name = name_of_operation(recorded);
  return name ? name : "?";
}

result created_operations::create(const scaling& s, int& op) {
  auto free = std::find(all_.begin(), all_.end(), std::nullopt);
  if (free == all_.end()) free = all_.emplace(all_.end());
  *free = s;
  op = first_created_operation + static_cast<int>(free - all_.begin());
  return {};
}

result created_operations::destroy(int op) {
  const auto index = static_cast<std::size_t>(op - first_created_operation);
  if (op < first_created_operation || index >= all_.size() || !all_[index])
    return error(xylInvalidArgument, "xylRedOpDestroy: %d is no operation that was created for this communicator",
                 op);
  all_[index].reset();
  return {};
}

result created_operations::choose(const request& r, int ranks, chosen_operation& out) const {
  const int op = r.op, type = r.type;
  out.combining = out.recorded = op;
  if (op < first_created_operation) {
    out.combining = without_average(static_cast<xylRedOp_t>(op));
    out.divisor = op == xylAvg ? static_cast<std::uint32_t>(ranks) : 1;
    return {};
  }
  out.combining = xylSum;
  out.recorded = premultiplied_sum;
  out.scale = r.scale;
  if (out.scale) return {};
  const auto index = static_cast<std::size_t>(op - first_created_operation);
  if (index >= all_.size() || !all_[index])
    return error(xylInvalidArgument, "%d is no operation that was created for this communicator", op);
  if (all_[index]->type != type)
    return error(xylInvalidArgument, "operation %d was created for %s, not for %s", op,
                 facts_of(all_[index]->type)->name, facts_of(type)->name);
  out.scale = all_[index];
  return {};
}

}  // namespace xyl
