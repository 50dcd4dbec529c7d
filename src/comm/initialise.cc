// SPDX-License-Identifier: BSD-3-Clause
#include "comm/initialise.hpp"

#include <unistd.h>

#include <functional>
#include <vector>

#include "base/out_of_memory.hpp"
#include "comm/together.hpp"
#include "peer/rendezvous_client.hpp"
#include "peer/rendezvous_server.hpp"
#include "peer/thread_allgather.hpp"

namespace xyl {

result make_unique_id(unique_id_bytes& out) {
  parameters p;
  XYL_TRY(read_parameters(::environ, p));
  set_log_level(p.debug);
  std::vector<network_interface> interfaces;
  std::vector<network_address> addresses;
  XYL_TRY(list_interfaces(interfaces));
  XYL_TRY(order_addresses(std::move(interfaces), p.socket_interfaces, addresses));
  rendezvous_id id;
  XYL_TRY(rendezvous_server::start(std::move(addresses), {p.timeout_warning_ns, p.connect_timeout_ns}, id));
  out = id.pack();
  return {};
}

result check_unique_id(const unique_id_bytes& bytes) {
  rendezvous_id id;
  return rendezvous_id::unpack(bytes, id);
}

result initialise_rank(const unique_id_bytes& bytes, int ranks, int rank, std::optional<int> device,
                       const interruption* stop, std::unique_ptr<communicator>& out) {
  // Before the others are joined, who would wait.
  XYL_TRY(service::allowed());
  rendezvous_id id;
  XYL_TRY(rendezvous_id::unpack(bytes, id));
  // With a wrong environment the others are joined all the same, so that they learn of it; create() says it then.
  parameters p;
  if (!read_parameters(::environ, p).ok()) p = {};
  std::unique_ptr<rendezvous_client> client;
  XYL_TRY(rendezvous_client::join(id, rank, ranks, {p.connect_timeout_ns, p.timeout_ns}, stop, client));
  result made = communicator::create(
      ranks, rank, [&](const void* mine, void* all, std::size_t each) { return client->exchange(mine, all, each); },
      out, device);
  // What the exchange has to say is nearer to the cause than that an exchange has failed.
  if (!made.ok() && !client->failure().ok()) return result(client->failure().code(), client->failure().text());
  return made;
}

result initialise_all(const std::vector<int>& devices, std::vector<std::unique_ptr<communicator>>& out) {
  const int ranks = static_cast<int>(devices.size());
  out.clear();
  out.resize(devices.size());
  std::vector<result> results(devices.size());
  thread_allgather ranks_here(ranks);
  std::vector<std::function<void()>> runs;
  for (int rank = 0; rank < ranks; ++rank)
    runs.push_back([&, rank] {
      const auto at = static_cast<std::size_t>(rank);
      results[at] = or_out_of_memory([&] {
        return communicator::create(
            ranks, rank,
            [&](const void* mine, void* all, std::size_t bytes) {
              return ranks_here.exchange(rank, mine, all, bytes);
            },
            out[at], devices[at]);
      });
      ranks_here.leave(rank);
    });
  XYL_TRY(run_together(runs));
  // A rank that failed itself knows more than those that failed because of it.
  for (const bool remote : {false, true})
    for (result& r : results)
      if (!r.ok() && (r.code() == xylRemoteError) == remote) {
        out.clear();
        return std::move(r);
      }
  return {};
}

}  // namespace xyl
