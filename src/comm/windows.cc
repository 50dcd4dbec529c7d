// SPDX-License-Identifier: BSD-3-Clause
#include "comm/windows.hpp"

#include <algorithm>
#include <utility>

namespace xyl {

std::uint64_t window_table::next_number() const {
  return static_cast<std::uint64_t>(std::find(all_.begin(), all_.end(), nullptr) - all_.begin());
}

bool window_table::overlaps(const std::byte* memory, std::uint64_t bytes) const {
  auto next = by_base_.lower_bound(memory);
  if (next != by_base_.end() && next->first < memory + bytes) return true;
  if (next == by_base_.begin()) return false;
  --next;
  return next->first + all_[next->second]->bytes > memory;
}

void window_table::reserve() {
  if (next_number() == all_.size()) all_.emplace_back();
  if (!spare_) {
    std::map<const std::byte*, std::uint64_t> one{{nullptr, 0}};
    spare_ = one.extract(one.begin());
  }
}

const window& window_table::add(std::unique_ptr<window> made) noexcept {
  const std::uint64_t number = next_number();
  spare_.key() = made->base;
  spare_.mapped() = number;
  by_base_.insert(std::move(spare_));
  made->handle = ++added_ << 16 | (number + 1);
  all_[number] = std::move(made);
  return *all_[number];
}

const window* window_table::find(std::uint64_t handle) const {
  const std::uint64_t number = number_of(handle);
  return number < all_.size() && all_[number] && all_[number]->handle == handle ? all_[number].get() : nullptr;
}

std::unique_ptr<window> window_table::remove(std::uint64_t handle) {
  std::unique_ptr<window> out = std::move(all_[number_of(handle)]);
  by_base_.erase(out->base);
  return out;
}

std::uint64_t window_table::find_place(const std::byte* memory, std::uint64_t bytes, bool on_device) const {
  auto found = by_base_.upper_bound(memory);
  if (found == by_base_.begin()) return 0;
  --found;
  const window& w = *all_[found->second];
  const auto inside = static_cast<std::uint64_t>(memory - w.base);
  if (!w.is_mapped() || (w.kind != memory_kind::host) != on_device || inside > w.bytes || bytes > w.bytes - inside)
    return 0;
  return window_place::pack(found->second, inside);
}

}  // namespace xyl
