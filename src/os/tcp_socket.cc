// SPDX-License-Identifier: BSD-3-Clause
#include "os/tcp_socket.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

namespace xyl {
namespace {

private_fd new_socket(int family) {
  return private_fd::from([&] { return ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
}

void set(int socket, int level, int option, int value) {
  // Each of them is a wish: what follows works, or says why not, without it.
  static_cast<void>(::setsockopt(socket, level, option, &value, sizeof value));
}

// Frames are small and answers waited for. A machine that is gone without a word is found after a minute.
void prepare(int socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace

result listen_tcp(network_address& address, private_fd& out) {
  private_fd fd = new_socket(address.family());
  if (!fd) return system_error("cannot create a socket");
  // Each family has its own listener.
  if (!address.is_v4()) set(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (::bind(fd.get(), address.data(), address.size()) != 0)
    return system_error("cannot bind to %s", address.text().c_str());
  if (::listen(fd.get(), SOMAXCONN) != 0) return system_error("cannot listen on %s", address.text().c_str());
  sockaddr_storage bound;
  socklen_t length = sizeof bound;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0)
    return system_error("cannot find out the port of %s", address.text().c_str());
  // The port lies at the same place in both families.
  address.set_port(ntohs(reinterpret_cast<const sockaddr_in&>(bound).sin_port));
  out = std::move(fd);
  return {};
}

result accept_tcp(int listener, private_fd& out) {
  for (;;) {
    out = private_fd::from([&] { return ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
    if (out) {
      prepare(out.get());
      return {};
    }
    if (errno == EAGAIN) return {};
    // Lack of descriptors or memory; everything else, accept(2) says, is about the one connection that failed.
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM || errno == EBADF ||
        errno == EINVAL)
      return system_error("cannot accept a connection");
  }
}

result begin_connect(const network_address& address, private_fd& out) {
  private_fd fd = new_socket(address.family());
  if (!fd) return system_error("cannot create a socket");
  prepare(fd.get());
  int failed;
  do failed = ::connect(fd.get(), address.data(), address.size());
  while (failed != 0 && errno == EINTR);
  if (failed != 0 && errno != EINPROGRESS && errno != EALREADY) return system_error("%s", address.text().c_str());
  out = std::move(fd);
  return {};
}

result connect_outcome(int socket) {
  int failed = 0;
  socklen_t length = sizeof failed;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &failed, &length) != 0) failed = errno;
  if (failed == 0) return {};
  errno = failed;
  return system_error("no connection");
}

std::size_t send_some(int socket, const void* data, std::size_t bytes, bool& end) {
  ssize_t n;
  do n = ::send(socket, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (n < 0 && errno == EINTR);
  if (n < 0 && errno != EAGAIN) end = true;
  return n < 0 ? 0 : static_cast<std::size_t>(n);
}

std::size_t receive_some(int socket, void* data, std::size_t bytes, bool& end) {
  ssize_t n;
  do n = ::recv(socket, data, bytes, MSG_DONTWAIT);
  while (n < 0 && errno == EINTR);
  if (n == 0 || (n < 0 && errno != EAGAIN)) end = true;
  return n < 0 ? 0 : static_cast<std::size_t>(n);
}

void shut(private_fd& socket) {
  if (socket) ::shutdown(socket.get(), SHUT_RDWR);
  socket.reset();
}

}  // namespace xyl
