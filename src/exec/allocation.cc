// SPDX-License-Identifier: BSD-3-Clause
#include "exec/allocation.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "base/log.hpp"
#include "exec/device_memory.hpp"

namespace xyl {

namespace {

using allocation_map = std::map<const std::byte*, std::shared_ptr<const allocation>>;

std::mutex lock;
allocation_map& table() {
  // Never destroyed: what was not freed ends with the process, after everything that might ask.
  static auto* const all = new allocation_map;
  return *all;
}

}  // namespace

allocation::~allocation() {
  if (device == nullptr) return;
  if (const result freed = free_device_memory(device); !freed.ok())
    log_line(log_level::warn, no_rank, "xylMemFree: %s", freed.text().c_str());
}

result allocate(std::size_t bytes, int kind, void*& out) {
  out = nullptr;
  if (kind != xylMemAuto && kind != xylMemHost && kind != xylMemDevice)
    return error(xylInvalidArgument, "xylMemAlloc: %d is not a kind of memory", kind);
  if (bytes == 0) return {};
  const bool has_device = has_current_device();
  if (kind == xylMemDevice && !has_device)
    return error(xylInvalidUsage, "xylMemAlloc: the calling thread has no CUDA device to allocate on");
  auto made = std::make_shared<allocation>();
  made->bytes = bytes;
  if (kind == xylMemHost || !has_device)
    XYL_TRY(sealed_memory::create(bytes, made->host));
  else
    XYL_TRY(allocate_device_memory(bytes, made->device));
  std::byte* const data = made->data();
  {
    const std::lock_guard guard(lock);
    table().emplace(data, std::move(made));
  }
  out = data;
  return {};
}

result release(void* memory) {
  if (memory == nullptr) return {};
  std::shared_ptr<const allocation> ended;  // destroyed after the lock is released
  const std::lock_guard guard(lock);
  const auto found = table().find(static_cast<const std::byte*>(memory));
  if (found == table().end())
    return error(xylInvalidArgument,
                 "xylMemFree: %p is not the beginning of memory that xylMemAlloc gave out (or it was freed)",
                 memory);
  // Whoever keeps it got it under the lock.
  if (found->second.use_count() > 1)
    return error(
        xylInvalidUsage,
        "xylMemFree: %p is registered with a communicator; xylCommDeregister or xylCommDestroy comes first",
        memory);
  ended = std::move(found->second);
  table().erase(found);
  return {};
}

std::shared_ptr<const allocation> allocation_of(const void* memory, std::size_t bytes) {
  const auto* const at = static_cast<const std::byte*>(memory);
  const std::lock_guard guard(lock);
  auto found = table().upper_bound(at);
  if (found == table().begin()) return nullptr;
  --found;
  const auto inside = static_cast<std::size_t>(at - found->first);
  const std::size_t room = found->second->bytes;
  return inside <= room && bytes <= room - inside ? found->second : nullptr;
}

}  // namespace xyl
