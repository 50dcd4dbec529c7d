// SPDX-License-Identifier: BSD-3-Clause
//
// The addresses under which other processes may reach this machine, most promising first: what leads out of the
// machine before bridges of containers and virtual machines, those before addresses of one link only, and loopback
// last. Which interfaces count can be chosen by name.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace xyl {

// An IPv4 or IPv6 address with a port.
class network_address {
 public:
  network_address() = default;
  explicit network_address(const sockaddr_in& v4) { bytes_.v4 = v4; }
  explicit network_address(const sockaddr_in6& v6) { bytes_.v6 = v6; }

  int family() const { return bytes_.any.sa_family; }
  bool is_v4() const { return family() == AF_INET; }
  const sockaddr* data() const { return &bytes_.any; }
  socklen_t size() const { return is_v4() ? sizeof bytes_.v4 : sizeof bytes_.v6; }
  const sockaddr_in& v4() const { return bytes_.v4; }
  const sockaddr_in6& v6() const { return bytes_.v6; }

  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  bool is_loopback() const;
  bool is_link_local() const;
  // "192.0.2.7:4711", "[2001:db8::7]:4711"
  std::string text() const;

 private:
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  } bytes_{};
};

struct network_interface {
  std::string name;
  network_address address;
};

// Addresses of the interfaces that are up, as the system lists them. Ports are 0.
result list_interfaces(std::vector<network_interface>& out);

// Best first, and of those, what `selection` allows: interface names by their beginnings, separated by commas; "="
// in front: whole names; "^" in front: all but these. Empty: all. No choice left is xylInvalidUsage.
result order_addresses(std::vector<network_interface> all, std::string_view selection,
                       std::vector<network_address>& out);

}  // namespace xyl
