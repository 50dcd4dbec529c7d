// SPDX-License-Identifier: BSD-3-Clause
#include "os/local_socket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "os/machine.hpp"

namespace xyl {
namespace {

unique_fd new_socket() { return unique_fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

// Returns the length of the address; 0 if the name is too long.
socklen_t abstract_address(const std::string& name, sockaddr_un& address) {
  std::memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path) return 0;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

// False when the deadline has passed.
bool wait_for(int socket, short events, deadline until) {
  if (until.passed()) return false;
  pollfd one{socket, events, 0};
  ::poll(&one, 1, until.left_ms());
  return true;
}

// Room for exactly one descriptor: the kernel itself closes what does not fit and says so.
union control_space {
  cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int))];
};

// Takes every descriptor out of the message; keeps the first.
unsigned take_descriptors(msghdr& message, unique_fd& first) {
  unsigned count = 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, reinterpret_cast<const char*>(c) + at, sizeof fd);
      unique_fd owned(fd);
      if (count++ == 0) first = std::move(owned);
    }
  }
  return count;
}

}  // namespace

result listen_local(unique_fd& out, std::string& name) {
  std::uint8_t random[16];
  XYL_TRY(fill_random(random, sizeof random));
  name = "xylem-";
  for (std::uint8_t byte : random) name += format_text("%02x", byte);
  unique_fd fd = new_socket();
  if (!fd) return system_error("cannot create a local socket");
  sockaddr_un address;
  const socklen_t length = abstract_address(name, address);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
    return system_error("cannot bind a local socket");
  if (::listen(fd.get(), SOMAXCONN) != 0) return system_error("cannot listen on a local socket");
  out = std::move(fd);
  return {};
}

result connect_local(const std::string& name, deadline until, unique_fd& out) {
  sockaddr_un address;
  const socklen_t length = abstract_address(name, address);
  if (length == 0) return error(xylSystemError, "a socket name of %zu characters is too long", name.size());
  unique_fd fd = new_socket();
  if (!fd) return system_error("cannot create a local socket");
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return system_error("cannot connect to local socket @%s", name.c_str());
    // The queue is full. poll() has no event for that.
    if (until.passed()) return error(xylTimeout, "local socket @%s takes no connection", name.c_str());
    ::usleep(1000);
  }
  out = std::move(fd);
  return {};
}

result accept_local(int listener, unique_fd& out) {
  for (;;) {
    out.reset(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (out || errno == EAGAIN) return {};
    // The client may have gone while it was queued: that says nothing about the next.
    if (errno != EINTR && errno != ECONNABORTED) return system_error("cannot accept on a local socket");
  }
}

result send_message(int socket, const void* data, std::size_t bytes, int passed, deadline until) {
  iovec part{const_cast<void*>(data), bytes};
  control_space control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (passed >= 0) {
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &passed, sizeof passed);
  }
  for (;;) {
    if (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return {};
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return system_error("cannot send to a peer");
    if (!wait_for(socket, POLLOUT, until)) return error(xylTimeout, "a peer takes no message");
  }
}

result receive_message(int socket, void* data, std::size_t capacity, std::size_t& length, unique_fd& passed,
                       deadline until) {
  length = 0;
  for (;;) {
    iovec part{data, capacity};
    control_space control;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = CMSG_LEN(sizeof(int));  // CMSG_SPACE's padding would admit a second one
    const ssize_t n = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      if (!wait_for(socket, POLLIN, until)) return error(xylTimeout, "nothing came from a peer");
      continue;
    }
    if (n < 0) return system_error("cannot receive from a peer");
    unique_fd came;
    const unsigned count = take_descriptors(message, came);
    if (message.msg_flags & MSG_TRUNC)
      return error(xylSystemError, "a peer's message is longer than %zu bytes", capacity);
    length = static_cast<std::size_t>(n);
    if (message.msg_flags & MSG_CTRUNC || count > 1)
      return error(xylSystemError,
                   "a peer's message came with descriptors that could not be taken (more than one, "
                   "or this process is at its limit, ulimit -n)");
    passed = std::move(came);
    return {};
  }
}

}  // namespace xyl
