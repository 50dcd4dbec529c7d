// SPDX-License-Identifier: BSD-3-Clause
//
// What the lanes of a block share in the CUDA space, and how its waits end when something is wrong. It relies on
// what the space's begin() and the like have written there.
#pragma once

#include "kernels/arguments.hpp"
#include "kernels/cuda_space_machine.cuh"
#include "xylem/xylem.h"

namespace xyl {

// What the lanes of a block share, and what is needed when something is wrong: a call of `wrong` is in every wait,
// and what it is given takes registers there.
struct block_state {
  unsigned passed_on;                 // 1 once a lane took it upon itself to tell the host about poison
  unsigned long long next_host_look;  // time from which host memory may be looked at again
  const void* given;                  // the kernel's arguments
  epoch_t epoch;
  std::uint64_t* turn;  // of leave(), which comes last: until then nobody keeps it in registers
};
static __shared__ block_state state_of_block;

// What happens when something is wrong. Never inlined: the way of a good call must stay short, since instructions
// that are jumped over have to be fetched too. Only behind the barrier of begin(), join() or begin_pair().
template <int Capacity>
struct wrong {
  static constexpr std::uint64_t over = ~0ull;
  static constexpr std::uint64_t before_first_host_look_ns = 100'000, between_host_looks_ns = 20'000;

  static __device__ __forceinline__ const kernel_arguments<Capacity>& given() {
    return *static_cast<const kernel_arguments<Capacity>*>(state_of_block.given);
  }
  static __device__ __forceinline__ control_block& control(int rank) {
    return *reinterpret_cast<control_block*>(given().what.workspace[rank]);
  }
  static __device__ __forceinline__ control_block& own() {
    return *reinterpret_cast<control_block*>(given().what.own);
  }

  // A wait goes on since `since` (0: this is its first look). Returns since when, or `over` if it has to stop.
  static __device__ __noinline__ std::uint64_t look(std::uint64_t since, waiting w, std::uint64_t wanted,
                                                    std::uint64_t seen) {
    const std::uint64_t poisoned = machine::load_relaxed(&control(given().what.rank).poisoned.word);
    if (poison::concerns(poisoned, state_of_block.epoch, true)) {
      pass_on(poisoned);
      return over;
    }
    const std::uint64_t now = machine::time_ns();
    if (since == 0) since = now;
    if (now - since < before_first_host_look_ns) return since;
    // Whoever advances the time looks: any lane may be the only one of its block that waits.
    const unsigned long long due = *static_cast<volatile unsigned long long*>(&state_of_block.next_host_look);
    if (now < due || atomicCAS(&state_of_block.next_host_look, due, now + between_host_looks_ns) != due)
      return since;
    const std::uint64_t aborted = machine::load_relaxed(&given().host_control->poisoned.word);
    if (poison::concerns(aborted, state_of_block.epoch, true)) {
      // From the host alone; the other blocks and the launches behind this one see it here.
      poison_word(&control(given().what.rank).poisoned.word, aborted);
      poison_word(&own().poisoned.word, aborted);
      return over;
    }
    if (now - since < given().deadline_ns) return since;
    give_up(xylTimeout, w, wanted, seen, 0);
    return over;
  }

  // Poison that a peer wrote into this rank's workspace becomes visible to its host, and to its launches. What the
  // host knows already stays.
  static __device__ __noinline__ void pass_on(std::uint64_t poisoned) {
    if (atomicExch(&state_of_block.passed_on, 1u) != 0) return;  // one lane is enough
    poison_word(&own().poisoned.word, poisoned);
    poison_word(&given().host_control->poisoned.word, poisoned);
  }

  // The first reason stays, unless it is only that the calls differ, which may not concern a rank that is one call
  // behind (see peer/poisoning.hpp). Two reasons at the same moment may overtake each other; either ends every wait
  // it concerns.
  static __device__ __forceinline__ void poison_word(std::uint64_t* word, std::uint64_t reason) {
    const std::uint64_t found = machine::load_relaxed(word);
    if (found == 0 || (poison::code(found) == poison::calls_differ && poison::code(reason) != poison::calls_differ))
      machine::store_release(word, reason);
  }

  // The first of this rank to come here tells the host why, then everybody that. calls_before: in the name of a
  // call so many before this one.
  static __device__ __noinline__ void give_up(xylResult_t code, waiting w, std::uint64_t wanted, std::uint64_t seen,
                                              unsigned calls_before) {
    const kernel_arguments<Capacity>& all = given();
    const epoch_t epoch = state_of_block.epoch - calls_before;
    if (atomicCAS(&own().call.recorder, 0u, 1u) != 0) return;
    volatile give_up_record& record = all.host_control->gave_up.record;
    record.state = 1;
    record.code = code;
    record.peer = w.peer;
    record.waited_in = w.what;
    record.wanted = wanted;
    record.seen = seen;
    record.epoch = epoch;
    constexpr int words = sizeof(record.call) / sizeof(std::uint64_t);
#pragma unroll 1
    for (int i = 0; i < words; ++i) {
      std::uint64_t word;
      memcpy(&word, reinterpret_cast<const std::byte*>(&all.what.record) + i * sizeof word, sizeof word);
      record.call[i] = word;
    }
    // Release: the host that reads 2 with acquire order reads the fields above. The poison comes after that, so a
    // host that finds it finds the record complete.
    machine::store_release(&record.state, 2u);
    const std::uint64_t poisoned = poison::pack(code, w.peer, epoch, true);
    poison_word(&own().poisoned.word, poisoned);
    poison_word(&all.host_control->poisoned.word, poisoned);
#pragma unroll 1
    for (int i = 0; i < all.what.ranks; ++i) poison_word(&control(i).poisoned.word, poisoned);
  }
};

}  // namespace xyl
