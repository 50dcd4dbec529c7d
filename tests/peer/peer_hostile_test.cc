// SPDX-License-Identifier: BSD-3-Clause
//
// Clients that have no business here, while groups are made and used: they find the abstract sockets in
// /proc/net/unix, as anybody can.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "os/local_socket.hpp"
#include "os/machine.hpp"
#include "peer/peer_group.hpp"
#include "tests/support/peer_ranks.hpp"

namespace xyl {
namespace {

using test::make_group;
using test::meeting;
using test::poison_of;

std::set<std::string> listening_names() {
  std::set<std::string> names;
  std::ifstream table("/proc/net/unix");
  std::string line;
  while (std::getline(table, line))
    if (const std::size_t at = line.find("@xylem-"); at != std::string::npos) names.insert(line.substr(at + 1));
  return names;
}

// One visit to every socket: silence, noise, an overlong message, a proper hello with a guessed secret.
int visit_all(std::vector<unique_fd>& silent) {
  int visits = 0;
  for (const std::string& name : listening_names()) {
    secret_bytes guess;
    std::vector<char> noise(4096);
    if (!fill_random(guess.data(), guess.size()).ok() || !fill_random(noise.data(), noise.size()).ok())
      return visits;
    const message hello = message::make(message_kind::hello, 1, 0, guess);
    for (int kind = 0; kind < 5; ++kind) {
      unique_fd socket;
      if (!connect_local(name, deadline::in_ms(0), socket).ok()) continue;
      ++visits;
      const deadline now = deadline::in_ns(0);
      result sent;
      if (kind == 1) sent = send_message(socket.get(), noise.data(), sizeof(message), socket.get(), now);
      if (kind == 2) sent = send_message(socket.get(), noise.data(), noise.size(), -1, now);
      if (kind == 3) sent = send_message(socket.get(), &hello, sizeof hello, -1, now);
      if (kind == 4) sent = send_message(socket.get(), &hello, 8, -1, now);
      silent.push_back(std::move(socket));
    }
    if (silent.size() > 300) silent.erase(silent.begin(), silent.begin() + 100);
  }
  return visits;
}

TEST(peer_hostile, groups_are_made_and_live_among_hostile_clients) {
  meeting all(3);
  std::vector<test::process_end> ends = test::forked_processes(4, [&](int process) {
    if (process == 3) {
      std::vector<unique_fd> silent;
      int visits = 0;
      // Until the ranks break up their meeting.
      while (!all.broken()) visits += visit_all(silent);
      EXPECT_GT(visits, 0) << "nobody was attacked";
      return;
    }
    for (int i = 0; i < 20; ++i) {
      const auto group = make_group(process, 3, all);
      ASSERT_NE(group, nullptr);
      if (i % 5 == 0) ::usleep(100'000);
      ASSERT_TRUE(all.wait());
      EXPECT_EQ(poison_of(*group, process), 0u);
      for (int r = 0; r < 3; ++r) EXPECT_FALSE(group->dead(r));
      ASSERT_TRUE(all.wait());
    }
    if (process == 0) all.break_up();
  });
  test::expect_good(ends);
}

}  // namespace
}  // namespace xyl
