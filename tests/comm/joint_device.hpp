// SPDX-License-Identifier: BSD-3-Clause
//
// A made-up device that works for all ranks of a process at once like a GPU, on host memory that counts as a
// device's, and else only checks and counts what each rank has it do alone. Not for builds with CUDA.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "exec/device_check.hpp"
#include "exec/host_scale.hpp"
#include "spaces/lane_by_lane.hpp"
#include "support/combine.hpp"
#include "support/idle_device.hpp"

namespace xyl::test {

struct history {
  int jointly = 0;  // launches for all ranks
  int alone = 0;    // for one
  int norms = 0;
  int fused = 0;
  std::vector<std::pair<xylStream_t, xylStream_t>> joins;  // the first comes after the second
};
inline history seen;
inline int devices = 1;
inline bool computes = true;  // else nothing looks at memory
inline std::map<const std::byte*, std::size_t> device_memory;

// What the kernels do, and no type knows of at compile time: the operation.
template <class T>
struct any_operation {
  using codec = portable_codec<T>;
  using element = T;
  using accumulator = typename codec::accumulator;
  static constexpr int ranks = 0;
  static constexpr int per_word = codec::per_word;
  static constexpr int accumulators = per_word;
  xylRedOp_t chosen;
  std::uint32_t divisor;

  static void decode(std::uint64_t word, accumulator (&out)[per_word]) { codec::decode(word, out); }
  static std::uint64_t encode(const accumulator (&in)[per_word]) { return codec::encode(in); }

  template <int Count>
  void accumulate(accumulator (&acc)[Count], const accumulator (&value)[Count]) const {
    for (int k = 0; k < Count; ++k) acc[k] = combine(chosen, acc[k], value[k]);
  }
  accumulator finish(accumulator a) const { return divisor == 1 ? a : divide(a, divisor); }
};

class made_up_device final : public idle_device {
 public:
  made_up_device(const layout& map, int number) : idle_device(map), scratch_(map.scratch_bytes()) {
    handle_.ordinal = number;
    handle_.uuid[0] = static_cast<std::uint8_t>(number);
    handle_.address = reinterpret_cast<std::uintptr_t>(this);
  }
  memory_kind classify(const void* pointer) const override {
    const auto* const at = static_cast<const std::byte*>(pointer);
    const auto above = device_memory.upper_bound(at);
    if (above == device_memory.begin()) return memory_kind::host;
    const auto& [begin, bytes] = *std::prev(above);
    return at < begin + bytes ? memory_kind::device : memory_kind::host;
  }
  result all_reduce(device_launch how, const void* send, void* recv, std::uint64_t count, const call_record& record,
                    xylStream_t stream) override {
    return alone(idle_device::all_reduce(how, send, recv, count, record, stream));
  }
  result reduce(const device_reduce& how, const void* send, void* recv, std::uint64_t count,
                const call_record& record, xylStream_t stream) override {
    return alone(idle_device::reduce(how, send, recv, count, record, stream));
  }
  result move(const device_move& how, const void* send, void* recv, const call_record& record,
              xylStream_t stream) override {
    return alone(idle_device::move(how, send, recv, record, stream));
  }
  result run_transfers(std::span<const transfer> all, unsigned blocks, const call_record& record,
                       xylStream_t stream) override {
    return alone(idle_device::run_transfers(all, blocks, record, stream));
  }
  result scale(const device_scale& how, const void* input, xylStream_t, const void*& scaled) override {
    XYL_TRY(check_scratch(map_, how.pieces, how.elements, facts_of(how.by.type)->bytes));
    if (!computes) return {};
    const std::uint64_t bytes = how.elements * facts_of(how.by.type)->bytes;
    for (int p = 0; p < how.pieces; ++p)
      scale_on_host(how.by, scratch_.data() + static_cast<unsigned>(p) * bytes,
                    static_cast<const std::byte*>(input) + static_cast<unsigned>(p) * how.stride, how.elements);
    scaled = scratch_.data();
    return {};
  }
  result join(xylStream_t stream, xylStream_t other) override {
    seen.joins.emplace_back(stream, other);
    return {};
  }
  result reduce_jointly(const joint_reduction<device_capacity>& what, xylDataType_t type, xylRedOp_t operation,
                        std::uint32_t divisor, xylStream_t) override {
    ++seen.jointly;
    element_types::for_each([&](auto entry, int) {
      if (entry.code != type) return;
      const any_operation<typename decltype(entry)::type> red{operation, divisor};
      for (unsigned block = 0; block < what.blocks_of_result(); ++block)
        lane_by_lane(2, 3, [&](auto& space) { xyl::reduce_jointly(space, what, red, block); });
    });
    return {};
  }
  result move_jointly(std::span<const joint_piece> all, xylStream_t) override {
    ++seen.jointly;
    for (const joint_piece& p : all) lane_by_lane(2, 3, [&](auto& space) { xyl::move_jointly(space, p); });
    return {};
  }
  result fused(const fused_launch& how, const fused_work& work, const call_record& record,
               xylStream_t stream) override {
    ++seen.fused;
    return idle_device::fused(how, work, record, stream);
  }
  result fused_rows(const fused_work&, xylDataType_t, xylStream_t) override {
    ++seen.norms;
    return {};
  }

 private:
  // From every rank's thread.
  static result alone(result checked) {
    static std::mutex guard;
    const std::lock_guard lock(guard);
    ++seen.alone;
    return checked;
  }
  std::vector<std::byte> scratch_;
};

struct made_up_check final : kernel_check {
  result run(std::span<const unsigned, device_fused_forms>, bool, bool) override { return {}; }
};

}  // namespace xyl::test
