// SPDX-License-Identifier: BSD-3-Clause
#include "peer/rendezvous_id.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <string>

namespace xyl {
namespace {

network_address v4(const char* text, int port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  EXPECT_EQ(::inet_pton(AF_INET, text, &a.sin_addr), 1);
  network_address made(a);
  made.set_port(static_cast<std::uint16_t>(port));
  return made;
}

network_address v6(const char* text, int port, std::uint32_t scope = 0) {
  sockaddr_in6 a{};
  a.sin6_family = AF_INET6;
  EXPECT_EQ(::inet_pton(AF_INET6, text, &a.sin6_addr), 1);
  a.sin6_scope_id = scope;
  network_address made(a);
  made.set_port(static_cast<std::uint16_t>(port));
  return made;
}

TEST(rendezvous_id, arrives_as_it_was_made) {
  rendezvous_id id, read;
  ASSERT_TRUE(rendezvous_id::make(id).ok());
  id.addresses = {v4("192.0.2.7", 4711), v6("2001:db8::7", 65535), v6("fe80::1", 1, 3), v4("127.0.0.1", 80)};
  ASSERT_TRUE(id.fits());
  const result r = rendezvous_id::unpack(id.pack(), read);
  ASSERT_TRUE(r.ok()) << r.text();
  EXPECT_EQ(read.secret, id.secret);
  EXPECT_EQ(read.machine, id.machine);
  EXPECT_EQ(read.process, id.process);
  ASSERT_EQ(read.addresses.size(), id.addresses.size());
  for (std::size_t i = 0; i < id.addresses.size(); ++i) EXPECT_EQ(read.addresses[i].text(), id.addresses[i].text());
  EXPECT_EQ(read.addresses[2].v6().sin6_scope_id, 3u);
  EXPECT_EQ(read.addresses[1].text(), "[2001:db8::7]:65535");
}

TEST(rendezvous_id, has_another_secret_each_time) {
  rendezvous_id one, two;
  ASSERT_TRUE(rendezvous_id::make(one).ok());
  ASSERT_TRUE(rendezvous_id::make(two).ok());
  EXPECT_NE(one.secret, two.secret);
  EXPECT_EQ(one.machine, two.machine);
}

TEST(rendezvous_id, keeps_the_best_addresses_and_the_last) {
  rendezvous_id id, read;
  ASSERT_TRUE(rendezvous_id::make(id).ok());
  for (int i = 0; i < 9; ++i) id.addresses.push_back(v6(("2001:db8::" + std::to_string(i)).c_str(), i + 1));
  id.addresses.push_back(v4("127.0.0.1", 99));
  EXPECT_FALSE(id.fits());
  id.fit();
  EXPECT_TRUE(id.fits());
  ASSERT_TRUE(rendezvous_id::unpack(id.pack(), read).ok());
  ASSERT_EQ(read.addresses.size(), 5u);
  EXPECT_EQ(read.addresses[0].text(), "[2001:db8::]:1");
  EXPECT_EQ(read.addresses[3].text(), "[2001:db8::3]:4");
  EXPECT_EQ(read.addresses[4].text(), "127.0.0.1:99");
}

TEST(rendezvous_id, of_other_bytes_is_refused) {
  rendezvous_id id, read;
  ASSERT_TRUE(rendezvous_id::make(id).ok());
  id.addresses = {v4("192.0.2.7", 4711)};
  const unique_id_bytes right = id.pack();
  for (std::size_t bit = 0; bit < 8 * right.size(); ++bit) {
    unique_id_bytes other = right;
    other[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    EXPECT_EQ(rendezvous_id::unpack(other, read).code(), xylInvalidArgument) << bit;
  }
  for (std::size_t kept = 0; kept < right.size() - 8; ++kept) {
    unique_id_bytes cut{};
    std::copy(right.begin(), right.begin() + static_cast<std::ptrdiff_t>(kept), cut.begin());
    EXPECT_EQ(rendezvous_id::unpack(cut, read).code(), xylInvalidArgument) << kept;
  }
  EXPECT_TRUE(read.addresses.empty());
}

}  // namespace
}  // namespace xyl
