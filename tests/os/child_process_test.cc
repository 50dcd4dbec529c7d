// SPDX-License-Identifier: BSD-3-Clause
#include "os/child_process.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "os/local_socket.hpp"

namespace xyl {
namespace {

// Has the shell end as it says.
child_process shell(const char* script, const std::vector<std::string>& environment = {}) {
  child_process child;
  const result started = child_process::start("/bin/sh", {"-c", script}, environment, child);
  EXPECT_TRUE(started.ok()) << started.text();
  return child;
}

TEST(child_process, ends_with_its_code_and_is_waited_for) {
  child_process child = shell("exit 7");
  EXPECT_TRUE(child.running());
  EXPECT_EQ(child.finish(deadline::in_ms(10'000)), 7);
  EXPECT_FALSE(child.running());
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(child_process, standard_input_ends_when_this_side_closes) {
  child_process child = shell("cat >/dev/null; exit 3");
  EXPECT_EQ(child.finish(deadline::in_ms(10'000)), 3);
}

TEST(child_process, what_does_not_end_is_killed_at_the_deadline) {
  child_process child = shell("while :; do sleep 1; done");
  const std::int64_t began = now_ns();
  EXPECT_EQ(child.finish(deadline::in_ms(50)), -1);
  EXPECT_FALSE(child.running());
  EXPECT_LT(now_ns() - began, 10'000'000'000);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(child_process, is_killed_with_the_object) {
  { child_process child = shell("while :; do sleep 1; done"); }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(child_process, messages_keep_their_boundaries) {
  // The end of a socket that keeps boundaries is its standard input: one read is one message.
  child_process child = shell("dd bs=64 count=1 2>/dev/null >&0");
  const char word[] = "hello";
  ASSERT_TRUE(send_message(child.socket(), word, sizeof word, -1, deadline::in_ms(5000)).ok());
  char back[64] = {};
  std::size_t length = 0;
  unique_fd passed;
  ASSERT_TRUE(receive_message(child.socket(), back, sizeof back, length, passed, deadline::in_ms(10'000)).ok());
  EXPECT_EQ(length, sizeof word);
  EXPECT_STREQ(back, word);
}

TEST(child_process, a_program_that_is_not_there_is_an_error_with_its_path) {
  child_process child;
  const result r = child_process::start("/no/such/program", {}, {}, child);
  EXPECT_EQ(r.code(), xylSystemError);
  EXPECT_NE(r.text().find("/no/such/program"), std::string::npos);
  EXPECT_FALSE(child.running());
}

TEST(child_process, a_blocked_signal_of_ours_is_not_its) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  child_process child = shell("kill -TERM $$; sleep 5; exit 0");
  EXPECT_EQ(child.finish(deadline::in_ms(3000)), -1) << "it had ended by the signal";
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
}

TEST(environment_without, leaves_out_by_the_beginning_of_names) {
  const char* const all[] = {"PATH=/bin", "OMPI_COMM_WORLD_RANK=3", "LD_PRELOAD=x.so", "LD_PRELOADER=y", nullptr};
  EXPECT_EQ(environment_without(all, {"OMPI_", "LD_PRELOAD="}),
            (std::vector<std::string>{"PATH=/bin", "LD_PRELOADER=y"}));
}

}  // namespace
}  // namespace xyl
