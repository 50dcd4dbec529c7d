// SPDX-License-Identifier: BSD-3-Clause
//
// A rank's way to the others through a unique id: it connects to the process that serves the id, proves the secret,
// and has that process pass its exchanges on. All addresses of the id are tried, the next one as soon as one fails
// or is slow, and the first that proves the secret is taken. No wait passes its limit, and each ends at once on an
// interruption. What fails has one sentence, failure(), since an allgather can only return a number.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "os/interruption.hpp"
#include "os/private_fd.hpp"
#include "peer/rendezvous_channel.hpp"
#include "peer/rendezvous_id.hpp"

namespace xyl {

struct rendezvous_limits {
  std::int64_t connect_ns = 10'000'000'000;
  std::int64_t timeout_ns = 600'000'000'000;  // for the other ranks to come
};

class rendezvous_client {
 public:
  // stop may be null.
  static result join(const rendezvous_id& id, int rank, int ranks, const rendezvous_limits& limits,
                     const interruption* stop, std::unique_ptr<rendezvous_client>& out);
  // Says that this rank needs no further exchange.
  ~rendezvous_client();

  // An allgather over the ranks (peer_group's allgather_function): 0, or else failure() says why.
  int exchange(const void* mine, void* all, std::size_t bytes);
  const result& failure() const { return failure_; }

 private:
  rendezvous_client(private_fd socket, std::unique_ptr<rendezvous_channel> channel, std::int32_t host, int rank,
                    int ranks, const rendezvous_limits& limits, const interruption* stop);
  result try_exchange(const void* mine, void* all, std::size_t bytes);
  result wait(deadline until) const;

  private_fd socket_;
  std::unique_ptr<rendezvous_channel> channel_;
  std::int32_t host_;  // process number
  int rank_;
  int ranks_;
  rendezvous_limits limits_;
  const interruption* stop_;
  result failure_;
};

}  // namespace xyl
