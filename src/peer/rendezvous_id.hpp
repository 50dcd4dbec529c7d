// SPDX-License-Identifier: BSD-3-Clause
//
// The 128 bytes that a program hands from one rank to the others: where the process that made them listens, and a
// random secret that every connection has to prove to know. Whoever reads them can take part; they are as private
// as the way on which the program carries them. Bytes that were cut, mixed up or made by something else are told
// from right ones without asking anybody.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/keyed_hash.hpp"
#include "base/result.hpp"
#include "os/network_address.hpp"

namespace xyl {

using unique_id_bytes = std::array<std::uint8_t, 128>;

struct rendezvous_id {
  hash_key secret{};
  std::uint64_t machine = 0;  // equal on one machine until it is started again
  std::int32_t process = 0;   // number of the process that listens, for sentences
  // In the order in which to try them. Scopes of link-local addresses are those of the machine that made the id.
  std::vector<network_address> addresses;

  static result make(rendezvous_id& out);  // with a fresh secret and no addresses
  // Drops addresses from the end, but never the last one (which is loopback if there is any), until all fit.
  void fit();
  bool fits() const;
  unique_id_bytes pack() const;
  static result unpack(const unique_id_bytes& bytes, rendezvous_id& out);
};

// For rendezvous_id::machine.
result machine_number(std::uint64_t& out);

}  // namespace xyl
