// SPDX-License-Identifier: BSD-3-Clause
//
// How two ranks in different processes get each other's workspace over a local socket. The secret has two halves:
//
//   connector -> listener   hello:  from, to, first half
//   listener  -> connector  answer: second half, with the listener's memory
//   connector -> listener   memory: with the connector's memory
//
// Neither side hands out memory before the other has shown a half that it could know only from the group's
// allgather, and nobody learns a half from this that allows it to play the other side. After that nothing is sent:
// the socket stays open so that its end shows the end of the process.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "peer/introduction.hpp"

namespace xyl {

enum class message_kind : std::uint32_t { hello = 1, answer = 2, memory = 3 };

struct message {
  std::uint64_t magic;
  message_kind kind;
  std::int32_t from;
  std::int32_t to;
  std::uint32_t unused;
  std::array<std::uint8_t, 16> proof;

  static message make(message_kind kind, int from, int to, const secret_bytes& secret);
  // Whether this is that message; takes the same time however much of the proof is right.
  bool is(message_kind kind, int from, int to, const secret_bytes& secret) const;
};

// The connector's side. memory: the own workspace; peer_memory receives the listener's. Tries again while the other
// process drops the connection (it does so when it is flooded by others), until the deadline.
result shake_hands(const char* name, int from, int to, const secret_bytes& secret, int memory, deadline until,
                   unique_fd& socket, unique_fd& peer_memory);

}  // namespace xyl
