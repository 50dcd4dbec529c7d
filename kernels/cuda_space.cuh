// SPDX-License-Identifier: BSD-3-Clause
//
// The execution space of src/proto/space.hpp for a CUDA block: a lane is a thread. Everything that is particular to
// the machine's memory is in this file and nowhere else.
//
// Memory that peers write lies in device memory, of this GPU or mapped from another one or another process, so
// every access that synchronises has system scope. Bulk data moves with ordinary loads and stores: a flag's release
// and acquire, joined with the barrier of the block, orders them, and an acquire makes the multiprocessor forget
// what its first-level cache held. Never is such memory read through the non-coherent path; nothing here is
// __restrict__.
//
// Kernels never trap and never wait for ever. A wait that goes on looks at the poison word in this rank's device
// memory every `polls_per_look` polls; that costs nothing worth mentioning. Host memory is a trip over PCIe, so
// only one lane of a block at a time looks there, every 20 us after the first 100.
#pragma once

#include "kernels/arguments.hpp"
#include "proto/space.hpp"
#include "proto/turn.hpp"
#include "xylem/xylem.h"

namespace xyl {

namespace machine {

__device__ __forceinline__ void store_release(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
__device__ __forceinline__ std::uint64_t load_acquire(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
__device__ __forceinline__ void store_relaxed(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
__device__ __forceinline__ std::uint64_t load_relaxed(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
// Both words in one access; each is whole, and no order between them is relied on.
__device__ __forceinline__ void store_line(line* to, std::uint64_t first, std::uint64_t second) {
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(first), "l"(second) : "memory");
}
// Under a predicate rather than a branch, so that several of them follow each other without a wait. Without the
// condition `word` is left as it was.
__device__ __forceinline__ void load_line_if(bool condition, const line* from, std::uint64_t (&word)[2]) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2]; }"
               : "+l"(word[0]), "+l"(word[1])
               : "l"(from), "r"(static_cast<unsigned>(condition))
               : "memory");
}
// Ordinary accesses, which the compiler keeps on their side of the accesses above. It is told that the address is
// in global memory, since that is not seen of pointers inside a struct.
__device__ __forceinline__ unit16 load_unit(const unit16* from) {
  __builtin_assume(__isGlobal(from));
  const uint4 v = *reinterpret_cast<const uint4*>(from);
  return {{v.x, v.y, v.z, v.w}};
}
__device__ __forceinline__ void store_unit(unit16* to, unit16 u) {
  __builtin_assume(__isGlobal(to));
  *reinterpret_cast<uint4*>(to) = make_uint4(u.word[0], u.word[1], u.word[2], u.word[3]);
}
__device__ __forceinline__ std::uint64_t add_turn(std::uint64_t* turn, std::uint64_t weight) {
  std::uint64_t before;
  asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;" : "=l"(before) : "l"(turn), "l"(weight) : "memory");
  return before;
}
__device__ __forceinline__ void add_turn_unseen(std::uint64_t* turn, std::uint64_t weight) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(turn), "l"(weight) : "memory");
}
__device__ __forceinline__ std::uint64_t time_ns() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

}  // namespace machine

// What the lanes of a block share; in shared memory.
struct block_state {
  epoch_t epoch;
  unsigned healthy;
  unsigned passed_on;                 // 1 once a lane took it upon itself to tell the host about poison
  unsigned long long next_host_look;  // time from which host memory may be looked at again
};

template <int Capacity>
class cuda_space {
 public:
  __device__ __forceinline__ cuda_space(const kernel_arguments<Capacity>& given, block_state& state)
      : given_(given), state_(state) {}

  __device__ __forceinline__ unsigned lane() const { return threadIdx.x; }
  __device__ __forceinline__ unsigned lanes() const { return blockDim.x; }
  __device__ __forceinline__ unsigned block() const { return blockIdx.x; }
  __device__ __forceinline__ unsigned blocks() const { return gridDim.x; }
  __device__ __forceinline__ epoch_t epoch() const { return epoch_; }
  __device__ __forceinline__ void sync() { __syncthreads(); }
  __device__ __forceinline__ bool all(bool verdict) { return __syncthreads_and(verdict) != 0; }

  // One lane reads for all: one atomic, whose order with the accesses of other blocks does not matter (see
  // turn.hpp), and the poison beside it. What the last launch of this communicator did is visible because kernels
  // of one stream, or of streams joined by events, follow each other.
  __device__ __forceinline__ bool begin() {
    if (threadIdx.x == 0) {
      control_block& mine = control();
      const std::uint64_t turn = machine::add_turn(&mine.call.turn, turn::enter_weight(blockIdx.x, gridDim.x));
      const std::uint64_t poisoned = machine::load_relaxed(&mine.poisoned.word);
      state_.epoch = turn::epoch(turn);
      state_.passed_on = 0;
      state_.next_host_look = 0;
      epoch_ = state_.epoch;
      bool healthy = true;
      if (poisoned != 0) {
        pass_on(poisoned);
        healthy = false;
      } else if (turn::is_busy(turn)) {
        // Another launch of this communicator is running: streams without an order between them.
        give_up(xylInvalidUsage, waiting{given_.what.rank, phase::none}, 0, turn::inside(turn));
        healthy = false;
      }
      state_.healthy = healthy;
    }
    __syncthreads();
    epoch_ = state_.epoch;
    return state_.healthy != 0;
  }

  // Nobody waits for this: the next launch begins when this one's memory operations are done.
  __device__ __forceinline__ void leave() {
    if (threadIdx.x == 0) machine::add_turn_unseen(&control().call.turn, turn::leave_weight);
  }

  // Release: what this lane wrote, and what it knows of through the block's barrier, is visible to whoever
  // acquires.
  __device__ __forceinline__ void post(flag* f, epoch_t e) { machine::store_release(&f->epoch, e); }

  __device__ __forceinline__ bool await(const flag* f, epoch_t e, waiting w) {
    patience p;
    for (;;) {
      // Acquire: the peer's data, written before it posted, is read after this.
      const epoch_t seen = machine::load_acquire(&f->epoch);
      if (seen >= e) return true;
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
    unsigned lacking = 0;
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (lines[i] != nullptr) lacking |= 1u << i;
    patience p;
    for (;;) {
      std::uint64_t word[N][2] = {};
#pragma unroll
      for (int i = 0; i < N; ++i) machine::load_line_if(lacking >> i & 1, lines[i], word[i]);
#pragma unroll
      for (int i = 0; i < N; ++i)
        if ((lacking >> i & 1) && word[i][0] >> 32 == packet && word[i][1] >> 32 == packet) {
          data[i] = (word[i][0] & 0xffffffffu) | word[i][1] << 32;
          lacking &= ~(1u << i);
        }
      if (lacking == 0) return true;
      std::uint64_t seen = 0;
#pragma unroll
      for (int i = N - 1; i >= 0; --i)
        if (lacking >> i & 1) seen = word[i][1] >> 32;
      if (is_over(p, waiting{w.peer + __ffs(static_cast<int>(lacking)) - 1, w.what}, packet, seen)) return false;
    }
  }

  __device__ __forceinline__ void refuse(waiting w, std::uint64_t wanted, std::uint64_t seen) {
    give_up(xylInvalidUsage, w, wanted, seen);
  }

  __device__ __forceinline__ unit16 load16(const unit16* from) const { return machine::load_unit(from); }
  // An ordinary load: the first-level cache may keep it, and forgets it at the next acquire.
  __device__ __forceinline__ unit16 load_peer16(const unit16* from) const { return machine::load_unit(from); }
  __device__ __forceinline__ void store16(unit16* to, unit16 data) { machine::store_unit(to, data); }

 private:
  static constexpr unsigned polls_per_look = 128;
  static constexpr std::uint64_t before_first_host_look_ns = 100'000, between_host_looks_ns = 20'000;

  struct patience {
    unsigned polls = 0;
    std::uint64_t since = 0;  // 0: not waited long enough to look at the time
  };

  __device__ __forceinline__ control_block& control(int rank) const {
    return *reinterpret_cast<control_block*>(given_.what.workspace[rank]);
  }
  __device__ __forceinline__ control_block& control() const { return control(given_.what.rank); }

  // After a poll in vain: whether to stop waiting.
  __device__ __forceinline__ bool is_over(patience& p, waiting w, std::uint64_t wanted, std::uint64_t seen) {
    if (++p.polls % polls_per_look != 0) return false;
    const std::uint64_t poisoned = machine::load_relaxed(&control().poisoned.word);
    if (poisoned != 0) {
      if (atomicExch(&state_.passed_on, 1u) == 0) pass_on(poisoned);
      return true;
    }
    const std::uint64_t now = machine::time_ns();
    if (p.since == 0) p.since = now;
    if (now - p.since < before_first_host_look_ns) return false;
    // Whoever advances the time looks: any lane may be the only one of its block that waits.
    const unsigned long long due = *static_cast<volatile unsigned long long*>(&state_.next_host_look);
    if (now < due || atomicCAS(&state_.next_host_look, due, now + between_host_looks_ns) != due) return false;
    const std::uint64_t aborted = machine::load_relaxed(&given_.host_control->poisoned.word);
    if (aborted != 0) {
      // From the host alone; the other blocks and the launches behind this one see it here.
      machine::store_relaxed(&control().poisoned.word, aborted);
      return true;
    }
    if (now - p.since < given_.deadline_ns) return false;
    give_up(xylTimeout, w, wanted, seen);
    return true;
  }

  // Poison that a peer wrote into device memory becomes visible to this rank's host. What the host knows already
  // stays.
  __device__ __forceinline__ void pass_on(std::uint64_t poisoned) {
    std::uint64_t* const host = &given_.host_control->poisoned.word;
    if (machine::load_relaxed(host) == 0) machine::store_relaxed(host, poisoned);
  }

  // The first of this rank to come here tells the host why, then everybody that.
  __device__ __forceinline__ void give_up(xylResult_t code, waiting w, std::uint64_t wanted, std::uint64_t seen) {
    if (atomicCAS(&control().call.recorder, 0u, 1u) != 0) return;
    volatile give_up_record& record = given_.host_control->gave_up.record;
    record.state = 1;
    record.code = code;
    record.peer = w.peer;
    record.waited_in = w.what;
    record.wanted = wanted;
    record.seen = seen;
    record.epoch = epoch_;
    std::uint64_t packed[4];
    memcpy(packed, &given_.what.record, sizeof packed);
#pragma unroll
    for (int i = 0; i < 4; ++i) record.call[i] = packed[i];
    // Release: the host that reads 2 with acquire order reads the fields above. The poison comes after that, so a
    // host that finds it finds the record complete.
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(&record.state), "r"(2u) : "memory");
    const std::uint64_t poisoned = poison::pack(code, w.peer);
    machine::store_release(&given_.host_control->poisoned.word, poisoned);
    for (int i = 0; i < given_.what.ranks; ++i) machine::store_relaxed(&control(i).poisoned.word, poisoned);
  }

  const kernel_arguments<Capacity>& given_;
  block_state& state_;
  epoch_t epoch_ = 0;
};

}  // namespace xyl
