// SPDX-License-Identifier: BSD-3-Clause
#include "comm/communicator.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/log.hpp"
#include "base/out_of_memory.hpp"
#include "comm/explain.hpp"
#include "comm/retirement.hpp"
#include "proto/one_way.hpp"

namespace xyl {

namespace {

// Budgets of one slot of a host workspace, shared by all sources.
constexpr std::uint64_t host_packet_bytes = 256 << 10;
constexpr std::uint64_t host_bulk_bytes = 4 << 20;
// A ring of chunks of 32 KB for each of a few peers, of smaller ones for more: the receiver takes one out while the
// next is put in. Of two ranks as large as what layout::place() takes turns over.
constexpr std::uint64_t host_message_bytes = 8 << 20;
constexpr std::uint32_t host_ring_slots = 64;
constexpr std::uint64_t host_ring_bytes = host_ring_slots * ((32 << 10) + layout::header_bytes);
// Small messages on their way from each of the ranks; of 4 KB up to 7 ranks, of 496 bytes where they are many.
constexpr std::uint32_t host_one_way_slots = 32;
constexpr std::uint64_t host_one_way_bytes = 1 << 20;
// See layout::place(): of what a rank writes to all others.
constexpr std::uint64_t host_spread_bytes = 1 << 20;
// Polls before yielding where ranks outnumber processors, and where each has one: some 300 us. Who yields sooner,
// on a machine with other work, loses a slice of milliseconds to that whenever a peer takes longer than a small
// message (2 MB of an allreduce took 67 ms beside compilers, of which every chunk waited for several such slices;
// with 100 us it was as fast as alone, but the sender of 2 MB, who waits for 240 us, took 12 ms).
constexpr int crowded_polls = 50, patient_polls = 400'000;
// What a rank on a busy machine may need to answer another, however short the deadline of calls is.
constexpr std::int64_t least_handshake_ms = 1000;

}  // namespace

result communicator::create(int ranks, int rank, const allgather_function& exchange,
                            std::unique_ptr<communicator>& out, std::optional<int> device) {
  parameters p;
  result read = or_out_of_memory([&] { return read_parameters(::environ, p); });
  if (read.ok()) set_log_level(p.debug);
  release_retired();
  // Also with a wrong environment the others are joined, so that they learn of it instead of waiting.
  std::unique_ptr<communicator> c(new communicator(ranks, rank, p));
  layout map = control_board::behind(
      layout::make(static_cast<std::uint32_t>(ranks), 1, host_packet_bytes, host_bulk_bytes,
                   std::min(host_message_bytes, static_cast<unsigned>(ranks) * host_ring_bytes), host_ring_slots)
          .with_one_way(host_one_way_slots, host_one_way_bytes, selection::most_one_way_bytes));
  map.spread = host_spread_bytes / static_cast<unsigned>(std::max(1, ranks - 1));
  // A rank that waits for the answer of a stopped one must be back, to name it, before others give up on itself.
  peer_ways ways;
  ways.handshake_ms =
      static_cast<int>(std::clamp<std::int64_t>(p.timeout_ns / 2'000'000, least_handshake_ms, ways.handshake_ms));
  // Ranks come to their initialisation later than to a call: programs start, devices are opened.
  ways.allgather = {std::max(p.timeout_ns, p.connect_timeout_ns), p.timeout_warning_ns};
  XYL_TRY(peer_group::create(rank, exchange, map, c->peers_, ways));
  XYL_TRY(c->choose_polls());
  // Nor may a lack of memory between two exchanges keep this rank from the next.
  result ready = or_out_of_memory([&] { return c->connect_host(map); });
  XYL_TRY(c->peers_->agree(read.ok() ? std::move(ready) : std::move(read)));
  XYL_TRY(c->find_out_about_reading());
  XYL_TRY(c->connect_device(device));
  XYL_TRY(c->probe_host_memory());
  XYL_TRY(c->agree_on_selection());
  out = std::move(c);
  return {};
}

// Collective. Of all ranks, which are on this machine, together: launchers like to bind each to a processor of its
// own.
result communicator::choose_polls() {
  host_facts mine{{}, ::getpid(), parameters_.probe == probe_use::always ? 1 : 0};
  cpu_set_t together{};
  // Stays empty on a machine with more processors than the set has room for.
  if (::sched_getaffinity(0, sizeof mine.processors, &mine.processors) != 0) mine.processors = {};
  XYL_TRY(peers_->exchange(&mine, hosts_.data(), sizeof mine));
  for (const host_facts& one : hosts_) CPU_OR(&together, &together, &one.processors);
  const int processors = CPU_COUNT(&together);
  if (processors != 0) polls_before_yielding_ = ranks_ > processors ? crowded_polls : patient_polls;
  return {};
}

// Collective. Nothing is doubted there, so it is done where rank 0 asks for it, and no device was probed.
result communicator::probe_host_memory() {
  if (ranks_ == 1 || hosts_[0].probes != 1 || device_number_ >= 0) return {};
  result verdict;
  return probe_links(verdict);
}

result communicator::connect_host(const layout& map) {
  host_call_.rank = rank_;
  host_call_.ranks = ranks_;
  host_call_.map = map;
  std::vector<control_block*> controls;
  std::vector<control_board*> boards;
  for (int r = 0; r < ranks_; ++r) {
    boards.push_back(reinterpret_cast<control_board*>(peers_->workspace(r) + control_board::offset_in(map)));
    host_call_.workspace[r] = peers_->workspace(r);
    controls.push_back(reinterpret_cast<control_block*>(peers_->workspace(r)));
  }
  control_block& own = *controls[static_cast<std::size_t>(rank_)];
  own.call.epoch = epoch_zero;
  const wait_limits limits{parameters_.timeout_ns, parameters_.timeout_warning_ns, polls_before_yielding_};
  waits_ = std::make_unique<host_wait>(
      std::move(controls), rank_, limits, [this](int peer) { return peers_->departed(peer); },
      [this](const host_wait::subject& what, std::int64_t waited_ns) { warn_of_wait(what, waited_ns); });
  waits_->describe_calls_by(host_call_.record);
  waits_->ask_about_calls([this](const host_wait::subject& what, std::int64_t waited_ns) {
    return has_called_another(what, waited_ns);
  });
  reductions_ = &choose_host_reductions(parameters_.host_instructions);
  rows_ = &choose_host_rows(parameters_.host_instructions);
  space_ = std::make_unique<host_space>(*waits_, own);
  control_ = std::make_unique<control_allgather>(std::move(boards), rank_, *waits_);
  bring_in_places();
  return {};
}

// Where messages take turns, of all that this rank writes and reads.
void communicator::bring_in_places() {
  const layout& map = host_call_.map;
  const std::uint64_t bytes = std::min(map.spread, map.bulk_stride) / 4096 * 4096;
  for (int holder = 0; holder < ranks_ && ranks_ > 1; ++holder)
    for (int source = 0; source < ranks_; ++source)
      if (holder == rank_ || source == rank_ || source == holder)
        for (const unsigned slot : {0u, 1u})
          sealed_memory::bring_in(
              host_call_.workspace[holder] + map.bulk_offset(slot, static_cast<unsigned>(source)), bytes);
}

// Collective, whatever this rank's environment says: rank 0's decides.
result communicator::find_out_about_reading() {
  if (ranks_ == 1) return {};
  XYL_TRY(reading_.attempt(*peers_, read_process_memory));
  space_->reach(reading_.processes(), read_process_memory);
  if (reading_.allowed() || parameters_.single_copy == single_copy_use::never) return {};
  // For want of memory it goes unsaid.
  static_cast<void>(or_out_of_memory([&] {
    log_line(log_level::info, rank_, "long messages in host memory are staged: %s", reading_.why_not().c_str());
    return result();
  }));
  return {};
}

communicator::~communicator() {
  if (device_) {
    // Work that waits for a dead peer ends by itself; see cuda_space.
    if (result drained = device_->drain(); !drained.ok())
      log_line(log_level::warn, rank_, "destroy: %s", drained.text().c_str());
    for (const std::unique_ptr<window>& w : windows_.all())
      if (w) close_window(*w);
    device_->disconnect();
  }
  // Told before this process can end: nobody is to take that for a death.
  if (staging_) staging_->depart();
  if (peers_) retire(std::move(peers_), std::move(device_));
}

call_record communicator::record_of(const request& r, int operation, bool device) const {
  call_record record;
  record.what = r.what;
  record.type = static_cast<std::uint8_t>(r.type);
  record.operation = static_cast<std::uint8_t>(operation);
  record.device = device ? 1 : 0;
  record.root = static_cast<std::uint32_t>(r.root);
  record.count = r.count;
  record.selection = selection_hash_;
  find_places(r, record);
  return record;
}

// A peer that waits for another call of this rank would wait for ever, if this one waits for it. Whatever a peer
// did in calls before is seen by who sees that it has begun this. So who has waited for long in a one-way call,
// which has no header, says in which. A peer that found the communicator out of service does not even begin: who
// goes on because calls that differ are of no concern to it does so for a while only.
epoch_t communicator::has_called_another(const host_wait::subject& what, std::int64_t waited_ns) {
  constexpr std::int64_t a_while_ns = 200'000'000;
  const epoch_t last = own_control().call.epoch, next = next_epoch(last);
  if (what.whom.what == phase::control || what.epoch != (is_one_way_ ? last : next)) return 0;  // of pairs
  const auto peer = static_cast<unsigned>(what.whom.peer);
  const host_call& c = host_call_;
  if (!is_one_way_) {
    const std::uint64_t number = next_one_way(c, what.whom.peer);
    const auto* const message = at<const line>(c, rank_, c.map.one_way_offset(peer, number));
    return host_space::arrived(message, static_cast<std::uint32_t>(number)) ? next : 0;
  }
  for (int p = 0; p < ranks_ && noted_ != one_way_calls_; ++p)
    space_->put(at<line>(c, p, c.map.one_way_note(static_cast<unsigned>(rank_))), c.fingerprint, one_way_calls_);
  noted_ = one_way_calls_;
  // The peer's next call with an epoch, another of its one-way calls, or this one by its number.
  const auto* const header = at<const line>(c, rank_, c.map.header_line(c.map.slot(next), peer, 0));
  const bool has =
      host_space::arrived(header, packet_epoch(next)) ||
      host_space::differs(at<const line>(c, rank_, c.map.one_way_note(peer)), one_way_calls_, c.fingerprint);
  return has || (waited_ns > a_while_ns && waits_->out_of_service()) ? next : 0;
}

result communicator::explain(const call_record& mine) {
  const std::uint64_t word = waits_->poison_word();
  if (word == explained_word_ && !explanation_.ok())
    return error(explanation_.code(), "%s #%llu was not begun, because of an earlier call: %s",
                 describe_call(mine).c_str(), static_cast<unsigned long long>(calls_), explanation_.text().c_str());
  std::vector<const control_block*> controls;
  for (int r = 0; r < ranks_; ++r) controls.push_back(reinterpret_cast<const control_block*>(peers_->workspace(r)));
  result why =
      explain_poison(word, controls, rank_, mine, calls_, [this](int peer) { return peers_->describe(peer); });
  explanation_ = result(why.code(), why.text());
  explained_word_ = word;
  return why;
}

result communicator::leave_host_call() {
  waits_->note_call();
  return explain(host_call_.record);
}

void communicator::warn_of_wait(const host_wait::subject& what, std::int64_t waited_ns) const {
  log_line(log_level::warn, rank_,
           "rank %d has waited %.0f s for %s in %s #%llu (%s); giving up after %.0f s (XYLEM_TIMEOUT)", rank_,
           static_cast<double>(waited_ns) * 1e-9, peers_->describe(what.whom.peer).c_str(),
           describe_call(host_call_.record).c_str(), static_cast<unsigned long long>(calls_),
           describe_phase(what.whom.what), static_cast<double>(parameters_.timeout_ns) * 1e-9);
}

result communicator::memory_of(const void* send, const void* recv, memory_kind& kind) const {
  kind = memory_kind::host;
  if (!device_) {
    if (device_memory_.holds(send) || device_memory_.holds(recv))
      return error(xylInvalidArgument, "%s is in device memory, which this communicator cannot use: %s",
                   device_memory_.holds(send) ? "send" : "recv", no_device_reason_.c_str());
    return {};
  }
  const memory_kind sending = device_->classify(send), receiving = device_->classify(recv);
  for (const auto& [k, which] : {std::pair{sending, "send"}, std::pair{receiving, "recv"}})
    if (k == memory_kind::other_device)
      return error(xylInvalidArgument, "%s lies in the memory of another device than this communicator's (%d)",
                   which, device_number_);
  if (sending != receiving)
    return error(xylInvalidArgument, "send is in %s memory and recv in %s memory; both must be the same",
                 sending == memory_kind::host ? "host" : "device",
                 receiving == memory_kind::host ? "host" : "device");
  kind = sending;
  return {};
}

void communicator::abort() { peers_->abort(xylRemoteError); }

xylResult_t communicator::async_error() const {
  const std::uint64_t word = waits_->poison_word();
  return word == 0 ? xylSuccess : code_for(word, rank_);
}

}  // namespace xyl
