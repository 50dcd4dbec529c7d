// SPDX-License-Identifier: BSD-3-Clause
#include "exec/host_packet.hpp"

#include "proto/flagged.hpp"
#include "proto/two_shot_packet.hpp"

namespace xyl {
namespace {

template <class T, class Operation>
bool run(host_space& s, const host_call& c, std::uint32_t divisor) {
  if (c.ranks == 2) return packet_allreduce(s, c, reduction<portable_codec<T>, Operation, 2>{divisor});
  return packet_allreduce(s, c, reduction<portable_codec<T>, Operation>{divisor});
}

// Rarely chosen on processors: one function for any number of ranks will do.
template <class T, class Operation>
bool run_two_shot(host_space& s, const host_call& c, std::uint32_t divisor) {
  return two_shot_packet_allreduce(s, c, reduction<portable_codec<T>, Operation>{divisor});
}

template <class T, class Operation>
bool run_inline(host_space& s, const host_call& c, std::uint32_t divisor) {
  if (c.ranks == 2) return one_shot_allreduce(s, c, reduction<portable_codec<T>, Operation, 2>{divisor});
  return one_shot_allreduce(s, c, reduction<portable_codec<T>, Operation>{divisor});
}

struct packet_table {
  packet_function function[3][element_types::size][reduction_operations::size];
};

constexpr packet_table make_table() {
  packet_table table{};
  element_types::for_each([&](auto type, int t) {
    reduction_operations::for_each([&](auto op, int o) {
      using T = typename decltype(type)::type;
      if constexpr (element_traits<T>::is_integer || !decltype(op)::integers_only) {
        table.function[0][t][o] = run<T, typename decltype(op)::type>;
        table.function[1][t][o] = run_two_shot<T, typename decltype(op)::type>;
        table.function[2][t][o] = run_inline<T, typename decltype(op)::type>;
      }
    });
  });
  return table;
}

constinit const packet_table table = make_table();

}  // namespace

packet_function host_packet_function(bool two_shot, int type_index, int operation_index) {
  return table.function[two_shot][type_index][operation_index];
}

packet_function host_inline_function(int type_index, int operation_index) {
  return table.function[2][type_index][operation_index];
}

}  // namespace xyl
