// SPDX-License-Identifier: BSD-3-Clause
//
// A rendezvous whose ranks have all come, of which one does not go on.
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <atomic>
#include <thread>

#include "peer/rendezvous_client.hpp"
#include "peer/rendezvous_server.hpp"
#include "tests/support/peer_ranks.hpp"

namespace xyl::test {
namespace {

constexpr rendezvous_limits patient{2'000'000'000, 60'000'000'000}, soon{2'000'000'000, 200'000'000};

TEST(rendezvous, with_a_rank_that_stands_still_between_exchanges_is_a_timeout_that_names_it) {
  expect_good(forked_processes(1, [](int) {
    sockaddr_in loopback{};
    loopback.sin_family = AF_INET;
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    rendezvous_id id;
    ASSERT_TRUE(rendezvous_server::start({network_address(loopback)}, 0, id).ok());
    std::atomic<bool> over = false;
    std::thread other([&] {
      std::unique_ptr<rendezvous_client> client;
      ASSERT_TRUE(rendezvous_client::join(id, 1, 2, soon, nullptr, client).ok());
      EXPECT_TRUE(eventually([&] { return over.load(); }, 20'000));
    });
    std::unique_ptr<rendezvous_client> client;
    ASSERT_TRUE(rendezvous_client::join(id, 0, 2, patient, nullptr, client).ok());
    int mine = 0, all[2];
    EXPECT_EQ(client->exchange(&mine, all, sizeof mine), xylTimeout);
    EXPECT_NE(client->failure().text().find("rank 1 (process"), std::string::npos) << client->failure().text();
    over = true;
    other.join();
  }));
}

}  // namespace
}  // namespace xyl::test
