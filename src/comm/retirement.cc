// SPDX-License-Identifier: BSD-3-Clause
#include "comm/retirement.hpp"

#include <mutex>
#include <utility>
#include <vector>

namespace xyl {

namespace {

struct retired {
  std::unique_ptr<peer_group> peers;
  std::unique_ptr<device_side> device;
};

std::mutex lock;
std::vector<retired>& kept() {
  // Never destroyed: at the end of the process the driver takes the memory back, and peers may still be watching.
  static auto* const all = new std::vector<retired>;
  return *all;
}

}  // namespace

void release_retired() {
  std::vector<retired> done;  // destroyed after the lock is released
  const std::lock_guard guard(lock);
  std::vector<retired> still;
  for (retired& r : kept()) (r.peers->needed() ? still : done).push_back(std::move(r));
  kept() = std::move(still);
}

void retire(std::unique_ptr<peer_group> peers, std::unique_ptr<device_side> device) {
  peers->depart();
  if (device && peers->needed()) {
    const std::lock_guard guard(lock);
    kept().push_back({std::move(peers), std::move(device)});
  }
  release_retired();
}

}  // namespace xyl
