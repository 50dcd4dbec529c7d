// SPDX-License-Identifier: BSD-3-Clause
#include "peer/handshake.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "os/local_socket.hpp"

namespace xyl {
namespace {

constexpr std::uint64_t message_magic = 0x7465656d6c7978;  // "xylmeet" in memory order

// room: a descriptor that makes way for the peer's memory.
result attempt(int socket, int from, int to, const secret_bytes& secret, int memory, deadline until, unique_fd room,
               unique_fd& peer_memory) {
  const message hello = message::make(message_kind::hello, from, to, secret);
  XYL_TRY(send_message(socket, &hello, sizeof hello, -1, until));
  message answer;
  std::size_t length = 0;
  unique_fd came;
  room.reset();
  XYL_TRY(receive_message(socket, &answer, sizeof answer, length, came, until));
  if (length != sizeof answer || !answer.is(message_kind::answer, to, from, secret) || !came)
    return error(xylSystemError,
                 length == 0 ? "the other process closed the connection" : "something else than the peer answered");
  const message mine = message::make(message_kind::memory, from, to, secret);
  XYL_TRY(send_message(socket, &mine, sizeof mine, memory, until));
  peer_memory = std::move(came);
  return {};
}

}  // namespace

message message::make(message_kind kind, int from, int to, const secret_bytes& secret) {
  message made{message_magic, kind, from, to, 0, {}};
  const auto half = kind == message_kind::answer ? secret.begin() + 16 : secret.begin();
  std::copy(half, half + 16, made.proof.begin());
  return made;
}

bool message::is(message_kind expected, int sender, int receiver, const secret_bytes& secret) const {
  const message right = make(expected, sender, receiver, secret);
  unsigned difference = 0;
  for (std::size_t i = 0; i < proof.size(); ++i) difference |= proof[i] ^ right.proof[i];
  return difference == 0 && magic == right.magic && kind == right.kind && from == sender && to == receiver;
}

result shake_hands(const char* name, int from, int to, const secret_bytes& secret, int memory, deadline until,
                   unique_fd& socket, unique_fd& peer_memory) {
  for (;;) {
    unique_fd fd;
    XYL_TRY(connect_local(name, until, fd));
    // Before the first word: a peer that has answered takes the end of the connection for the end of this process.
    unique_fd room(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
    if (!room) return system_error("there is no descriptor left for a peer's memory (ulimit -n)");
    result tried = attempt(fd.get(), from, to, secret, memory, until, std::move(room), peer_memory);
    if (tried.ok()) {
      socket = std::move(fd);
      return {};
    }
    if (until.passed()) return tried;
    ::usleep(1000);
  }
}

}  // namespace xyl
