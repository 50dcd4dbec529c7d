// SPDX-License-Identifier: BSD-3-Clause
//
// One rank's communicator: the peers' memory, the agreed selection table, and the calls. One lock: calls of one
// communicator are serialised; abort() and async_error() do not take it.
#pragma once

#include <sched.h>

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/call_lock.hpp"
#include "base/parameters.hpp"
#include "comm/control_allgather.hpp"
#include "comm/fused_shape.hpp"
#include "comm/operations.hpp"
#include "comm/planning.hpp"
#include "comm/request.hpp"
#include "comm/selection.hpp"
#include "comm/sync_paths.hpp"
#include "comm/windows.hpp"
#include "exec/device_memory_check.hpp"
#include "exec/device_side.hpp"
#include "exec/host_packet.hpp"
#include "exec/host_row.hpp"
#include "exec/host_transfer.hpp"
#include "peer/peer_group.hpp"
#include "peer/reading_proof.hpp"
#include "proto/fused_work.hpp"
#include "proto/pull.hpp"
#include "xylem/xylem_fused.h"

namespace xyl {

class joint_group;
struct fused_request;
struct window_offer;

// What ranks tell each other before they make a device half.
struct device_wish {
  std::int32_t device;        // a CUDA device, or -1
  std::int32_t peer_to_peer;  // peer_to_peer_use
  std::int32_t copies;        // 1: copy engines are to move long messages wherever workspaces lie
};

class communicator {
 public:
  // Collective over the ranks; every rank learns of another's failure.
  // device: a CUDA device, or -1 for none; without it the calling thread's current one.
  static result create(int ranks, int rank, const allgather_function& exchange, std::unique_ptr<communicator>& out,
                       std::optional<int> device = {});
  ~communicator();

  result collect(const request& r);
  // For a call that is run later: finds what a created operation stands for now.
  result keep_operation(request& r);
  // Sends and receives that go on together: their order does not matter, but for those of one peer and direction.
  // All on one kind of memory, whose arguments were checked.
  result transfer_together(std::span<const request> all);
  // The same for all those of a group: on both kinds of memory and any streams, and of this rank with itself.
  result transfer_group(std::span<const request> all);
  // Whether the request's work goes to a stream.
  bool works_on_device(const request& r) const;
  // `own` becomes the communicator's own stream. It comes after what is on the named ones (before), or they after
  // it.
  result lend_stream(bool before, std::span<const xylStream_t> named, xylStream_t& own);
  // moe is looked at only where is_moe says so.
  // r: as read_fused_arguments reads it.
  result fused_all_reduce(fused_request r, xylStream_t stream);
  // On the CPU, or, with a stream and a device, on that.
  result barrier(xylStream_t stream);
  result create_operation(const void* scalar, int type, int residence, int& op);
  result destroy_operation(int op);
  // Collective: `out` is the communicator of the ranks with this color, in the order of their keys; none for a
  // negative color. stop: ends the initialisation of the new one; may be null.
  result split(int color, int key, const interruption* stop, std::unique_ptr<communicator>& out);
  // Both collective; see xylCommRegister.
  result register_window(void* buffer, std::size_t bytes, std::uint64_t& handle);
  result deregister_window(std::uint64_t handle);
  // Waits until this rank's work on streams is done.
  result finalize();
  void abort();
  xylResult_t async_error() const;

  // JSON: what was found and chosen, and why.
  result describe(std::string& out) const;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int device() const { return device_ ? device_number_ : -1; }

 private:
  friend class joint_group;  // the same for all ranks at once

  communicator(int ranks, int rank, const parameters& p)
      : ranks_(ranks),
        rank_(rank),
        parameters_(p),
        all_choices_(static_cast<std::size_t>(ranks)),
        devices_(static_cast<std::size_t>(ranks)),
        hosts_(static_cast<std::size_t>(ranks)),
        reading_(ranks) {}

  control_block& own_control() const { return *reinterpret_cast<control_block*>(peers_->workspace(rank_)); }
  result choose_polls();
  result connect_host(const layout& map);
  result connect_device(std::optional<int> wanted);
  result try_device(bool staged, result& verdict);
  result make_staging();
  void bring_in_places();
  result find_out_about_reading();
  result probe_host_memory();
  // See communicator_plan.cc.
  result settle_sync_paths(bool is_shared, bool staged, result& agreed);
  result agree_on_selection();
  result agree_once(std::uint64_t& measure);
  planning_input planning_facts();
  result make_choice(agreed_choice& mine);
  result accept(const agreed_choice& agreed);
  result share_description();
  void keep_tuning();
  // Collective. See communicator_probe.cc: why the links must not be used, if so.
  result probe_links(result& verdict);
  void keep_probe(const probe_decision& decision, const planning_input& in);
  // Collective. See communicator_tune.cc.
  result measure_thresholds(bool deterministic, topo::tuning& out);
  result time_calls(const request& r, int calls, std::int64_t& ns);

  // See communicator_windows.cc.
  result meet_for_window(collective what, std::uint64_t number);
  result offer_window(void* buffer, std::size_t bytes, window& made, window_offer& mine);
  result import_window(std::span<const window_offer> offers, window& made);
  result exchange_reports(const result& mine, std::span<report> all);
  void close_window(window& w);
  // In-place use of registered buffers: what is said of it in the call's record, and what follows from that.
  void find_places(const request& r, call_record& record) const;
  std::optional<pull_form> pull_form_for(const call_record& record, std::uint64_t bytes) const;
  static window_use window_use_for(const call_record& record);
  template <int Capacity>
  void point_at_windows(pull_call<Capacity>& c, const request& r, std::uint64_t done) const;

  void begin_host_call(const request& r, int operation) { begin_host_call(record_of(r, operation, false)); }
  void begin_host_call(const call_record& record);
  std::uint64_t fingerprint_of(const call_record& record);
  // Allreduces that travel beside their headers, and are often like the one before.
  result all_reduce_inline(const request& r);
  bool goes_one_way(collective what, std::uint64_t bytes) const;
  // Runs what goes one way.
  template <class F>
  result go_one_way(F run);
  epoch_t has_called_another(const host_wait::subject& what, std::int64_t waited_ns);
  result pull_on_host(pull_form form, const request& r, const host_reduction* ranged);
  result pull_on_device(pull_form form, const request& r, const call_record& record);
  result reduce_host(const request& r, const chosen_operation& op);
  result move_host(const request& r);
  result move_host_directly(const request& r, movement m);
  const std::byte* scaled(const chosen_operation& op, const std::byte* input, std::uint64_t stride, int pieces,
                          std::uint64_t elements);
  result reduce_device(const request& r, const chosen_operation& op);
  std::uint64_t chunk_of_all_reduce(algorithm how, unsigned element_bytes) const;
  device_launch shape_of_all_reduce(algorithm how, std::uint64_t bytes) const;
  bool takes_steps(algorithm how) const;
  // bytes: of the message, or of a piece.
  bool copy_engines_move(const request& r, std::uint64_t bytes) const;
  result collect_by_copies(const request& r, std::uint64_t bytes, const call_record& record);
  result move_device(const request& r);
  // Whether packets carry pieces of that size, where calls do no more than move them.
  bool moves_in_packets(const request& r, std::uint64_t bytes) const;
  // In communicator_swap.cc. Whether a call is so large that between two devices it goes as messages.
  bool goes_as_message(const request& r, std::uint64_t bytes) const;
  result broadcast_as_message(const request& r, std::uint64_t bytes, const call_record& record);
  result swap_messages(const request& r, std::uint64_t bytes, const call_record& record);
  result transfer_host(std::span<const request> all);
  transfer host_transfer_of(const request& r, const call_record& record);
  result copy_to_self(const std::vector<request>& sends, const std::vector<request>& receives);
  result transfer_on_streams(std::vector<request> all);
  result transfer_device(std::span<const request> all);
  result memory_of(const void* send, const void* recv, memory_kind& kind) const;

  // See communicator_fused.cc.
  result fused_host(fused_request& r);
  result fused_device(fused_request& r, xylStream_t stream);
  result memory_of(const fused_request& r, memory_kind& kind) const;
  bool fits_slices(const fused_request& r) const;
  bool takes_two_steps(const fused_request& r) const;
  static std::byte* rows_of_first_step(const fused_work& w);
  result fused_in_two_steps(const fused_request& r, const call_record& record, xylStream_t stream);
  result pulled_first_step(const fused_request& r, const call_record& record, xylStream_t stream);
  result pushed_first_step(const fused_request& r, const call_record& record, xylStream_t stream);
  fused_form fused_form_for(const fused_request& r, const selection::limits& limits) const;
  // See communicator_windows.cc.
  std::uint64_t place_of_input(const fused_request& r, bool device) const;
  std::optional<fused_form> fused_pull_form_for(const fused_request& r, const call_record& record) const;
  void find_inputs(const call_record& record, const std::byte** input_of) const;
  result does_not_fit(const fused_request& r) const;
  call_record record_of(const fused_request& r, bool device) const;

  call_record record_of(const request& r, int operation, bool device) const;
  // The sentence for why this communicator is out of service.
  result explain(const call_record& mine);
  result leave_host_call();
  void warn_of_wait(const host_wait::subject& what, std::int64_t waited_ns) const;

  int ranks_;
  int rank_;
  parameters parameters_;
  selection selection_{};
  std::uint64_t selection_hash_ = 0;
  // Room for exchanges, there before the first of them: a rank without memory must still come to the others.
  std::vector<agreed_choice> all_choices_;
  std::vector<device_wish> devices_;
  std::vector<host_facts> hosts_;
  std::vector<device_handle> device_handles_;  // empty without devices
  ring_seat seat_;                             // in the plan's ring
  std::string description_;                    // of all ranks; see description.hpp
  std::optional<topo::probe_report> probe_;    // of all ranks' links; one of an earlier time on rank 0 alone
  std::string probe_note_;                     // what else there is to say of it; on rank 0
  std::optional<topo::tuning> tuned_;          // measured thresholds
  topo::tuning_key tuning_key_;                // on rank 0
  reading_proof reading_;
  int polls_before_yielding_ = wait_limits{}.polls_before_yielding;

  std::unique_ptr<peer_group> peers_;
  std::unique_ptr<host_wait> waits_;
  std::unique_ptr<host_space> space_;
  std::unique_ptr<control_allgather> control_;
  const host_reductions* reductions_ = nullptr;
  const host_rows* rows_ = nullptr;
  pull_call<host_capacity> host_call_;
  std::vector<host_transfer> transfers_;  // of the group that is running,
  host_transfers running_;                // as far as they have come
  struct {
    host_reduction sum{0, nullptr, 1};  // null: there was none
    call_record record;
    std::uint64_t fingerprint;

    bool is_like(const request& r) const {
      const auto bits = reinterpret_cast<std::uintptr_t>(r.send) | reinterpret_cast<std::uintptr_t>(r.recv);
      return sum.reduce_range != nullptr && r.what == collective::all_reduce && r.count == record.count &&
             r.type == record.type && r.op == record.operation && !r.scale && r.send != nullptr &&
             r.recv != nullptr && (bits & (sum.element_bytes - 1)) == 0;
    }
  } inline_;
  call_record fingerprinted_;  // the last record that was mixed, and what came out
  std::uint64_t fingerprint_ = fingerprint(call_record());
  std::uint64_t one_way_history_ = 0;            // of the fingerprints of all calls that went one way
  std::uint32_t one_way_calls_ = 0, noted_ = 0;  // how many there were, and in which one peers were told
  bool is_one_way_ = false;                      // the current call does

  int device_number_ = -1;
  bool on_one_gpu_ = false;  // all ranks' devices are the same
  std::string no_device_reason_;
  bool is_staged_ = false;  // GPUs meet in host memory
  std::string staging_reason_;
  device_memory_check device_memory_;
  std::shared_ptr<peer_group> staging_;  // the host memory where they do
  std::unique_ptr<device_side> device_;
  fused_limits fused_limits_;  // of all ranks' devices
  sync_decision sync_;         // how they synchronise

  call_lock lock_;
  window_table windows_;
  mutable std::mutex windows_guard_;  // of changes to windows_, which are made under lock_ too
  std::uint64_t calls_ = 0;
  std::uint64_t explained_word_ = 0;  // the poison that explanation_ is of: later calls repeat it
  result explanation_;
  created_operations operations_;
};

}  // namespace xyl
