// SPDX-License-Identifier: BSD-3-Clause
#include "exec/host_packet.hpp"

#include "proto/chosen_reduction.hpp"
#include "proto/packed_reduction.hpp"
#include "proto/reduce_to.hpp"
#include "proto/two_shot_packet.hpp"

namespace xyl {
namespace {

template <class Call, class R>
bool run(host_space& s, const Call& c, bool two_shot, const R& red) {
  return two_shot ? two_shot_packet_allreduce(s, c, red) : packet_allreduce(s, c, red);
}

}  // namespace

bool host_packet(host_space& s, const host_call& c, bool two_shot, int type, int operation, std::uint32_t divisor) {
  bool good = false;
  element_types::for_each([&](auto entry, int) {
    using T = typename decltype(entry)::type;
    if constexpr (!is_packed<T>)
      if (entry.code == type) good = run(s, c, two_shot, chosen_reduction<portable_codec<T>>(operation, divisor));
  });
  const type_facts& facts = *facts_of(type);
  if (facts.is_integer || type == xylFloat64) {
    call_view<host_call> in_bytes(c, c.input, c.output);
    in_bytes.count *= facts.bytes;
    good = run(s, in_bytes, two_shot, packed_reduction(operation, type, divisor));
  }
  return good;
}

}  // namespace xyl
