// SPDX-License-Identifier: BSD-3-Clause
//
// Data that stays in its owner's buffer until the receiver takes it from there. The owner says where it lies in a
// line beside a header, and does not return to its caller before it has been told that it was taken.
//
// The address is one of the owner's process. It is handed to the kernel together with that process, and checked
// there against that process's memory; it is never dereferenced here, so that a peer's word becomes no address of
// ours. How much is taken is this rank's own plan; the peer's number of bytes is only compared with that. Data is
// taken, never put: a rank that has given up may have freed its buffer, and while a late read of that spoils
// nothing, a late write would. Relies on a space that has
//
//   take(to, address, n, w)   copies n bytes from there in the memory of rank w.peer; false if it gave up, which it
//                             also does if the communicator went out of service meanwhile: then the owner may have
//                             returned, and the bytes be others
#pragma once

#include <concepts>

#include "proto/space.hpp"

namespace xyl {

struct offer {
  std::uint64_t address;
  std::uint64_t bytes;

  static XYL_FN offer of(const std::byte* data, std::uint64_t bytes) {
    return {static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(data)), bytes};
  }
};
static_assert(sizeof(offer) <= layout::inline_bytes());

template <class S>
concept taking_space = requires(S& s, std::byte* to, std::uint64_t address, std::uint64_t n, waiting w) {
  { s.take(to, address, n, w) } -> std::same_as<bool>;
};

// After the header beside which the offer lies was seen, and compared.
template <taking_space S>
bool take_offer(S& s, const offer& o, std::byte* to, std::uint64_t bytes, int owner) {
  const waiting w{owner, phase::taking};
  if (o.bytes != bytes) {
    s.refuse(w, bytes, o.bytes);
    return false;
  }
  return s.take(to, o.address, bytes, w);
}

}  // namespace xyl
