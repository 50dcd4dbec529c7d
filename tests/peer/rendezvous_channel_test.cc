// SPDX-License-Identifier: BSD-3-Clause
//
// The proofs and the frames of a rendezvous, bit by bit: whatever is changed, repeated, cut or turned around is
// refused, and nothing that should be secret is to be seen.
#include "peer/rendezvous_channel.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "os/machine.hpp"

namespace xyl {
namespace {

using side = rendezvous_channel::side;
using arrival = rendezvous_channel::arrival;

struct meeting_of_two {
  explicit meeting_of_two(std::size_t most_bytes = 1 << 16) {
    EXPECT_TRUE(fill_random(secret.data(), secret.size()).ok());
    EXPECT_TRUE(rendezvous_greeting::make(greeting).ok());
    EXPECT_TRUE(rendezvous_hello::make(secret, greeting, 3, 8, 1'000'000'000, hello).ok());
    host = std::make_unique<rendezvous_channel>(side::host, secret, greeting, hello, most_bytes);
    guest = std::make_unique<rendezvous_channel>(side::guest, secret, greeting, hello, most_bytes);
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
  }
  ~meeting_of_two() {
    ::close(sockets[0]);
    ::close(sockets[1]);
  }
  // What the guest would send.
  std::vector<std::uint8_t> frame(frame_kind kind, const std::vector<std::uint8_t>& payload) {
    guest->queue(kind, payload);
    EXPECT_TRUE(guest->flush(sockets[1]));
    std::vector<std::uint8_t> bytes(payload.size() + 1000);
    const ssize_t n = ::recv(sockets[0], bytes.data(), bytes.size(), 0);
    EXPECT_GT(n, 0);
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    return bytes;
  }
  void deliver(const std::vector<std::uint8_t>& bytes) {
    ASSERT_EQ(::send(sockets[1], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  result take(arrival& what) { return host->receive(sockets[0], what, kind, payload); }

  hash_key secret;
  rendezvous_greeting greeting;
  rendezvous_hello hello;
  std::unique_ptr<rendezvous_channel> host, guest;
  int sockets[2];
  frame_kind kind{};
  std::vector<std::uint8_t> payload;
};

std::vector<std::uint8_t> counting(std::size_t bytes) {
  std::vector<std::uint8_t> data(bytes);
  std::iota(data.begin(), data.end(), std::uint8_t{0});
  return data;
}

TEST(rendezvous_proof, is_right_only_for_this_secret_greeting_and_word) {
  meeting_of_two m;
  EXPECT_TRUE(m.hello.proven(m.secret, m.greeting));
  const rendezvous_answer answer = rendezvous_answer::make(m.secret, m.greeting, m.hello);
  EXPECT_TRUE(answer.proven(m.secret, m.greeting, m.hello));
  for (std::size_t bit = 0; bit < 8 * sizeof m.hello; ++bit) {
    rendezvous_hello other = m.hello;
    reinterpret_cast<std::uint8_t*>(&other)[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    ASSERT_FALSE(other.proven(m.secret, m.greeting)) << bit;
    ASSERT_FALSE(answer.proven(m.secret, m.greeting, other)) << bit;
  }
  // Played again to another connection's greeting.
  rendezvous_greeting fresh;
  ASSERT_TRUE(rendezvous_greeting::make(fresh).ok());
  EXPECT_FALSE(m.hello.proven(m.secret, fresh));
  hash_key other_secret = m.secret;
  other_secret[15] ^= 1;
  EXPECT_FALSE(m.hello.proven(other_secret, m.greeting));
  EXPECT_FALSE(rendezvous_answer::refusal().proven(m.secret, m.greeting, m.hello));
}

TEST(rendezvous_frame, arrives_whole_also_in_single_bytes_and_is_not_to_be_read_on_the_way) {
  for (std::size_t bytes : {0u, 1u, 7u, 8u, 9u, 5000u}) {
    meeting_of_two m;
    const auto sent = counting(bytes);
    const auto frame = m.frame(frame_kind::data, sent);
    if (bytes >= 8) {
      EXPECT_EQ(std::search(frame.begin(), frame.end(), sent.begin(), sent.begin() + 8), frame.end());
    }
    arrival what = arrival::nothing;
    for (std::uint8_t byte : frame) {
      ASSERT_EQ(what, arrival::nothing);
      m.deliver({byte});
      ASSERT_TRUE(m.take(what).ok());
    }
    ASSERT_EQ(what, arrival::frame);
    EXPECT_EQ(m.kind, frame_kind::data);
    EXPECT_EQ(m.payload, sent);
    ::shutdown(m.sockets[1], SHUT_WR);
    ASSERT_TRUE(m.take(what).ok());
    EXPECT_EQ(what, arrival::end);
  }
}

TEST(rendezvous_frame, with_any_bit_changed_is_refused) {
  const auto sent = counting(20);
  for (std::size_t bit = 0; bit < 8 * (24 + sent.size()); ++bit) {
    meeting_of_two m;
    auto frame = m.frame(frame_kind::data, sent);
    frame[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    m.deliver(frame);
    arrival what = arrival::nothing;
    const result r = m.take(what);
    // A changed length may leave it waiting for more, but never accepted.
    ASSERT_TRUE(!r.ok() || what == arrival::nothing) << bit;
  }
}

TEST(rendezvous_frame, played_again_or_out_of_order_or_back_is_refused) {
  arrival what = arrival::nothing;
  {
    meeting_of_two m;
    const auto first = m.frame(frame_kind::data, counting(4));
    m.deliver(first);
    ASSERT_TRUE(m.take(what).ok());
    ASSERT_EQ(what, arrival::frame);
    m.deliver(first);
    EXPECT_FALSE(m.take(what).ok());
  }
  {
    meeting_of_two m;
    m.frame(frame_kind::data, counting(4));
    m.deliver(m.frame(frame_kind::data, counting(4)));
    EXPECT_FALSE(m.take(what).ok());
  }
  {
    meeting_of_two m;
    const auto own = m.frame(frame_kind::data, counting(4));
    ASSERT_EQ(::send(m.sockets[0], own.data(), own.size(), 0), static_cast<ssize_t>(own.size()));
    EXPECT_FALSE(m.guest->receive(m.sockets[1], what, m.kind, m.payload).ok());
  }
}

TEST(rendezvous_frame, that_is_too_long_is_refused_before_it_comes) {
  meeting_of_two m(100);
  auto frame = m.frame(frame_kind::data, counting(101));
  frame.resize(24);
  m.deliver(frame);
  arrival what = arrival::nothing;
  const result r = m.take(what);
  EXPECT_FALSE(r.ok());
  EXPECT_NE(r.text().find("101"), std::string::npos) << r.text();
}

}  // namespace
}  // namespace xyl
