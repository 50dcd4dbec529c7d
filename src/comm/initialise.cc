// SPDX-License-Identifier: BSD-3-Clause
#include "comm/initialise.hpp"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "peer/rendezvous_client.hpp"
#include "peer/rendezvous_server.hpp"

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
  XYL_TRY(rendezvous_server::start(std::move(addresses), p.timeout_warning_ns, id));
  out = id.pack();
  return {};
}

result initialise_rank(const unique_id_bytes& bytes, int ranks, int rank, const interruption* stop,
                       std::unique_ptr<communicator>& out) {
  rendezvous_id id;
  XYL_TRY(rendezvous_id::unpack(bytes, id));
  // With a wrong environment the others are joined all the same, so that they learn of it; create() says it then.
  parameters p;
  if (!read_parameters(::environ, p).ok()) p = {};
  std::unique_ptr<rendezvous_client> client;
  XYL_TRY(rendezvous_client::join(id, rank, ranks, {p.connect_timeout_ns, p.timeout_ns}, stop, client));
  result made = communicator::create(
      ranks, rank, [&](const void* mine, void* all, std::size_t each) { return client->exchange(mine, all, each); },
      out);
  // What the exchange has to say is nearer to the cause than that an exchange has failed.
  if (!made.ok() && !client->failure().ok()) return result(client->failure().code(), client->failure().text());
  return made;
}

}  // namespace xyl
