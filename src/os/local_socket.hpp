// SPDX-License-Identifier: BSD-3-Clause
//
// Messages between the processes of one machine: AF_UNIX sockets that keep message boundaries, in the abstract
// namespace (no file, nothing left behind), each under a random name. A message may carry one descriptor. Nothing
// here blocks past its deadline or raises SIGPIPE, and every descriptor is close-on-exec. Whoever knows the name
// can connect: who it is has to be proven by what is sent.
#pragma once

#include <cstddef>
#include <string>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace xyl {

// name: without the leading zero byte of the abstract namespace.
result listen_local(unique_fd& out, std::string& name);

// Waits while the listener's queue is full. Fails at once if nobody in this network namespace has the name.
result connect_local(const std::string& name, deadline until, unique_fd& out);

// Takes one waiting connection; `out` is empty if there is none. Never waits.
result accept_local(int listener, unique_fd& out);

// passed: -1 or a descriptor to send along (it stays the caller's). xylTimeout if the peer does not take it in
// time.
result send_message(int socket, const void* data, std::size_t bytes, int passed, deadline until);

// Receives one message of at most `capacity` bytes. length 0: the peer has closed. passed receives the descriptor
// that came along, if any. Errors: xylTimeout (nothing came), xylSystemError (also: a message that is too long, or
// with more than one descriptor; it is consumed, and all that came with it is closed). With an error, length is 0 unless
// the message was right and only its descriptor could not be taken.
result receive_message(int socket, void* data, std::size_t capacity, std::size_t& length, unique_fd& passed,
                       deadline until);

}  // namespace xyl
