// SPDX-License-Identifier: BSD-3-Clause
//
// A device half that does nothing, successfully: tests derive from it what they look at. All memory is a device's.
#pragma once

#include "exec/device_side.hpp"

namespace xyl::test {

class idle_device : public device_side {
 public:
  explicit idle_device(const layout& map) : map_(map) {
    handle_.sm = 90;
    handle_.max_blocks = handle_.max_pull_blocks = 64;
    for (std::int32_t& blocks : handle_.max_fused_blocks) blocks = 64;
  }
  const device_handle& handle() const override { return handle_; }
  result connect(std::span<const device_handle>, int, std::shared_ptr<const peer_group>) override { return {}; }
  result reset() override { return {}; }
  result prepare_trials() override { return {}; }
  result try_path(const trial_plan&, trial_finding& out) override {
    out.verdict = trial_verdict::passed;
    out.round_ns = out.launch_ns = 1000;
    return {};
  }
  void end_trials() override {}
  void use(const sync_choice& choice) override { choice_ = choice; }
  const sync_choice& in_use() const override { return choice_; }
  bool can_overlap() const override { return false; }
  const layout& map() const override { return map_; }
  memory_kind classify(const void*) const override { return memory_kind::device; }
  result all_reduce(device_launch, const void*, void*, std::uint64_t, const call_record&, xylStream_t) override {
    return {};
  }
  result all_reduce_by_copies(const void*, void*, std::uint64_t, const call_record&, xylStream_t) override {
    return {};
  }
  result move_by_copies(const movement&, bool, const void*, void*, const call_record&, xylStream_t) override {
    return {};
  }
  result reduce(const device_reduce&, const void*, void*, std::uint64_t, const call_record&, xylStream_t) override {
    return {};
  }
  result move(const device_move&, const void*, void*, const call_record&, xylStream_t) override { return {}; }
  result pull_reduce(pull_form, unsigned, const pull_call<device_capacity>&, xylStream_t) override { return {}; }
  result pull_move(window_use, unsigned, const movement&, const pull_call<device_capacity>&, xylStream_t) override {
    return {};
  }
  std::byte* scratch_of(int) const override { return nullptr; }
  bool can_copy() const override { return false; }
  result export_memory(const void*, exported_memory&) const override { return {}; }
  result open_memory(const exported_memory&, int, bool, std::byte*& out, void*& opened) override {
    out = nullptr;
    opened = nullptr;
    return {};
  }
  void close_memory(void*) override {}
  result run_transfers(std::span<const transfer>, unsigned, const call_record&, xylStream_t) override { return {}; }
  result swap(const device_swap&, const void*, void*, std::uint64_t, const call_record&, xylStream_t) override {
    return {};
  }
  bool can_swap(xylDataType_t, bool) const override { return true; }
  result scale(const device_scale&, const void*, xylStream_t, const void*&) override { return {}; }
  result copy(void*, const void*, std::size_t, xylStream_t) override { return {}; }
  result join(xylStream_t, xylStream_t) override { return {}; }
  xylStream_t own_stream() const override { return nullptr; }
  result fused(const fused_launch&, const fused_work&, const call_record&, xylStream_t) override { return {}; }
  bool can_add(xylDataType_t) const override { return true; }
  result fused_rows(const fused_work&, xylDataType_t, xylStream_t) override { return {}; }
  result reduce_jointly(const joint_reduction<device_capacity>&, xylDataType_t, xylRedOp_t, std::uint32_t,
                        xylStream_t) override {
    return {};
  }
  result move_jointly(std::span<const joint_piece>, xylStream_t) override { return {}; }
  result begin_joint(xylStream_t) override { return {}; }
  result end_joint(xylStream_t) override { return {}; }
  void wait_at_most(std::int64_t) override {}
  result drain() override { return {}; }
  void disconnect() override {}

 protected:
  const layout map_;
  device_handle handle_{};
  sync_choice choice_;
};

}  // namespace xyl::test
