// SPDX-License-Identifier: BSD-3-Clause
//
//   [magic 8][secret 16][machine 8][process 4][addresses 84][check 8]
//
// An address is [kind 1][port 2][bytes 4 or 16][scope 4, link-local only]; kind 0 ends the list. The check is the
// keyed hash, by the secret, of all before it. Numbers are little-endian, ports and addresses as on the wire.
#include "peer/rendezvous_id.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "os/machine.hpp"

namespace xyl {
namespace {

constexpr std::uint64_t id_magic = 0x316469656d6c7978;  // "xylmeid1" in memory order; the digit is the format's
constexpr std::size_t addresses_at = 36;
constexpr std::size_t check_at = 120;
constexpr std::size_t address_bytes = check_at - addresses_at;

enum kind : std::uint8_t { end = 0, v4 = 4, v6 = 6, v6_of_link = 7 };

std::size_t size_of(const network_address& a) { return a.is_v4() ? 7 : a.is_link_local() ? 23 : 19; }

std::uint64_t check_of(const unique_id_bytes& bytes, const hash_key& secret) {
  return keyed_hash(secret, std::span(bytes).first(check_at));
}

std::uint8_t* put(std::uint8_t* at, const void* data, std::size_t bytes) {
  std::memcpy(at, data, bytes);
  return at + bytes;
}

std::uint8_t* put_address(std::uint8_t* at, const network_address& a) {
  if (a.is_v4()) {
    *at++ = v4;
    at = put(at, &a.v4().sin_port, 2);
    return put(at, &a.v4().sin_addr, 4);
  }
  *at++ = a.is_link_local() ? v6_of_link : v6;
  at = put(at, &a.v6().sin6_port, 2);
  at = put(at, &a.v6().sin6_addr, 16);
  return a.is_link_local() ? put(at, &a.v6().sin6_scope_id, 4) : at;
}

// False: the list does not end where it should. The check has been right, so this is a defect, not an attack; still
// nothing is read beyond the list.
bool take_addresses(std::span<const std::uint8_t> list, std::vector<network_address>& out) {
  while (!list.empty() && list[0] != end) {
    const std::uint8_t what = list[0];
    const std::size_t size = what == v4 ? 7 : what == v6 ? 19 : what == v6_of_link ? 23 : 0;
    if (size == 0 || size > list.size()) return false;
    if (what == v4) {
      sockaddr_in one{};
      one.sin_family = AF_INET;
      std::memcpy(&one.sin_port, &list[1], 2);
      std::memcpy(&one.sin_addr, &list[3], 4);
      out.emplace_back(one);
    } else {
      sockaddr_in6 one{};
      one.sin6_family = AF_INET6;
      std::memcpy(&one.sin6_port, &list[1], 2);
      std::memcpy(&one.sin6_addr, &list[3], 16);
      if (what == v6_of_link) std::memcpy(&one.sin6_scope_id, &list[19], 4);
      out.emplace_back(one);
    }
    list = list.subspan(size);
  }
  return !out.empty();
}

}  // namespace

result machine_number(std::uint64_t& out) {
  boot_identity boot;
  XYL_TRY(current_boot(boot));
  // A key that is no secret: the hash only makes the text short.
  constexpr hash_key key{'x', 'y', 'l', 'e', 'm', ' ', 'm', 'a', 'c', 'h', 'i', 'n', 'e'};
  out = keyed_hash(key, std::span(reinterpret_cast<const std::uint8_t*>(boot.data()), boot.size()));
  return {};
}

result rendezvous_id::make(rendezvous_id& out) {
  out = {};
  XYL_TRY(fill_random(out.secret.data(), out.secret.size()));
  XYL_TRY(machine_number(out.machine));
  out.process = static_cast<std::int32_t>(::getpid());
  return {};
}

bool rendezvous_id::fits() const {
  std::size_t bytes = 0;
  for (const network_address& a : addresses) bytes += size_of(a);
  return bytes <= address_bytes;
}

void rendezvous_id::fit() {
  while (!fits()) addresses.erase(addresses.end() - 2);
}

unique_id_bytes rendezvous_id::pack() const {
  unique_id_bytes bytes{};
  std::uint8_t* at = put(bytes.data(), &id_magic, sizeof id_magic);
  at = put(at, secret.data(), secret.size());
  at = put(at, &machine, sizeof machine);
  at = put(at, &process, sizeof process);
  for (const network_address& a : addresses) at = put_address(at, a);
  const std::uint64_t check = check_of(bytes, secret);
  std::memcpy(&bytes[check_at], &check, sizeof check);
  return bytes;
}

result rendezvous_id::unpack(const unique_id_bytes& bytes, rendezvous_id& out) {
  rendezvous_id read;
  std::uint64_t magic, check;
  std::memcpy(&magic, bytes.data(), sizeof magic);
  std::memcpy(read.secret.data(), &bytes[8], read.secret.size());
  std::memcpy(&read.machine, &bytes[24], sizeof read.machine);
  std::memcpy(&read.process, &bytes[32], sizeof read.process);
  std::memcpy(&check, &bytes[check_at], sizeof check);
  if (std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b == 0; }))
    return error(
        xylInvalidArgument,
        "the unique id is all zeros: it has to come from xylGetUniqueId on one rank, and to reach the others "
        "before they initialise");
  if (magic != id_magic)
    return error(xylInvalidArgument,
                 "the unique id was not made by this version's xylGetUniqueId (it begins with other bytes)");
  if (check != check_of(bytes, read.secret))
    return error(
        xylInvalidArgument,
        "the unique id is damaged: all its %zu bytes have to arrive as xylGetUniqueId made them (was it cut, "
        "or carried as text that ends at a zero byte?)",
        bytes.size());
  if (!take_addresses(std::span(bytes).subspan(addresses_at, address_bytes), read.addresses))
    return error(xylInvalidArgument, "the unique id holds no list of addresses");
  out = std::move(read);
  return {};
}

}  // namespace xyl
