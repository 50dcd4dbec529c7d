// SPDX-License-Identifier: BSD-3-Clause
#include "exec/host_packet.hpp"

#include "proto/packet.hpp"

namespace xyl {
namespace {

template <class T, class Operation>
bool run(host_space& s, const host_call& c, std::uint32_t divisor) {
  if (c.ranks == 2) return packet_allreduce(s, c, reduction<portable_codec<T>, Operation, 2>{divisor});
  return packet_allreduce(s, c, reduction<portable_codec<T>, Operation>{divisor});
}

struct packet_table {
  packet_function function[element_types::size][reduction_operations::size];
};

constexpr packet_table make_table() {
  packet_table table{};
  element_types::for_each([&](auto type, int t) {
    reduction_operations::for_each([&](auto op, int o) {
      using T = typename decltype(type)::type;
      if constexpr (element_traits<T>::is_integer || !decltype(op)::integers_only)
        table.function[t][o] = run<T, typename decltype(op)::type>;
    });
  });
  return table;
}

}  // namespace

packet_function host_packet_function(int type_index, int operation_index) {
  static constinit const packet_table table = make_table();
  return table.function[type_index][operation_index];
}

}  // namespace xyl
