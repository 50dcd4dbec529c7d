// SPDX-License-Identifier: BSD-3-Clause
#include "peer/neighbours.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace xyl {
namespace {

struct directory {
  std::mutex guard;
  std::map<std::pair<secret_bytes, int>, std::shared_ptr<sealed_memory>> workspaces;
};

directory& all() {
  static directory the;
  return the;
}

}  // namespace

void listed_workspace::add(const secret_bytes& secret, int rank, std::shared_ptr<sealed_memory> memory) {
  const std::lock_guard lock(all().guard);
  all().workspaces[{secret, rank}] = std::move(memory);
  secret_ = secret;
  rank_ = rank;
}

void listed_workspace::remove() {
  if (rank_ < 0) return;
  const std::lock_guard lock(all().guard);
  all().workspaces.erase({secret_, rank_});
  rank_ = -1;
}

std::shared_ptr<sealed_memory> listed_workspace::find(const secret_bytes& secret, int rank) {
  const std::lock_guard lock(all().guard);
  const auto found = all().workspaces.find({secret, rank});
  return found == all().workspaces.end() ? nullptr : found->second;
}

}  // namespace xyl
