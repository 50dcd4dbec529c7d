// SPDX-License-Identifier: BSD-3-Clause
//
// A device half that does nothing, successfully, except that it refuses, like a device, what does not fit into a
// region of the workspace, and what types that share kernels have none for: tests derive from it what they look at.
// All memory is a device's.
#pragma once

#include "exec/device_side.hpp"
#include "exec/dispatch.hpp"
#include "exec/room.hpp"
#include "proto/stand_in.hpp"

namespace xyl::test {

class idle_device : public device_side {
 public:
  explicit idle_device(const layout& map) : map_(map) {
    handle_.sm = 90;
    handle_.max_blocks = handle_.max_pull_blocks = 64;
    for (std::int32_t& blocks : handle_.max_fused_blocks) blocks = 64;
  }
  const device_handle& handle() const override { return handle_; }
  result connect(std::span<const device_handle>, int rank, std::shared_ptr<const peer_group>) override {
    rank_ = rank;
    return {};
  }
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
  bool has_line_kernels() const override { return true; }
  const layout& map() const override { return map_; }
  memory_kind classify(const void*) const override { return memory_kind::device; }
  result all_reduce(device_launch how, const void*, void*, std::uint64_t count, const call_record& record,
                    xylStream_t) override {
    if (uses_line_packets(how.how) && (map_.ranks != 2 || record.operation != xylSum))
      return error(xylInternalError, "no kernel for operation %d of %u ranks", record.operation, map_.ranks);
    XYL_TRY(check_way(!uses_wide_packets(how.how) && !uses_line_packets(how.how), record));
    const unsigned bytes = facts_of(record.type)->bytes;
    return how.step_units == 0 ? check_room(map_, how.how, bytes, count)
                               : check_steps(map_, how.how, bytes, count, how.step_units, how.blocks);
  }
  result all_reduce_by_copies(const void*, void*, std::uint64_t, const call_record&, xylStream_t) override {
    return {};
  }
  result move_by_copies(const movement&, bool, const void*, void*, const call_record&, xylStream_t) override {
    return {};
  }
  result reduce(const device_reduce& how, const void*, void*, std::uint64_t count, const call_record& record,
                xylStream_t) override {
    return check_room(map_, how.form, facts_of(record.type)->bytes, count);
  }
  result move(const device_move& how, const void*, void*, const call_record&, xylStream_t) override {
    return check_room(map_, how.form, how.what.bytes);
  }
  result pull_reduce(pull_form form, unsigned, const pull_call<device_capacity>& what, xylStream_t) override {
    return check_room(map_, form, facts_of(what.record.type)->bytes, what.count);
  }
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
  result run_transfers(std::span<const transfer> all, unsigned blocks, const call_record&, xylStream_t) override {
    return check_room(map_, all, blocks, rank_);
  }
  result swap(const device_swap& how, const void*, void*, std::uint64_t, const call_record&, xylStream_t) override {
    return check_room(map_, how.both, rank_);
  }
  bool can_swap(xylDataType_t, bool) const override { return map_.ranks == 2; }
  result scale(const device_scale& how, const void*, xylStream_t, const void*&) override {
    return check_scratch(map_, how.pieces, how.elements, facts_of(how.by.type)->bytes);
  }
  result copy(void*, const void*, std::size_t, xylStream_t) override { return {}; }
  result join(xylStream_t, xylStream_t) override { return {}; }
  xylStream_t own_stream() const override { return nullptr; }
  result fused(const fused_launch& how, const fused_work& work, const call_record& record, xylStream_t) override {
    return check_room(map_, how.form, facts_of(record.type)->bytes, work);
  }
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

 private:
  static result check_way(bool is_for_all_types, const call_record& record) {
    if (is_for_all_types || has_all_ways(record.type)) return {};
    return error(xylInternalError, "no kernel for type %d", record.type);
  }

 protected:
  const layout map_;
  device_handle handle_{};
  sync_choice choice_;
  int rank_ = -1;
};

}  // namespace xyl::test
