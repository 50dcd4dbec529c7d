// SPDX-License-Identifier: BSD-3-Clause
//
// The registered buffers of one communicator. A window has the same number and the same size on all ranks, and lies
// anywhere on each. Whether its peers can be reached through it was agreed: a window that cannot be mapped is kept,
// so that it can be deregistered, but no buffer lies in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/allocation.hpp"
#include "exec/device_side.hpp"
#include "os/sealed_memory.hpp"
#include "proto/call.hpp"

namespace xyl {

struct window {
  std::byte* base = nullptr;
  std::uint64_t bytes = 0;
  memory_kind kind = memory_kind::host;
  std::uint64_t handle = 0;         // never that of another window of this communicator
  std::string why_staged;           // "": mapped
  std::vector<std::byte*> of_rank;  // base of every rank's, as this rank reaches it; empty if not mapped

  // What keeps it so.
  std::shared_ptr<const allocation> own;  // if xylMemAlloc gave it out
  std::vector<sealed_memory> adopted;     // of other processes
  std::vector<void*> imported;            // for device_side::close_memory()

  bool is_mapped() const { return !of_rank.empty(); }
};

class window_table {
 public:
  // A window_place of these bytes; 0 if they do not lie in one mapped window of that kind of memory. (Host memory
  // may have become the device's since, by being pinned.)
  std::uint64_t place_of(const void* memory, std::uint64_t bytes, bool on_device) const {
    return by_base_.empty() ? 0 : find_place(static_cast<const std::byte*>(memory), bytes, on_device);
  }
  // place: of place_of(). Where it is in the memory of a rank.
  std::byte* at(std::uint64_t place, int rank) const {
    return all_[window_place::window(place)]->of_rank[static_cast<std::size_t>(rank)] + window_place::offset(place);
  }

  // The number that the next window gets: the same on all ranks, which register and deregister alike.
  std::uint64_t next_number() const;
  // Whether any of these bytes are in a window.
  bool overlaps(const std::byte* memory, std::uint64_t bytes) const;
  // Room for one more, so that add() cannot fail.
  void reserve();
  const window& add(std::unique_ptr<window> made) noexcept;
  // Null: no such window.
  const window* find(std::uint64_t handle) const;
  std::unique_ptr<window> remove(std::uint64_t handle);
  // By number; with gaps.
  const std::vector<std::unique_ptr<window>>& all() const { return all_; }
  static std::uint64_t number_of(std::uint64_t handle) { return (handle & 0xffff) - 1; }

 private:
  std::uint64_t find_place(const std::byte* memory, std::uint64_t bytes, bool on_device) const;

  std::vector<std::unique_ptr<window>> all_;
  std::map<const std::byte*, std::uint64_t> by_base_;  // numbers
  std::map<const std::byte*, std::uint64_t>::node_type spare_;
  std::uint64_t added_ = 0;
};

}  // namespace xyl
