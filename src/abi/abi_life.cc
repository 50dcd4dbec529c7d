// SPDX-License-Identifier: BSD-3-Clause
//
// The entry points of xylem.h for the life of a communicator: unique ids, initialisation, splitting, groups, abort,
// the end.

// What this header declares is what the library exports.
#pragma GCC visibility push(default)
#include "xylem/xylem.h"
#pragma GCC visibility pop

#include <cstddef>
#include <cstring>

#include "abi/grouped.hpp"
#include "comm/initialise.hpp"
#include "exec/device_side.hpp"
#include "peer/caller_wait.hpp"

using namespace xyl;

namespace {

result check_rank(const char* function, int ranks, int rank) {
  if (ranks < 1 || ranks > host_capacity)
    return error(xylInvalidArgument, "%s: %d ranks; 1 to %d are possible on one machine", function, ranks,
                 host_capacity);
  if (rank < 0 || rank >= ranks) return error(xylInvalidArgument, "%s: rank %d of %d ranks", function, rank, ranks);
  return {};
}

result read_config(const char* function, const xylConfig_t* config, member_settings& out) {
  if (config == nullptr) return {};
  xylConfig_t c = XYL_CONFIG_INITIALIZER;
  // A later version's structure is longer; what this one does not know has defaults there as well.
  constexpr std::size_t least = offsetof(xylConfig_t, commName) + sizeof c.commName, most = 4096;
  if (config->size < least || config->size > most)
    return error(xylInvalidArgument,
                 "%s: config has size %zu; it has to begin as XYL_CONFIG_INITIALIZER (size %zu)", function,
                 config->size, sizeof c);
  std::memcpy(&c, config, sizeof c);
  if ((c.blocking != 0 && c.blocking != 1) || (c.splitShare != 0 && c.splitShare != 1))
    return error(xylInvalidArgument, "%s: config has blocking %d and splitShare %d; each is 0 or 1", function,
                 c.blocking, c.splitShare);
  out.blocking = c.blocking == 1;
  if (c.commName != nullptr) out.name = c.commName;
  return {};
}

result publish(const char* function, std::unique_ptr<member> made, xylComm_t* comm) {
  *comm = publish_handle(std::move(made));
  if (*comm == nullptr) return error(xylSystemError, "%s: too many communicators in this process", function);
  return {};
}

// Makes a communicator; *comm is its handle as soon as that is given out.
// from: the member that it is derived from, or null.
result make_member(const char* function, const member_settings& settings, member* from, member::making how,
                   xylComm_t* comm) {
  auto made = std::make_unique<member>();
  made->settings = settings;
  if (settings.blocking) {
    XYL_TRY(made->make(how));
    return publish(function, std::move(made), comm);
  }
  if (from != nullptr) XYL_TRY(from->occupy());
  result begun =
      made->begin_making(!from ? how : [from, how](const interruption* stop, std::unique_ptr<communicator>& out) {
        // Before the new one is said to be made, whose owner may go on with either.
        const std::unique_ptr<member, void (*)(member*)> left(from, [](member* m) { m->vacate(); });
        return how(stop, out);
      });
  if (!begun.ok()) {
    if (from != nullptr) from->vacate();
    return begun;
  }
  XYL_TRY(publish(function, std::move(made), comm));
  return error(xylInProgress, "still in progress");
}

result make_by_id(const char* function, xylComm_t* comm, int ranks, const xylUniqueId& id, int rank,
                  const xylConfig_t* config) {
  if (comm == nullptr) return error(xylInvalidArgument, "%s: comm is NULL", function);
  *comm = nullptr;
  XYL_TRY(check_rank(function, ranks, rank));
  member_settings settings;
  XYL_TRY(read_config(function, config, settings));
  unique_id_bytes bytes;
  std::memcpy(bytes.data(), id.internal, bytes.size());
  XYL_TRY(check_unique_id(bytes));
  // The device of this thread, now: a group's end may find another, and other threads have none.
  const int device = device_side::current_device();
  group::step make = [=, settings = std::move(settings)] {
    return make_member(
        function, settings, nullptr,
        [=](const interruption* stop, std::unique_ptr<communicator>& out) {
          return initialise_rank(bytes, ranks, rank, device, stop, out);
        },
        comm);
  };
  if (!group::is_open()) return make();
  group::record_making(nullptr, std::move(make));
  return {};
}

}  // namespace

xylResult_t xylGetUniqueId(xylUniqueId* id) {
  return guarded(nullptr, [&]() -> result {
    if (id == nullptr) return error(xylInvalidArgument, "xylGetUniqueId: id is NULL");
    unique_id_bytes bytes;
    XYL_TRY(make_unique_id(bytes));
    static_assert(sizeof id->internal == sizeof bytes);
    std::memcpy(id->internal, bytes.data(), bytes.size());
    return {};
  });
}

xylResult_t xylCommInitRank(xylComm_t* comm, int ranks, xylUniqueId id, int rank) {
  return guarded_in_group(nullptr, [&] { return make_by_id("xylCommInitRank", comm, ranks, id, rank, nullptr); });
}

xylResult_t xylCommInitRankConfig(xylComm_t* comm, int ranks, xylUniqueId id, int rank, const xylConfig_t* config) {
  return guarded_in_group(nullptr,
                          [&] { return make_by_id("xylCommInitRankConfig", comm, ranks, id, rank, config); });
}

xylResult_t xylCommInitAll(xylComm_t* comms, int ranks, const int* devices) {
  return guarded(nullptr, [&]() -> result {
    if (comms == nullptr) return error(xylInvalidArgument, "xylCommInitAll: comms is NULL");
    XYL_TRY(check_rank("xylCommInitAll", ranks, 0));
    for (int r = 0; r < ranks; ++r) comms[r] = nullptr;
    const int there = device_side::count();
    std::vector<int> chosen;
    for (int r = 0; r < ranks; ++r) {
      chosen.push_back(devices != nullptr ? devices[r] : there == 0 ? -1 : r % there);
      if (chosen.back() < -1 || chosen.back() >= there)
        return error(xylInvalidArgument, "xylCommInitAll: devices[%d] is %d; there are %d CUDA devices", r,
                     chosen.back(), there);
    }
    std::vector<std::unique_ptr<communicator>> made;
    XYL_TRY(initialise_all(chosen, made));
    for (int r = 0; r < ranks; ++r) {
      result published = publish("xylCommInitAll", std::make_unique<member>(std::move(made[r])), &comms[r]);
      if (published.ok()) continue;
      for (int before = 0; before < r; ++before) {
        withdraw_handle(comms[before]).reset();
        comms[before] = nullptr;
      }
      return published;
    }
    return {};
  });
}

xylResult_t xylCommInitOob(xylComm_t* comm, int ranks, int rank, xylAllgatherFunc_t allgather, void* context) {
  if (comm != nullptr) *comm = nullptr;
  return guarded(nullptr, [&]() -> result {
    if (comm == nullptr) return error(xylInvalidArgument, "xylCommInitOob: comm is NULL");
    if (allgather == nullptr) return error(xylInvalidArgument, "xylCommInitOob: allgather is NULL");
    XYL_TRY(check_rank("xylCommInitOob", ranks, rank));
    std::unique_ptr<communicator> made;
    XYL_TRY(communicator::create(
        ranks, rank,
        [=](const void* send, void* recv, std::size_t bytes) { return allgather(context, send, recv, bytes); },
        made));
    return publish("xylCommInitOob", std::make_unique<member>(std::move(made)), comm);
  });
}

xylResult_t xylCommInitWait(int missing) {
  return guarded(nullptr, [&] { return caller_wait::moment(missing); });
}

xylResult_t xylCommSplit(xylComm_t comm, int color, int key, xylComm_t* newcomm, const xylConfig_t* config) {
  return guarded_in_group(comm, [&]() -> result {
    if (newcomm == nullptr) return error(xylInvalidArgument, "xylCommSplit: newcomm is NULL");
    *newcomm = nullptr;
    communicator* parent = nullptr;
    XYL_TRY(find_communicator(comm, "xylCommSplit", parent));
    XYL_TRY(check_in_use(comm, "xylCommSplit"));
    if (color < 0 && color != XYL_SPLIT_NOCOLOR)
      return error(xylInvalidArgument, "xylCommSplit: color is %d; it is 0 or above, or XYL_SPLIT_NOCOLOR", color);
    member_settings settings;
    XYL_TRY(read_config("xylCommSplit", config, settings));
    member* const from = resolve_handle(comm);
    group::step derive = [=, settings = std::move(settings)]() -> result {
      // A group may have destroyed it since.
      member* still = nullptr;
      XYL_TRY(find_member(comm, "xylCommSplit", still));
      auto split = [=, keep = from->hold()](const interruption* stop, std::unique_ptr<communicator>& out) {
        return parent->split(color, key, stop, out);
      };
      if (color != XYL_SPLIT_NOCOLOR) return make_member("xylCommSplit", settings, from, split, newcomm);
      // A rank without a color comes along, and gets nothing.
      std::unique_ptr<communicator> none;
      return split(nullptr, none);
    };
    if (!group::is_open()) return derive();
    group::record_making(from, std::move(derive));
    return {};
  });
}

xylResult_t xylCommFinalize(xylComm_t comm) {
  return guarded(comm, [&]() -> result {
    communicator* c = nullptr;
    XYL_TRY(find_communicator(comm, "xylCommFinalize", c));
    member* const m = resolve_handle(comm);
    if (m->finalized.exchange(true))
      return error(xylInvalidUsage, "xylCommFinalize: the communicator was finalized before");
    if (m->settings.blocking) return c->finalize();
    XYL_TRY(m->begin([c] { return c->finalize(); }));
    return error(xylInProgress, "still in progress");
  });
}

xylResult_t xylGroupStart() {
  group::start();
  return xylSuccess;
}

xylResult_t xylGroupEnd() {
  return guarded(nullptr, [] { return group::end(); });
}

xylResult_t xylCommDestroy(xylComm_t comm) {
  if (comm == nullptr) return xylSuccess;
  return guarded(nullptr, [&]() -> result {
    if (resolve_handle(comm) != nullptr && is_inherited(comm))
      return error(xylInvalidUsage, "xylCommDestroy: this process was forked after the communicator was made");
    if (withdraw_handle(comm) == nullptr)
      return error(xylInvalidArgument, "xylCommDestroy: not a communicator (destroyed, or never one)");
    return {};
  });
}

xylResult_t xylCommAbort(xylComm_t comm) {
  return guarded(comm, [&]() -> result {
    member* m = nullptr;
    XYL_TRY(find_member(comm, "xylCommAbort", m));
    m->abort();
    return {};
  });
}
