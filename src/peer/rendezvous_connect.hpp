// SPDX-License-Identifier: BSD-3-Clause
//
// From the addresses of a unique id to one connection whose other side has proven the secret. Attempts run side by
// side (as in RFC 8305), but only one at a time says who this rank is, so that it never comes twice.
#pragma once

#include <memory>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "os/interruption.hpp"
#include "os/private_fd.hpp"
#include "peer/rendezvous_channel.hpp"
#include "peer/rendezvous_id.hpp"

namespace xyl {

struct rendezvous_connection {
  private_fd socket;
  rendezvous_greeting greeting;
  rendezvous_hello hello;
};

// Fails within a second of the first refusal, or wrong answer, unless somebody still proves to serve some id; and
// at the deadline. stop may be null.
result connect_to_id(const rendezvous_id& id, int rank, int ranks, std::int64_t timeout_ns, deadline until,
                     const interruption* stop, rendezvous_connection& out);

}  // namespace xyl
