// SPDX-License-Identifier: BSD-3-Clause
//
// In which order addresses are offered, and what XYLEM_SOCKET_IFNAME makes of them.
#include "os/network_address.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace xyl {
namespace {

network_interface at(const char* name, const char* address) {
  sockaddr_in a4{};
  sockaddr_in6 a6{};
  a4.sin_family = AF_INET;
  a6.sin6_family = AF_INET6;
  if (::inet_pton(AF_INET, address, &a4.sin_addr) == 1) return {name, network_address(a4)};
  EXPECT_EQ(::inet_pton(AF_INET6, address, &a6.sin6_addr), 1) << address;
  return {name, network_address(a6)};
}

const std::vector<network_interface> machine = {
    at("lo", "127.0.0.1"),         at("lo", "::1"),           at("docker0", "172.17.0.1"),
    at("virbr0", "192.168.122.1"), at("eth0", "fe80::1"),     at("eth0", "192.0.2.7"),
    at("eth0", "2001:db8::7"),     at("ib0", "198.51.100.7"), at("veth12", "169.254.0.1"),
    at("br-4f2", "172.18.0.1"),
};

std::vector<std::string> chosen(const char* selection) {
  std::vector<network_address> out;
  const result r = order_addresses(machine, selection, out);
  EXPECT_TRUE(r.ok()) << r.text();
  std::vector<std::string> texts;
  for (const network_address& one : out) texts.push_back(one.text());
  return texts;
}

using texts = std::vector<std::string>;

TEST(network_addresses, put_what_leads_out_first_and_loopback_last) {
  EXPECT_EQ(chosen(""),
            (texts{"192.0.2.7:0", "198.51.100.7:0", "[2001:db8::7]:0", "172.17.0.1:0", "192.168.122.1:0",
                   "172.18.0.1:0", "169.254.0.1:0", "[fe80::1]:0", "127.0.0.1:0", "[::1]:0"}));
}

TEST(network_addresses, are_selected_by_beginnings_whole_names_and_exclusion) {
  EXPECT_EQ(chosen("ib"), texts{"198.51.100.7:0"});
  EXPECT_EQ(chosen("=lo,ib0"), (texts{"198.51.100.7:0", "127.0.0.1:0", "[::1]:0"}));
  EXPECT_EQ(chosen("^docker,virbr,veth,br-,eth"), (texts{"198.51.100.7:0", "127.0.0.1:0", "[::1]:0"}));
  EXPECT_EQ(chosen("^=lo,docker0,virbr0,veth12,br-4f2,eth0"), texts{"198.51.100.7:0"});
}

TEST(network_addresses, with_nothing_left_are_an_error_that_lists_the_interfaces) {
  std::vector<network_address> out;
  const result r = order_addresses(machine, "=eth", out);
  EXPECT_EQ(r.code(), xylInvalidUsage);
  for (const char* part : {"=eth", "eth0, ib0, docker0, virbr0, br-4f2, veth12, lo"})
    EXPECT_NE(r.text().find(part), std::string::npos) << r.text();
  EXPECT_EQ(order_addresses({}, "", out).code(), xylSystemError);
}

TEST(network_addresses, of_this_machine_include_loopback) {
  std::vector<network_interface> all;
  ASSERT_TRUE(list_interfaces(all).ok());
  bool loopback = false;
  for (const network_interface& one : all) loopback = loopback || one.address.is_loopback();
  EXPECT_TRUE(loopback);
}

}  // namespace
}  // namespace xyl
