// SPDX-License-Identifier: BSD-3-Clause
//
// A rendezvous among strangers: whoever connects and says nothing, something else, the right thing too slowly, or
// what it has heard before, gets nowhere and holds nobody up; and a rank that meets a stranger instead of its host
// learns so in time.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "os/machine.hpp"
#include "os/tcp_socket.hpp"
#include "peer/rendezvous_client.hpp"
#include "peer/rendezvous_server.hpp"
#include "tests/support/peer_ranks.hpp"

namespace xyl::test {
namespace {

network_address loopback(int family) {
  if (family == AF_INET) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return network_address(a);
  }
  sockaddr_in6 a{};
  a.sin6_family = AF_INET6;
  a.sin6_addr = in6addr_loopback;
  return network_address(a);
}

rendezvous_id served(int family = AF_INET) {
  rendezvous_id id;
  const result r = rendezvous_server::start({loopback(family)}, 0, id);
  EXPECT_TRUE(r.ok()) << r.text();
  return id;
}

// A connection like any stranger's: blocking, but for at most some seconds.
class stranger {
 public:
  explicit stranger(const network_address& to) : fd_(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval limit{5, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    EXPECT_EQ(::connect(fd_.get(), to.data(), to.size()), 0) << std::strerror(errno);
  }
  template <class T>
  bool hears(T& out) {
    return ::recv(fd_.get(), &out, sizeof out, MSG_WAITALL) == static_cast<ssize_t>(sizeof out);
  }
  void says(const void* data, std::size_t bytes) { ::send(fd_.get(), data, bytes, MSG_NOSIGNAL); }
  // As the kernel does for a process that is killed with something unread.
  void resets() {
    const linger none{1, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
    fd_.reset();
  }
  // Whether the other side closes within the limit; what it says before does not matter.
  bool is_dropped() {
    char some[256];
    ssize_t n;
    do n = ::recv(fd_.get(), some, sizeof some, 0);
    while (n > 0);
    return n == 0 || errno == ECONNRESET;
  }

 private:
  unique_fd fd_;
};

constexpr rendezvous_limits quick{2'000'000'000, 10'000'000'000};

// All ranks meet and exchange something twice.
void expect_meeting(const rendezvous_id& id, int ranks) {
  std::vector<std::thread> running;
  for (int rank = 0; rank < ranks; ++rank)
    running.emplace_back([&, rank] {
      std::unique_ptr<rendezvous_client> client;
      const result joined = rendezvous_client::join(id, rank, ranks, quick, nullptr, client);
      ASSERT_TRUE(joined.ok()) << joined.text();
      for (int round = 0; round < 2; ++round) {
        const int mine = 100 * round + rank;
        std::vector<int> all(static_cast<std::size_t>(ranks), -1);
        ASSERT_EQ(client->exchange(&mine, all.data(), sizeof mine), 0) << client->failure().text();
        for (int r = 0; r < ranks; ++r) ASSERT_EQ(all[static_cast<std::size_t>(r)], 100 * round + r);
      }
    });
  for (std::thread& one : running) one.join();
}

void expect_end() {
  EXPECT_TRUE(eventually([] { return rendezvous_server::running() == 0; }, 10'000)) << "the server has not ended";
}

void in_a_process(const std::function<void()>& body) {
  expect_good(forked_processes(1, [&](int) { body(); }));
}

TEST(rendezvous, brings_ranks_together_and_ends) {
  for (int ranks : {1, 2, 16})
    in_a_process([&] {
      const int before = open_descriptors();
      expect_meeting(served(), ranks);
      expect_end();
      EXPECT_EQ(open_descriptors(), before);
    });
}

TEST(rendezvous, works_over_ipv6) {
  private_fd probe;
  network_address six = loopback(AF_INET6);
  if (!listen_tcp(six, probe).ok()) GTEST_SKIP() << "this machine has no ::1";
  in_a_process([] {
    const rendezvous_id id = served(AF_INET6);
    EXPECT_EQ(id.addresses[0].text().rfind("[::1]:", 0), 0u) << id.addresses[0].text();
    expect_meeting(id, 2);
    expect_end();
  });
}

TEST(rendezvous, carries_large_parts) {
  in_a_process([] {
    const rendezvous_id id = served();
    constexpr int ranks = 5;
    std::vector<std::thread> running;
    for (int rank = 0; rank < ranks; ++rank)
      running.emplace_back([&, rank] {
        std::unique_ptr<rendezvous_client> client;
        ASSERT_TRUE(rendezvous_client::join(id, rank, ranks, quick, nullptr, client).ok());
        std::vector<std::uint8_t> mine(rendezvous_part_bytes, static_cast<std::uint8_t>(rank + 1)),
            all(ranks * rendezvous_part_bytes);
        ASSERT_EQ(client->exchange(mine.data(), all.data(), mine.size()), 0) << client->failure().text();
        for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i / rendezvous_part_bytes + 1);
        EXPECT_EQ(client->exchange(mine.data(), all.data(), rendezvous_part_bytes + 1), xylInternalError);
      });
    for (std::thread& one : running) one.join();
    expect_end();
  });
}

TEST(rendezvous, is_not_disturbed_by_strangers) {
  in_a_process([] {
    const rendezvous_id id = served();
    const network_address& at = id.addresses[0];
    std::vector<std::unique_ptr<stranger>> all;
    // Silent ones, more than are kept; port scans; random bytes of several lengths; the beginning of a hello.
    for (int i = 0; i < 100; ++i) all.push_back(std::make_unique<stranger>(at));
    for (int i = 0; i < 50; ++i) stranger scan(at);
    for (std::size_t bytes : {1u, 8u, 56u, 57u, 1000u, 100'000u}) {
      std::vector<std::uint8_t> noise(bytes);
      ASSERT_TRUE(fill_random(noise.data(), noise.size()).ok());
      all.push_back(std::make_unique<stranger>(at));
      all.back()->says(noise.data(), noise.size());
    }
    rendezvous_greeting greeting;
    rendezvous_hello hello;
    stranger slow(at);
    ASSERT_TRUE(slow.hears(greeting));
    ASSERT_TRUE(rendezvous_hello::make(id.secret, greeting, 0, 2, 1'000'000'000, hello).ok());
    slow.says(&hello, sizeof hello - 1);
    const std::int64_t began = now_ns();
    expect_meeting(id, 2);
    EXPECT_LT(now_ns() - began, 2'000'000'000);
    // When all have come, whoever else is there is sent away.
    EXPECT_TRUE(slow.is_dropped());
    for (const auto& one : all) EXPECT_TRUE(one->is_dropped());
    expect_end();
  });
}

TEST(rendezvous, answers_a_wrong_secret_at_once_and_goes_on) {
  in_a_process([] {
    const rendezvous_id id = served();
    rendezvous_id other = id;
    other.secret[3] ^= 0x80;
    std::unique_ptr<rendezvous_client> client;
    const std::int64_t began = now_ns();
    const result r = rendezvous_client::join(other, 0, 2, quick, nullptr, client);
    EXPECT_EQ(r.code(), xylInvalidUsage);
    EXPECT_NE(r.text().find("another unique id is served there"), std::string::npos) << r.text();
    EXPECT_LT(now_ns() - began, 1'000'000'000);
    expect_meeting(id, 2);
    expect_end();
  });
}

// Between a rank and its host sits somebody who hears everything and says it again later.
TEST(rendezvous, lets_nobody_in_who_repeats_what_it_heard) {
  in_a_process([] {
    const rendezvous_id id = served();
    const network_address& at = id.addresses[0];
    rendezvous_greeting first, second;
    rendezvous_hello heard;
    {
      // The hello of a true rank, which then is lost on its way.
      stranger rank(at);
      ASSERT_TRUE(rank.hears(first));
      ASSERT_TRUE(rendezvous_hello::make(id.secret, first, 1, 2, 1'000'000'000, heard).ok());
    }
    stranger again(at);
    ASSERT_TRUE(again.hears(second));
    EXPECT_NE(first.nonce, second.nonce);
    again.says(&heard, sizeof heard);
    rendezvous_answer answer;
    ASSERT_TRUE(again.hears(answer));
    EXPECT_EQ(answer.verdict, rendezvous_answer::wrong_secret);
    EXPECT_TRUE(again.is_dropped());
    expect_meeting(id, 2);
    expect_end();
  });
}

void expect_failure_of_rank_1(rendezvous_client& client, xylResult_t code) {
  int mine = 0, all[2];
  EXPECT_EQ(client.exchange(&mine, all, sizeof mine), code);
  EXPECT_NE(client.failure().text().find("rank 1 (process"), std::string::npos) << client.failure().text();
}

// It is known from its hello on, also if its end comes before the answer could be sent.
TEST(rendezvous, with_a_rank_that_dies_as_soon_as_it_has_come_fails_for_all_and_names_it) {
  for (int round = 0; round < 20; ++round)
    in_a_process([] {
      const rendezvous_id id = served();
      std::thread other([&id] {
        stranger rank(id.addresses[0]);
        rendezvous_greeting greeting;
        rendezvous_hello hello;
        ASSERT_TRUE(rank.hears(greeting));
        ASSERT_TRUE(rendezvous_hello::make(id.secret, greeting, 1, 2, 600'000'000'000, hello).ok());
        rank.says(&hello, sizeof hello);
        rank.resets();
      });
      std::unique_ptr<rendezvous_client> client;
      ASSERT_TRUE(rendezvous_client::join(id, 0, 2, {2'000'000'000, 600'000'000'000}, nullptr, client).ok());
      const std::int64_t began = now_ns();
      expect_failure_of_rank_1(*client, xylRemoteError);
      EXPECT_LT(now_ns() - began, 1'000'000'000);
      other.join();
    });
}

TEST(rendezvous, with_a_rank_that_sends_an_oversized_frame_fails_for_all_and_names_it) {
  in_a_process([] {
    const rendezvous_id id = served();
    std::unique_ptr<rendezvous_client> client;
    ASSERT_TRUE(rendezvous_client::join(id, 0, 2, quick, nullptr, client).ok());
    stranger rank(id.addresses[0]);
    rendezvous_greeting greeting;
    rendezvous_hello hello;
    rendezvous_answer answer;
    ASSERT_TRUE(rank.hears(greeting));
    ASSERT_TRUE(rendezvous_hello::make(id.secret, greeting, 1, 2, 1'000'000'000, hello).ok());
    rank.says(&hello, sizeof hello);
    ASSERT_TRUE(rank.hears(answer));
    EXPECT_TRUE(answer.proven(id.secret, greeting, hello));
    std::array<std::uint8_t, 24> huge{};
    std::fill(huge.begin() + 16, huge.begin() + 20, std::uint8_t{0xff});  // 4 GiB
    rank.says(huge.data(), huge.size());
    int mine = 0, all[2];
    EXPECT_EQ(client->exchange(&mine, all, sizeof mine), xylRemoteError);
    EXPECT_NE(client->failure().text().find("rank 1 (process"), std::string::npos) << client->failure().text();
    client.reset();
    EXPECT_TRUE(rank.is_dropped());
  });
}

// Somebody who took the port of a host that has ended.
class impostor {
 public:
  explicit impostor(std::function<void(int)> says) {
    address = loopback(AF_INET);
    EXPECT_TRUE(listen_tcp(address, listener_).ok());
    thread_ = std::thread([this, says] {
      std::vector<private_fd> guests;
      while (!stop_) {
        pollfd one{listener_.get(), POLLIN, 0};
        ::poll(&one, 1, 10);
        private_fd guest;
        if (!accept_tcp(listener_.get(), guest).ok() || !guest) continue;
        says(guest.get());
        guests.push_back(std::move(guest));
      }
    });
  }
  ~impostor() {
    stop_ = true;
    thread_.join();
  }
  network_address address;

 private:
  private_fd listener_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

void expect_refusal(const impostor& host, const char* part, std::int64_t least_ns, std::int64_t most_ns,
                    xylResult_t code) {
  rendezvous_id id;
  ASSERT_TRUE(rendezvous_id::make(id).ok());
  id.addresses = {host.address};
  std::unique_ptr<rendezvous_client> client;
  const std::int64_t began = now_ns();
  const result r = rendezvous_client::join(id, 0, 2, quick, nullptr, client);
  const std::int64_t took = now_ns() - began;
  EXPECT_EQ(r.code(), code) << r.text();
  EXPECT_NE(r.text().find(part), std::string::npos) << r.text();
  EXPECT_GE(took, least_ns);
  EXPECT_LT(took, most_ns);
}

TEST(rendezvous_client, of_something_else_fails_within_a_second) {
  in_a_process([] {
    const impostor other([](int fd) { ::send(fd, "SSH-2.0-OpenSSH_9.2p1\r\n", 23, MSG_NOSIGNAL); });
    expect_refusal(other, "something else than Xylem", 0, 1'000'000'000, xylRemoteError);
  });
}

TEST(rendezvous_client, of_somebody_who_hangs_up_fails_within_a_second) {
  in_a_process([] {
    const impostor other([](int fd) { ::shutdown(fd, SHUT_RDWR); });
    expect_refusal(other, "was closed", 0, 1'100'000'000, xylRemoteError);
  });
}

TEST(rendezvous_client, of_a_host_that_cannot_prove_the_secret_fails_within_a_second) {
  in_a_process([] {
    const impostor other([](int fd) {
      rendezvous_greeting greeting;
      ASSERT_TRUE(rendezvous_greeting::make(greeting).ok());
      ::send(fd, &greeting, sizeof greeting, MSG_NOSIGNAL);
      rendezvous_hello hello{};
      pollfd one{fd, POLLIN, 0};
      ::poll(&one, 1, 2000);
      ASSERT_EQ(::recv(fd, &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
      // It does not know the secret, but bids welcome.
      rendezvous_answer answer = rendezvous_answer::make({}, greeting, hello);
      ::send(fd, &answer, sizeof answer, MSG_NOSIGNAL);
    });
    expect_refusal(other, "something else than Xylem", 0, 1'000'000'000, xylRemoteError);
  });
}

TEST(rendezvous_client, of_a_silent_host_fails_after_the_connect_timeout) {
  in_a_process([] {
    const impostor other([](int) {});
    expect_refusal(other, "XYLEM_CONNECT_TIMEOUT", 1'900'000'000, 4'000'000'000, xylTimeout);
  });
}

TEST(rendezvous_client, tries_the_other_addresses_when_the_first_is_not_its_host) {
  in_a_process([] {
    rendezvous_id id = served();
    const impostor silent([](int) {}), other([](int fd) { ::send(fd, "hello", 5, MSG_NOSIGNAL); });
    network_address nobody = loopback(AF_INET);
    {
      private_fd closed;
      ASSERT_TRUE(listen_tcp(nobody, closed).ok());
    }
    id.addresses.insert(id.addresses.begin(), {nobody, silent.address, other.address});
    expect_meeting(id, 2);
    expect_end();
  });
}

TEST(rendezvous_client, on_another_machine_does_not_take_its_own_loopback_for_the_host) {
  rendezvous_id id;
  ASSERT_TRUE(rendezvous_id::make(id).ok());
  id.addresses = {loopback(AF_INET)};
  id.machine ^= 1;
  std::unique_ptr<rendezvous_client> client;
  const result r = rendezvous_client::join(id, 0, 2, quick, nullptr, client);
  EXPECT_EQ(r.code(), xylRemoteError);
  EXPECT_NE(r.text().find("only loopback addresses"), std::string::npos) << r.text();
}

}  // namespace
}  // namespace xyl::test
