// SPDX-License-Identifier: BSD-3-Clause
#include "comm/retirement.hpp"

#include <iterator>
#include <list>
#include <mutex>
#include <new>
#include <utility>

namespace xyl {

namespace {

struct retired {
  std::unique_ptr<peer_group> peers;
  std::unique_ptr<device_side> device;
};
using retired_list = std::list<retired>;

std::mutex lock;
retired_list& kept() {
  // Never destroyed: at the end of the process the driver takes the memory back, and peers may still be watching.
  static auto* const all = new retired_list;
  return *all;
}

}  // namespace

void release_retired() {
  retired_list done;  // destroyed after the lock is released
  const std::lock_guard guard(lock);
  for (auto r = kept().begin(); r != kept().end();) {
    const auto next = std::next(r);
    if (!r->peers->needed()) done.splice(done.end(), kept(), r);
    r = next;
  }
}

void retire(std::unique_ptr<peer_group> peers, std::unique_ptr<device_side> device) noexcept {
  peers->depart();
  if (device && peers->needed()) {
    retired_list one;
    try {
      one.emplace_back();
    } catch (const std::bad_alloc&) {
      // For good, then: better than to free what a peer may have mapped.
      static_cast<void>(peers.release());
      static_cast<void>(device.release());
      return;
    }
    one.front() = {std::move(peers), std::move(device)};
    const std::lock_guard guard(lock);
    kept().splice(kept().end(), one);
  }
  device.reset();  // before the memory of `peers`, a page of which it has registered
  release_retired();
}

}  // namespace xyl
