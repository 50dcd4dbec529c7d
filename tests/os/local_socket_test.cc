// SPDX-License-Identifier: BSD-3-Clause
#include "os/local_socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstring>
#include <vector>

#include "os/sealed_memory.hpp"
#include "tests/support/forked_ranks.hpp"

namespace xyl {
namespace {

const deadline now = deadline::in_ns(0);

class local_socket : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(listen_local(listener_, name_).ok());
    ASSERT_TRUE(connect_local(name_, now, client_).ok());
    ASSERT_TRUE(accept_local(listener_.get(), server_).ok());
    ASSERT_TRUE(server_);
  }

  unique_fd listener_, client_, server_;
  std::string name_;
  char data_[16] = {};
  std::size_t length_ = 99;
  unique_fd passed_;
};

TEST_F(local_socket, names_differ_and_all_closes_on_exec) {
  unique_fd other;
  std::string name;
  ASSERT_TRUE(listen_local(other, name).ok());
  EXPECT_NE(name, name_);
  for (const unique_fd* fd : {&listener_, &client_, &server_})
    EXPECT_NE(::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(local_socket, keeps_message_boundaries) {
  ASSERT_TRUE(send_message(client_.get(), "abc", 3, -1, now).ok());
  ASSERT_TRUE(send_message(client_.get(), "de", 2, -1, now).ok());
  ASSERT_TRUE(receive_message(server_.get(), data_, sizeof data_, length_, passed_, now).ok());
  EXPECT_EQ(length_, 3u);
  EXPECT_EQ(std::memcmp(data_, "abc", 3), 0);
  EXPECT_FALSE(passed_);
  ASSERT_TRUE(receive_message(server_.get(), data_, sizeof data_, length_, passed_, now).ok());
  EXPECT_EQ(length_, 2u);
}

TEST_F(local_socket, passes_a_descriptor) {
  sealed_memory memory;
  ASSERT_TRUE(sealed_memory::create(4096, memory).ok());
  ASSERT_TRUE(send_message(client_.get(), "x", 1, memory.fd(), now).ok());
  ASSERT_TRUE(receive_message(server_.get(), data_, sizeof data_, length_, passed_, now).ok());
  ASSERT_TRUE(passed_);
  EXPECT_NE(::fcntl(passed_.get(), F_GETFD) & FD_CLOEXEC, 0);
  struct stat a, b;
  ASSERT_EQ(::fstat(memory.fd(), &a), 0);
  ASSERT_EQ(::fstat(passed_.get(), &b), 0);
  EXPECT_EQ(a.st_ino, b.st_ino);
}

TEST_F(local_socket, refuses_a_message_that_is_too_long_and_closes_what_came_with_it) {
  const int before = test::open_descriptors();
  const std::vector<char> large(100);
  ASSERT_TRUE(send_message(client_.get(), large.data(), large.size(), client_.get(), now).ok());
  EXPECT_EQ(receive_message(server_.get(), data_, sizeof data_, length_, passed_, now).code(), xylSystemError);
  EXPECT_FALSE(passed_);
  EXPECT_EQ(test::open_descriptors(), before);
}

TEST_F(local_socket, refuses_surplus_descriptors_and_closes_them) {
  for (int count : {2, 3, 200}) {
    const int before = test::open_descriptors();
    const std::vector<int> fds(static_cast<std::size_t>(count), client_.get());
    std::vector<char> control(CMSG_SPACE(sizeof(int) * fds.size()));
    iovec part{data_, 1};
    msghdr m{};
    m.msg_iov = &part;
    m.msg_iovlen = 1;
    m.msg_control = control.data();
    m.msg_controllen = control.size();
    cmsghdr* c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
    ASSERT_EQ(::sendmsg(client_.get(), &m, 0), 1);
    EXPECT_EQ(receive_message(server_.get(), data_, sizeof data_, length_, passed_, now).code(), xylSystemError);
    EXPECT_EQ(test::open_descriptors(), before) << count;
  }
}

TEST_F(local_socket, sees_the_end_of_the_peer_and_never_raises_sigpipe) {
  client_.reset();
  ASSERT_TRUE(receive_message(server_.get(), data_, sizeof data_, length_, passed_, now).ok());
  EXPECT_EQ(length_, 0u);
  EXPECT_EQ(send_message(server_.get(), "x", 1, -1, now).code(), xylSystemError);
}

TEST_F(local_socket, gives_up_at_the_deadline) {
  EXPECT_EQ(receive_message(server_.get(), data_, sizeof data_, length_, passed_, deadline::in_ms(20)).code(),
            xylTimeout);
  // Nobody reads: at some point the peer's queue is full.
  const std::vector<char> large(1 << 14);
  xylResult_t code = xylSuccess;
  for (int i = 0; i < 100'000 && code == xylSuccess; ++i)
    code = send_message(client_.get(), large.data(), large.size(), -1, deadline::in_ms(20)).code();
  EXPECT_EQ(code, xylTimeout);
}

TEST_F(local_socket, accept_does_not_wait) {
  unique_fd none;
  EXPECT_TRUE(accept_local(listener_.get(), none).ok());
  EXPECT_FALSE(none);
}

TEST_F(local_socket, connecting_to_nobody_fails_at_once) {
  unique_fd fd;
  const result r = connect_local("xylem-nobody-has-this-name", {}, fd);
  EXPECT_EQ(r.code(), xylSystemError);
  EXPECT_FALSE(fd);
  EXPECT_EQ(connect_local(std::string(200, 'x'), {}, fd).code(), xylSystemError);
}

TEST_F(local_socket, connecting_to_a_full_queue_gives_up_at_the_deadline) {
  ASSERT_EQ(::listen(listener_.get(), 0), 0);
  std::vector<unique_fd> clients(4);
  xylResult_t code = xylSuccess;
  for (unique_fd& one : clients)
    if (code == xylSuccess) code = connect_local(name_, deadline::in_ms(20), one).code();
  EXPECT_EQ(code, xylTimeout);
}

}  // namespace
}  // namespace xyl
