// SPDX-License-Identifier: BSD-3-Clause
//
// The execution space of src/proto/space.hpp for a CUDA block: a lane is a thread. Everything that is particular to
// the machine's memory is in this file, cuda_space_machine.cuh and cuda_space_faults.cuh, and nowhere else.
//
// Memory that peers write lies in device memory, of this GPU or mapped from another one or another process, or,
// where GPUs cannot reach each other, in pinned host memory; so every access that synchronises has system scope.
// What this rank alone uses lies in device memory always. Bulk data moves with ordinary loads and stores: a flag's
// release and acquire, joined with the barrier of the block, orders them, and an acquire makes the multiprocessor
// forget what its first-level cache held. Never is such memory read through the non-coherent path; nothing here is
// __restrict__.
//
// Kernels never trap and never wait for ever. A wait that goes on looks at the poison word in this rank's
// workspace every `polls_per_look` polls; that costs nothing worth mentioning. Host memory is a trip over PCIe, so
// only one lane of a block at a time looks there, every 20 us after the first 100.
#pragma once

#include "kernels/cuda_space_faults.cuh"
#include "proto/partition.hpp"
#include "proto/space.hpp"
#include "proto/turn.hpp"
#include "xylem/xylem.h"

namespace xyl {

template <int Capacity>
class cuda_space {
 public:
  explicit __device__ __forceinline__ cuda_space(const kernel_arguments<Capacity>& given) : given_(given) {}

  __device__ __forceinline__ unsigned lane() const { return threadIdx.x; }
  __device__ __forceinline__ unsigned lanes() const { return blockDim.x; }
  __device__ __forceinline__ unsigned block() const { return blockIdx.x; }
  __device__ __forceinline__ unsigned blocks() const { return gridDim.x; }
  // Behind read_turn().
  __device__ __forceinline__ epoch_t epoch() const { return epoch_; }
  // This block's part of what a launch divides among its blocks; the host did the division.
  __device__ __forceinline__ range part(std::uint64_t total) const {
    const std::uint64_t begin = given_.units_of_block * blockIdx.x, end = begin + given_.units_of_block;
    return {begin < total ? begin : total, end < total ? end : total};
  }
  __device__ __forceinline__ void sync() { __syncthreads(); }
  __device__ __forceinline__ bool all(bool verdict) { return __syncthreads_and(verdict) != 0; }

  // Every lane reads the turn and the poison, so the trip to memory overlaps with loads that were begun before, and
  // nothing has to be handed around. The block enters after the barrier: all its lanes have read the turn by then,
  // so none can see what the entry leads to (same word, and the barrier orders the reads before the addition). What
  // the last launch of this communicator did is visible because kernels of one stream, or of streams joined by
  // events, follow each other.
  __device__ __forceinline__ bool begin() {
    begin_early();
    return join();
  }

  // The first third: the launch. Nothing that an earlier one may have written (the user's buffers, the turn, the
  // workspace) is touched before that has ended.
  __device__ __forceinline__ void begin_early() {
    machine::fetch_arguments(given_, 0, sizeof given_);
    machine::await_earlier_launches();
    word_ = machine::load_turn(&own().call.turn);
    poisoned_ = machine::load_relaxed(&own().poisoned.word);
  }

  // The second: what is known without the other lanes. Who makes anything of the turn waits for it, so whatever else
  // a lane needs early is asked for before.
  __device__ __forceinline__ void read_turn() {
    if (knows_epoch_) return;
    learn_epoch();
    describe_block();
  }

  // Neither: launches of pairs do not take turns. The turn word stands still while no collective runs beside this.
  __device__ __forceinline__ bool begin_pair() {
    epoch_ = poison::epoch_of_pairs(turn::epoch(machine::load_turn(&own().call.turn)));
    knows_epoch_ = true;
    describe_block();
    return __syncthreads_or(machine::load_relaxed(&own().poisoned.word) != 0) == 0;
  }

  // The third: the block enters, and its lanes agree.
  __device__ __forceinline__ bool join() {
    read_turn();
    const bool is_poisoned = poison::concerns(poisoned_, epoch_, true);
    const bool ends_here = __syncthreads_or(is_poisoned || turn::is_busy(word_)) != 0;
    if (threadIdx.x == 0) machine::add_turn(&own().call.turn, turn::enter_weight(blockIdx.x, gridDim.x));
    if (!ends_here) [[likely]]
      return true;
    if (is_poisoned)
      faults::pass_on(poisoned_);
    else if (turn::is_busy(word_))
      // Another launch of this communicator is running: streams without an order between them. Said in the name of
      // the call before, which is the one that runs: that one must end too, here and on the peers.
      faults::give_up(xylInvalidUsage, waiting{given_.what.rank, phase::none}, 0, turn::inside(word_), 1);
    return false;
  }

  // The next launch waits in begin_early() until this one has ended, so there are never more than two of a
  // communicator on the device, for which the grids leave room. But the next launch may be somebody else's, as
  // large as the device. Once this block has sent, every block of this launch runs or can run; where peers share
  // the device theirs may not, so there it must have heard of them (`late`).
  __device__ __forceinline__ void sent() {
    if (given_.overlap == launch_overlap::early) machine::let_next_launch_start();
  }
  __device__ __forceinline__ void received() {
    if (given_.overlap == launch_overlap::late) machine::let_next_launch_start();
  }

  // Nobody waits for this: the next launch begins when this one's memory operations are done.
  __device__ __forceinline__ void leave() {
    if (threadIdx.x == 0) machine::add_turn(state_of_block.turn, turn::leave_weight);
  }

  // Release, by whatever order of flags: what this lane wrote, and what it knows of through the block's barrier, is
  // visible to whoever acquires.
  __device__ __forceinline__ void post(flag* f, epoch_t e) { machine::post_flag(given_.flags, &f->epoch, e); }

  __device__ __forceinline__ bool await(const flag* f, epoch_t e, waiting w) {
    patience p;
    for (;;) {
      // Acquire: the peer's data, written before it posted, is read after this.
      const epoch_t seen = machine::look_at_flag(given_.flags, &f->epoch);
      if (seen >= e) [[likely]] {
        machine::flag_was_seen(given_.flags);
        return true;
      }
      if (is_over(p, w, e, seen)) return false;
    }
  }

  // Relaxed: data and epoch are one word.
  __device__ __forceinline__ void put(line* l, std::uint64_t data, std::uint32_t packet) {
    const std::uint64_t tag = static_cast<std::uint64_t>(packet) << 32;
    machine::store_line(l, tag | (data & 0xffffffffu), tag | data >> 32);
  }

  template <int N>
  __device__ __forceinline__ bool get_all(const line* const (&lines)[N], std::uint32_t packet,
                                          std::uint64_t (&data)[N], waiting w) {
    return poll<N, false>(lines, packet, data, w, -1, 0);
  }

  // The lines of N ranks, which lie `stride` bytes apart, but for that of rank `skip`, whose data stays as it is.
  // It is loaded like the others, as loads under a condition would be (see poll()), from where nobody writes. Less
  // code than get_all(), and what is needed once in many polls stands apart: where several processes share a device
  // a small call is about as long as its instructions take to be fetched.
  template <int N>
  __device__ __forceinline__ bool get_row(const line* first, std::uint64_t stride, int skip, std::uint32_t packet,
                                          std::uint64_t (&data)[N], waiting w) {
    return poll_row<N>(
        first, stride, [&](int i) { return i != skip; }, packet, data, w);
  }

  // As get_all(), and the last line is the header of rank `source` (null: none): what does not carry the
  // fingerprint is refused as soon as it is seen, since the packets may never come then.
  template <int N>
  __device__ __forceinline__ bool get_all_and_header(const line* const (&lines)[N], std::uint32_t packet,
                                                     std::uint64_t (&data)[N], waiting w, int source,
                                                     std::uint64_t fingerprint) {
    return poll<N, true>(lines, packet, data, w, source, fingerprint);
  }

  // Release: what earlier launches of this device wrote happens before this one, and is visible to whoever hears of
  // it. Nothing of this launch is waited for, since its blocks have written nothing yet. As wide as flags are.
  __device__ __forceinline__ void announce(line* l, std::uint64_t data, std::uint32_t packet) {
    machine::fence_as(given_.flags);
    put(l, data, packet);
  }

  // Relaxed polls, then an acquire of a word that they found: it reads what announce() wrote (the line stays as it
  // is until this call is over), so that what came before that is visible to this lane, and by the block's barrier
  // to the others.
  template <int N>
  __device__ __forceinline__ bool hear(const line* const (&lines)[N], std::uint32_t packet,
                                       std::uint64_t (&data)[N], waiting w) {
    if (!get_all<N>(lines, packet, data, w)) return false;
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (lines[i] != nullptr) (void)machine::look_at_flag(given_.flags, &lines[i]->word[1]);
    machine::flag_was_seen(given_.flags);
    return true;
  }

  __device__ __forceinline__ void refuse(waiting w, std::uint64_t wanted, std::uint64_t seen) {
    faults::give_up(xylInvalidUsage, w, wanted, seen, 0);
  }

  // See proto/grouped_packet.hpp. The launch brings the room.
  __device__ __forceinline__ unsigned lanes_of_group(int) const { return given_.lanes_of_group; }
  __device__ __forceinline__ std::uint64_t* shared_words() const {
    extern __shared__ std::uint64_t words[];
    return words;
  }

  __device__ __forceinline__ unit16 load16(const unit16* from) const { return machine::load_unit(from); }
  // An ordinary load: the first-level cache may keep it, and forgets it at the next acquire.
  __device__ __forceinline__ unit16 load_peer16(const unit16* from) const { return machine::load_unit(from); }
  __device__ __forceinline__ void store16(unit16* to, unit16 data) { machine::store_unit(to, data); }
  __device__ __forceinline__ unit16 load_once16(const unit16* from) const { return machine::load_unit_once(from); }
  static constexpr unsigned line_bytes = 128;
  __device__ __forceinline__ void fetch_line(const void* from) const { machine::fetch_line(from); }
  __device__ __forceinline__ void store_once16(unit16* to, unit16 data) { machine::store_unit_once(to, data); }

 protected:
  static constexpr unsigned polls_per_look = 128;

  struct patience {
    unsigned polls = 0;
    std::uint64_t since = 0;  // 0: not waited long enough to look at the time
  };

  using faults = wrong<Capacity>;

  __device__ __forceinline__ void learn_epoch() {
    if (knows_epoch_) return;
    epoch_ = turn::epoch(word_);
    knows_epoch_ = true;
  }
  // For whoever gives up, behind the barrier that follows.
  __device__ __forceinline__ void describe_block() {
    if (threadIdx.x == 0) state_of_block = {0, 0, &given_, epoch_, &own().call.turn};
  }

  __device__ __forceinline__ control_block& control() const {
    return *reinterpret_cast<control_block*>(given_.what.workspace[given_.what.rank]);
  }
  // The turn and the recorder are in this one, and what is known here of poison: a launch begins with it.
  __device__ __forceinline__ control_block& own() const {
    return *reinterpret_cast<control_block*>(given_.what.own);
  }

 private:
  template <int N, class Wanted>
  __device__ __forceinline__ bool poll_row(const line* first, std::uint64_t stride, Wanted is_wanted,
                                           std::uint32_t packet, std::uint64_t (&data)[N], waiting w) {
    const auto at = [&](int i) {
      return reinterpret_cast<const line*>(reinterpret_cast<const std::byte*>(first) + i * stride);
    };
    patience p;
    for (;;) {
      std::uint64_t word[N][2];
#pragma unroll
      for (int i = 0; i < N; ++i) machine::load_line(at(i), word[i]);
      std::uint32_t different = 0;
#pragma unroll
      for (int i = 0; i < N; ++i) different |= is_wanted(i) ? is_other(word[i], packet) : 0;
      if (different == 0) [[likely]] {
#pragma unroll
        for (int i = 0; i < N; ++i)
          if (is_wanted(i)) data[i] = (word[i][0] & 0xffffffffu) | word[i][1] << 32;
        return true;
      }
      if (++p.polls % polls_per_look != 0) [[likely]]
        continue;
      int lacks = 0;
      std::uint64_t seen = 0;
#pragma unroll 1
      for (int i = N - 1; i >= 0; --i) {
        std::uint64_t again[2];
        machine::load_line(at(i), again);
        if (!is_wanted(i) || is_other(again, packet) == 0) continue;
        lacks = i;
        seen = again[1] >> 32;
      }
      p.since = faults::look(p.since, w.of_line(lacks), packet, seen);
      if (p.since == faults::over) return false;
    }
  }

  template <int N, bool Header>
  __device__ __forceinline__ bool poll(const line* const (&lines)[N], std::uint32_t packet,
                                       std::uint64_t (&data)[N], waiting w, int source, std::uint64_t fingerprint) {
    // Every line is loaded in every round, those that have come and those that are nobody's too (from a place that
    // can be read): loads under a condition share predicates and registers, and wait for each other. Eight lines
    // under conditions took 3 us a trip, of which 2 were this.
    const line* from[N];
#pragma unroll
    for (int i = 0; i < N; ++i) from[i] = lines[i] != nullptr ? lines[i] : reinterpret_cast<const line*>(&own());
    patience p;
    for (;;) {
      std::uint64_t word[N][2];
#pragma unroll
      for (int i = 0; i < N; ++i) machine::load_line(from[i], word[i]);
      std::uint32_t different = 0;
#pragma unroll
      for (int i = 0; i < N; ++i)
        if (lines[i] != nullptr) different |= is_other(word[i], packet);
      const auto payload = [&](int i) { return (word[i][0] & 0xffffffffu) | word[i][1] << 32; };
      if (Header && lines[N - 1] != nullptr && is_other(word[N - 1], packet) == 0 &&
          payload(N - 1) != fingerprint) {
        refuse({source, phase::header}, fingerprint, payload(N - 1));
        return false;
      }
      if (different == 0) [[likely]] {
#pragma unroll
        for (int i = 0; i < N; ++i)
          if (lines[i] != nullptr) data[i] = payload(i);
        return true;
      }
      int lacks = 0;
      std::uint64_t seen = 0;
#pragma unroll
      for (int i = N - 1; i >= 0; --i)
        if (lines[i] != nullptr && is_other(word[i], packet) != 0) {
          lacks = i;
          seen = word[i][1] >> 32;
        }
      const bool lacks_header = Header && lacks == N - 1;
      if (is_over(p, lacks_header ? waiting{source, phase::header} : w.of_line(lacks), packet, seen)) return false;
    }
  }

 protected:
  // Zero if both halves of a line carry that epoch.
  static __device__ __forceinline__ std::uint32_t is_other(const std::uint64_t (&word)[2], std::uint32_t packet) {
    return (static_cast<std::uint32_t>(word[0] >> 32) ^ packet) |
           (static_cast<std::uint32_t>(word[1] >> 32) ^ packet);
  }

  // After a poll in vain: whether to stop waiting.
  __device__ __forceinline__ bool is_over(patience& p, waiting w, std::uint64_t wanted, std::uint64_t seen) {
    if (++p.polls % polls_per_look != 0) [[likely]]
      return false;
    p.since = faults::look(p.since, w, wanted, seen);
    return p.since == faults::over;
  }

 private:
  const kernel_arguments<Capacity>& given_;
  std::uint64_t word_ = 0;      // the turn word as this lane read it
  std::uint64_t poisoned_ = 0;  // the same for this rank's poison
  epoch_t epoch_ = 0;
  bool knows_epoch_ = false;  // the compiler knows where
};

}  // namespace xyl
