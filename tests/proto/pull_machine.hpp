// SPDX-License-Identifier: BSD-3-Clause
//
// Runs sequences of calls on registered buffers, with ranks whose blocks and lanes are threads. Every rank has one
// window for its inputs and one for its outputs, used by all its calls at any offset: as soon as a call is over,
// the rank checks its output and writes the next call's input over the last one's, which races with a peer that is
// not done. See thread_machine.hpp.
#pragma once

#include "proto/pull.hpp"
#include "proto/thread_machine.hpp"

namespace xyl::test {

// Behind the reductions for everybody: one of a block for each rank, two for the root alone, and movements, that
// read inputs, write outputs, or read the root's output.
enum class pull_way {
  one_shot,
  two_shot,
  gathered,
  reduce_scatter,
  reduce,
  reduce_gathered,
  all_gather,
  all_to_all,
  all_gather_pushed,
  all_to_all_pushed,
  broadcast
};
inline constexpr pull_way pull_ways[] = {
    pull_way::one_shot,          pull_way::two_shot,   pull_way::gathered,
    pull_way::reduce_scatter,    pull_way::reduce,     pull_way::reduce_gathered,
    pull_way::all_gather,        pull_way::all_to_all, pull_way::all_gather_pushed,
    pull_way::all_to_all_pushed, pull_way::broadcast};
inline constexpr const char* pull_names[] = {"one_shot_pull",       "two_shot_pull",   "gathered_pull",
                                             "reduce_scatter_pull", "reduce_pull",     "gathered_reduce",
                                             "all_gather_pull",     "all_to_all_pull", "all_gather_push",
                                             "all_to_all_push",     "broadcast_pull"};

inline bool is_all_gather(pull_way how) {
  return how == pull_way::all_gather || how == pull_way::all_gather_pushed;
}
inline bool is_all_to_all(pull_way how) {
  return how == pull_way::all_to_all || how == pull_way::all_to_all_pushed;
}
inline bool is_pushed(pull_way how) {
  return how == pull_way::all_gather_pushed || how == pull_way::all_to_all_pushed;
}
inline bool is_reduce(pull_way how) { return how == pull_way::reduce || how == pull_way::reduce_gathered; }
inline bool is_movement(pull_way how) {
  return is_all_gather(how) || is_all_to_all(how) || how == pull_way::broadcast;
}

// Whether input and output may be the same, or one inside the other; at the root, where there is one.
inline bool goes_in_place(pull_way how) {
  return how != pull_way::one_shot && how != pull_way::gathered && !is_all_to_all(how);
}

struct pull_plan {
  pull_way how = pull_way::two_shot;
  int kind = 0;
  std::uint64_t count = 0;  // of a piece
  unsigned blocks = 1;
  bool in_place = false;
  bool constant_ranks = false;
  std::uint64_t offset = 0;  // of the buffers in their windows, in elements
  int odd_rank = -1;         // believes in another place
};

// Call: with a pull_call's members.
template <class Space = thread_space, class Call = pull_call<machine_capacity>, kind_selection Kinds = every_kind>
class pull_machine {
 public:
  // most_bytes: of a window.
  pull_machine(const machine_plan& plan, std::size_t most_bytes)
      : plan_(plan),
        map_(layout::make(static_cast<unsigned>(plan.ranks), plan.blocks,
                          plan.packet_bytes_per_rank * static_cast<unsigned>(plan.ranks),
                          plan.bulk_bytes_per_rank * static_cast<unsigned>(plan.ranks))) {
    std::vector<std::byte*> workspaces;
    for (int r = 0; r < plan.ranks; ++r) {
      memory_.emplace_back(map_.bytes / sizeof(flag));
      std::memset(static_cast<void*>(memory_.back().data()), 0, map_.bytes);
      workspaces.push_back(reinterpret_cast<std::byte*>(memory_.back().data()));
      inputs_.push_back(std::make_unique<guarded_buffer>(most_bytes, 0));
      outputs_.push_back(std::make_unique<guarded_buffer>(most_bytes, 0));
    }
    for (int r = 0; r < plan.ranks; ++r) {
      ranks_.push_back(std::make_unique<thread_rank>(r, workspaces, plan.blocks, plan.lanes, plan.deadline));
      ranks_.back()->control(r).call.epoch = plan.last_epoch;
    }
    wrong_.resize(static_cast<std::size_t>(plan.ranks));
  }

  const layout& map() const { return map_; }
  thread_rank& rank(int r) { return *ranks_[static_cast<unsigned>(r)]; }
  guarded_buffer& output(int r) { return *outputs_[static_cast<unsigned>(r)]; }

  // True if no lane of any rank gave up.
  bool run(const std::vector<pull_plan>& calls) {
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<lane_barrier>> launches;
    std::atomic<bool> good{true};
    for (int r = 0; r < plan_.ranks; ++r) {
      launches.push_back(std::make_unique<lane_barrier>(plan_.blocks * plan_.lanes));
      for (unsigned b = 0; b < plan_.blocks; ++b)
        for (unsigned l = 0; l < plan_.lanes; ++l)
          threads.emplace_back([this, &calls, &launch = *launches.back(), &good, r, b, l] {
            for (std::size_t i = 0; i < calls.size(); ++i) {
              if (b == 0 && l == 0) fill(calls[i], r, i);
              launch.arrive_and_wait();
              if (b < calls[i].blocks && !run_lane(calls[i], r, b, l, i))
                good.store(false, std::memory_order_relaxed);
              launch.arrive_and_wait();
              if (b == 0 && l == 0 && good.load(std::memory_order_relaxed)) check(calls[i], r, i);
            }
          });
    }
    for (auto& thread : threads) thread.join();
    return good.load(std::memory_order_relaxed);
  }

  // "" or what was wrong with the first bad output.
  std::string check() {
    for (int r = 0; r < plan_.ranks; ++r) {
      const auto at = static_cast<std::size_t>(r);
      if (!wrong_[at].empty()) return "rank " + std::to_string(r) + ": " + wrong_[at];
      if (!inputs_[at]->guards_untouched() || !outputs_[at]->guards_untouched())
        return "bytes around a window of rank " + std::to_string(r) + " were written";
    }
    return "";
  }

 private:
  std::uint64_t pieces(pull_way how, bool input) const {
    const bool several = is_all_to_all(how) || (input ? how == pull_way::reduce_scatter : is_all_gather(how));
    return several ? static_cast<std::uint64_t>(plan_.ranks) : 1;
  }
  std::uint64_t seed_of(std::size_t call) const { return plan_.seed * 4099 + call; }

  // Of reduces and broadcasts.
  int root() const { return plan_.ranks - 1; }
  bool gets(const pull_plan& c, int r) const { return !is_reduce(c.how) || r == root(); }
  bool gives(const pull_plan& c, int r) const { return c.how != pull_way::broadcast || r == root(); }

  std::byte* output_of(const pull_plan& c, int r) const {
    const std::uint64_t piece = c.count * element_bytes(c.kind), at = c.offset * element_bytes(c.kind);
    if (!c.in_place || is_all_gather(c.how) || c.how == pull_way::broadcast)
      return outputs_[static_cast<unsigned>(r)]->data() + at;
    return input_of(c, r) + (c.how == pull_way::reduce_scatter ? static_cast<unsigned>(r) * piece : 0);
  }
  std::byte* input_of(const pull_plan& c, int r) const {
    const std::uint64_t piece = c.count * element_bytes(c.kind), at = c.offset * element_bytes(c.kind);
    if (c.in_place && is_all_gather(c.how)) return output_of(c, r) + static_cast<unsigned>(r) * piece;
    if (c.in_place && c.how == pull_way::broadcast) return output_of(c, r);
    return inputs_[static_cast<unsigned>(r)]->data() + at;
  }

  void fill(const pull_plan& c, int r, std::size_t i) {
    std::byte* const to = input_of(c, r);
    if (!c.in_place || !gives(c, r))
      std::memset(output_of(c, r), 0x77, pieces(c.how, false) * c.count * element_bytes(c.kind));
    if (!gives(c, r)) return;
    with_kind(c.kind, [&]<class Kind>(Kind) {
      using T = typename Kind::element;
      for (std::uint64_t k = 0; k < pieces(c.how, true) * c.count; ++k) {
        const T element = input_element<T>(seed_of(i), r, k);
        std::memcpy(to + k * sizeof(T), &element, sizeof(T));
      }
    });
  }

  void check(const pull_plan& c, int r, std::size_t i) {
    std::string& wrong = wrong_[static_cast<std::size_t>(r)];
    const std::byte* const got = output_of(c, r);
    const auto mine = static_cast<std::uint64_t>(r);
    if (!gets(c, r)) {
      const std::byte* const end = got + c.count * element_bytes(c.kind);
      if (!c.in_place && !std::all_of(got, end, [](std::byte b) { return b == std::byte{0x77}; }))
        wrong = "a rank that is not the root has got something";
      return;
    }
    with_kind(c.kind, [&]<class Kind>(Kind) {
      using T = typename Kind::element;
      for (std::uint64_t k = 0; k < pieces(c.how, false) * c.count && wrong.empty(); ++k) {
        const int from = static_cast<int>(k / std::max<std::uint64_t>(1, c.count));
        T want{};
        if (is_all_gather(c.how))
          want = input_element<T>(seed_of(i), from, k % c.count);
        else if (c.how == pull_way::broadcast)
          want = input_element<T>(seed_of(i), root(), k);
        else if (is_all_to_all(c.how))
          want = input_element<T>(seed_of(i), from, mine * c.count + k % c.count);
        else
          want = expected_element<Kind>(protocol::one_shot, seed_of(i), plan_.ranks,
                                        (c.how == pull_way::reduce_scatter ? mine * c.count : 0) + k, 2 * c.count);
        if (std::memcmp(got + k * sizeof(T), &want, sizeof(T)) != 0)
          wrong = "call " + std::to_string(i) + " (" + pull_names[static_cast<int>(c.how)] + ", kind " +
                  std::to_string(c.kind) + ", count " + std::to_string(c.count) + ", blocks " +
                  std::to_string(c.blocks) + ", in place " + std::to_string(c.in_place) + ", offset " +
                  std::to_string(c.offset) + "): element " + std::to_string(k) + " is wrong";
      }
    });
  }

  bool run_lane(const pull_plan& plan, int r, unsigned block, unsigned lane, std::size_t i) {
    const std::uint64_t piece = plan.count * element_bytes(plan.kind);
    Call c;
    c.map = decltype(c.map){map_};
    c.count = plan.count;
    c.record.count = plan.count;
    c.record.send_place = window_place::pack(0, plan.offset + (r == plan.odd_rank));
    c.fingerprint = fingerprint(c.record);
    c.rank = r;
    c.ranks = plan_.ranks;
    c.inputs_aligned = c.outputs_aligned = true;
    for (int p = 0; p < plan_.ranks; ++p) {
      c.workspace[p] = rank(r).workspaces[static_cast<unsigned>(p)];
      const bool has_block_for_us = plan.how == pull_way::reduce_scatter || is_all_to_all(plan.how);
      c.input_of[p] = input_of(plan, p) + (has_block_for_us ? static_cast<unsigned>(r) * piece : 0);
      c.output_of[p] = output_of(plan, p) + (is_pushed(plan.how) ? static_cast<unsigned>(r) * piece : 0);
      c.inputs_aligned = c.inputs_aligned && is_aligned(c.input_of[p], 16);
      c.outputs_aligned = c.outputs_aligned && is_aligned(c.output_of[p], 16);
    }
    c.input = input_of(plan, r);
    c.output = gets(plan, r) ? output_of(plan, r) : nullptr;
    Space s(rank(r), block, plan.blocks, lane,
            mix64(plan_.seed + ((i * 8 + static_cast<unsigned>(r)) * 8 + block) * 8 + lane));
    if (is_movement(plan.how)) {
      movement m;
      m.bytes = m.output_stride = piece;
      if (is_all_to_all(plan.how)) m.input_stride = piece;
      if (plan.how != pull_way::broadcast)
        return pull_exchange(s, c, m, is_pushed(plan.how) ? window_use::outputs : window_use::inputs);
      m.from = root();
      m.output_stride = 0;
      return pull_exchange(s, c, m, window_use::root_output);
    }
    const pull_form form = plan.how == pull_way::two_shot ? pull_form::two_shot
                           : plan.how == pull_way::gathered || plan.how == pull_way::reduce_gathered
                               ? pull_form::gathered
                               : pull_form::one_shot;
    const auto reduce = [&](const auto& red) { return pull_reduce(s, c, red, form); };
    bool good = false;
    const auto of_kind = [&]<class Kind>(Kind) {
      if constexpr (requires { s.template ranged<Kind>(c.ranks); }) {
        good = reduce(s.template ranged<Kind>(c.ranks));
      } else {
        const auto with = [&]<int Ranks>(std::integral_constant<int, Ranks>) {
          reduction<portable_codec<typename Kind::element>, typename Kind::combining, Ranks> red;
          if (Kind::average) red.divisor = static_cast<unsigned>(c.ranks);
          good = reduce(red);
        };
        if constexpr (Kind::has_constant_ranks) {
          if (plan.constant_ranks && plan_.ranks == 2) return with(std::integral_constant<int, 2>());
          if (plan.constant_ranks && plan_.ranks == 4) return with(std::integral_constant<int, 4>());
          if (plan.constant_ranks && plan_.ranks == 8) return with(std::integral_constant<int, 8>());
        }
        with(std::integral_constant<int, 0>());
      }
    };
    if constexpr (Kinds == float_sum_only)
      of_kind(kind<float, operation::sum>{});
    else
      with_kind(plan.kind, of_kind);
    return good;
  }

  const machine_plan plan_;
  layout map_;
  std::vector<std::vector<flag>> memory_;
  std::vector<std::unique_ptr<thread_rank>> ranks_;
  std::vector<std::unique_ptr<guarded_buffer>> inputs_, outputs_;  // by rank
  std::vector<std::string> wrong_;                                 // by rank
};

}  // namespace xyl::test
