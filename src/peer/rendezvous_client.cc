// SPDX-License-Identifier: BSD-3-Clause
#include "peer/rendezvous_client.hpp"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "os/tcp_socket.hpp"
#include "peer/introduction.hpp"
#include "peer/rendezvous_connect.hpp"
#include "peer/rendezvous_server.hpp"

namespace xyl {
namespace {

// The serving process names who is missing when the time is over: that needs a moment to arrive.
constexpr std::int64_t grace_ns = 5'000'000'000;

}  // namespace

rendezvous_client::rendezvous_client(private_fd socket, std::unique_ptr<rendezvous_channel> channel,
                                     std::int32_t host, int rank, int ranks, const rendezvous_limits& limits,
                                     const interruption* stop)
    : socket_(std::move(socket)),
      channel_(std::move(channel)),
      host_(host),
      rank_(rank),
      ranks_(ranks),
      limits_(limits),
      stop_(stop) {}

result rendezvous_client::join(const rendezvous_id& id, int rank, int ranks, const rendezvous_limits& limits,
                               const interruption* stop, std::unique_ptr<rendezvous_client>& out) {
  rendezvous_connection made;
  XYL_TRY(connect_to_id(id, rank, ranks, limits.timeout_ns, deadline::in_ns(limits.connect_ns), stop, made));
  auto channel = std::make_unique<rendezvous_channel>(
      rendezvous_channel::side::guest, id.secret, made.greeting, made.hello,
      std::max(sizeof(report), rendezvous_part_bytes * static_cast<std::size_t>(ranks)));
  out.reset(
      new rendezvous_client(std::move(made.socket), std::move(channel), id.process, rank, ranks, limits, stop));
  return {};
}

rendezvous_client::~rendezvous_client() {
  if (failure_.ok()) {
    try {
      channel_->queue(frame_kind::done, {});
      channel_->flush(socket_.get());
    } catch (const std::bad_alloc&) {
      // Then the end of the connection comes without a word, and the others, which are past their exchanges, do not
      // mind.
    }
  }
  shut(socket_);
}

int rendezvous_client::exchange(const void* mine, void* all, std::size_t bytes) {
  if (!failure_.ok()) return failure_.code();
  failure_ = try_exchange(mine, all, bytes);
  return failure_.code();
}

// One turn of waiting for the socket.
result rendezvous_client::wait(deadline until) const {
  pollfd polled[] = {{socket_.get(), static_cast<short>(POLLIN | (channel_->has_queued() ? POLLOUT : 0)), 0},
                     {stop_ ? stop_->fd() : -1, POLLIN, 0}};
  if (until.passed())
    return error(xylTimeout, "rank %d heard nothing from process %d, which serves the unique id, within %.1f s",
                 rank_, static_cast<int>(host_), static_cast<double>(limits_.timeout_ns) * 1e-9);
  ::poll(polled, 2, until.left_ms());
  if (stop_ && stop_->requested()) return error(xylRemoteError, "rank %d: initialisation was aborted", rank_);
  return {};
}

result rendezvous_client::try_exchange(const void* mine, void* all, std::size_t bytes) {
  if (bytes > rendezvous_part_bytes)
    return error(xylInternalError, "an exchange of %zu bytes is larger than a unique id's ranks can have", bytes);
  channel_->queue(frame_kind::data, std::span(static_cast<const std::uint8_t*>(mine), bytes));
  const deadline until = deadline::in_ns(limits_.timeout_ns + rendezvous_work_ns + grace_ns);
  std::vector<std::uint8_t> payload;
  for (;;) {
    // A host that has closed may have said why before: what has come is read all the same.
    channel_->flush(socket_.get());
    rendezvous_channel::arrival what;
    frame_kind kind;
    XYL_TRY(channel_->receive(socket_.get(), what, kind, payload));
    if (what == rendezvous_channel::arrival::end)
      return error(xylRemoteError,
                   "process %d, which made the unique id, ended during the initialisation of rank %d",
                   static_cast<int>(host_), rank_);
    if (what == rendezvous_channel::arrival::frame) {
      if (kind == frame_kind::failure && payload.size() == sizeof(report)) {
        report words;
        std::memcpy(&words, payload.data(), sizeof words);
        return error(static_cast<xylResult_t>(words.code), "%.251s", words.text);
      }
      if (kind != frame_kind::data || payload.size() != bytes * static_cast<std::size_t>(ranks_))
        return error(xylInternalError, "an exchange of the unique id brought %zu bytes instead of %zu",
                     payload.size(), bytes * static_cast<std::size_t>(ranks_));
      std::memcpy(all, payload.data(), payload.size());
      return {};
    }
    XYL_TRY(wait(until));
  }
}

}  // namespace xyl
