// SPDX-License-Identifier: BSD-3-Clause
//
// TCP sockets that never block and never outlive their process (private_fd). Who connects is unknown until it has
// proven what it knows; nothing here trusts a byte.
#pragma once

#include <cstddef>

#include "base/result.hpp"
#include "os/network_address.hpp"
#include "os/private_fd.hpp"

namespace xyl {

// Listens on that address alone. Port 0 becomes the port that was given.
result listen_tcp(network_address& address, private_fd& out);

// Takes one waiting connection; `out` is empty if there is none.
result accept_tcp(int listener, private_fd& out);

// Begins to connect. When the socket has become writable, connect_outcome() says how it went.
result begin_connect(const network_address& address, private_fd& out);
result connect_outcome(int socket);

// What could be moved at once; 0 if nothing. `end` becomes true when the other side has closed or is gone.
std::size_t send_some(int socket, const void* data, std::size_t bytes, bool& end);
std::size_t receive_some(int socket, void* data, std::size_t bytes, bool& end);

// Ends the connection, or the listening, also where another process has a copy of the descriptor.
void shut(private_fd& socket);

}  // namespace xyl
