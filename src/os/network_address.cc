// SPDX-License-Identifier: BSD-3-Clause
#include "os/network_address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

namespace xyl {
namespace {

// Interfaces that lead to containers and virtual machines of this machine, by the beginnings of their names. Every
// such machine has one, often with the same address, so it says nothing about which machine is meant.
constexpr std::array inner_interfaces = {"docker", "virbr", "veth", "br-", "cni", "lxc", "lxd", "podman", "vnet"};

int rank_of(const network_interface& one) {
  if (one.address.is_loopback()) return 3;
  if (one.address.is_link_local()) return 2;
  for (const char* beginning : inner_interfaces)
    if (one.name.starts_with(beginning)) return 1;
  return 0;
}

std::vector<std::string_view> parts_of(std::string_view list) {
  std::vector<std::string_view> parts;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (comma != 0) parts.push_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return parts;
}

bool is_selected(std::string_view name, std::string_view selection) {
  const bool excluding = selection.starts_with('^');
  if (excluding) selection.remove_prefix(1);
  const bool whole = selection.starts_with('=');
  if (whole) selection.remove_prefix(1);
  const auto parts = parts_of(selection);
  const bool named = std::any_of(parts.begin(), parts.end(),
                                 [&](std::string_view p) { return whole ? name == p : name.starts_with(p); });
  return named != excluding;
}

}  // namespace

std::uint16_t network_address::port() const { return ntohs(is_v4() ? bytes_.v4.sin_port : bytes_.v6.sin6_port); }

void network_address::set_port(std::uint16_t port) {
  (is_v4() ? bytes_.v4.sin_port : bytes_.v6.sin6_port) = htons(port);
}

bool network_address::is_loopback() const {
  return is_v4() ? (ntohl(bytes_.v4.sin_addr.s_addr) >> 24) == 127 : IN6_IS_ADDR_LOOPBACK(&bytes_.v6.sin6_addr);
}

bool network_address::is_link_local() const {
  return is_v4() ? (ntohl(bytes_.v4.sin_addr.s_addr) >> 16) == 0xa9fe : IN6_IS_ADDR_LINKLOCAL(&bytes_.v6.sin6_addr);
}

std::string network_address::text() const {
  char numbers[INET6_ADDRSTRLEN] = "?";
  const void* const at = is_v4() ? static_cast<const void*>(&bytes_.v4.sin_addr) : &bytes_.v6.sin6_addr;
  ::inet_ntop(family(), at, numbers, sizeof numbers);
  return format_text(is_v4() ? "%s:%u" : "[%s]:%u", numbers, port());
}

result list_interfaces(std::vector<network_interface>& out) {
  out.clear();
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return system_error("cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(list, ::freeifaddrs);
  for (const ifaddrs* one = list; one; one = one->ifa_next) {
    if (!one->ifa_addr || !(one->ifa_flags & IFF_UP)) continue;
    if (one->ifa_addr->sa_family == AF_INET) {
      sockaddr_in v4;
      std::memcpy(&v4, one->ifa_addr, sizeof v4);
      out.push_back({one->ifa_name, network_address(v4)});
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 v6;
      std::memcpy(&v6, one->ifa_addr, sizeof v6);
      out.push_back({one->ifa_name, network_address(v6)});
    }
  }
  return {};
}

result order_addresses(std::vector<network_interface> all, std::string_view selection,
                       std::vector<network_address>& out) {
  out.clear();
  // Stable: within a class the system's order, which has each interface's main address first.
  std::stable_sort(all.begin(), all.end(), [](const network_interface& a, const network_interface& b) {
    return std::pair(rank_of(a), a.address.is_v4() ? 0 : 1) < std::pair(rank_of(b), b.address.is_v4() ? 0 : 1);
  });
  std::string names;
  for (const network_interface& one : all) {
    if (names.find(one.name) == std::string::npos) names += (names.empty() ? "" : ", ") + one.name;
    if (selection.empty() || is_selected(one.name, selection)) out.push_back(one.address);
  }
  if (!out.empty()) return {};
  if (selection.empty()) return error(xylSystemError, "no network interface of this machine has an address");
  return error(xylInvalidUsage, "XYLEM_SOCKET_IFNAME is \"%.*s\", which leaves no network interface of: %s",
               static_cast<int>(std::min<std::size_t>(selection.size(), 64)), selection.data(), names.c_str());
}

}  // namespace xyl
