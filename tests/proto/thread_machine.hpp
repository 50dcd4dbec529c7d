// SPDX-License-Identifier: BSD-3-Clause
//
// Runs a sequence of calls on ranks whose blocks and lanes are threads, and checks every byte of every output.
// Between two calls the lanes of one rank meet, as a stream's launches do; ranks are never synchronised with each
// other.
#pragma once

#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "proto/run_protocol.hpp"
#include "spaces/thread_space.hpp"

namespace xyl::test {

inline constexpr int machine_capacity = 8;

struct call_plan {
  protocol how = protocol::barrier;
  int kind = 0;
  std::uint64_t count = 0;
  unsigned blocks = 1;
  bool in_place = false;
  bool constant_ranks = false;  // where the kind has such a specialisation
  bool with_addend = false;     // float and constant ranks: see proto/addend.hpp
  unsigned shift = 0;           // user pointers are so many elements off 16-byte alignment (output: one more)
  int odd_rank = -1;            // this rank believes in another count, and if these are set, in other things too
  std::optional<protocol> odd_how = std::nullopt;
  unsigned odd_blocks = 0;

  protocol how_on(int rank) const { return rank == odd_rank ? odd_how.value_or(how) : how; }
  unsigned blocks_on(int rank) const { return rank == odd_rank && odd_blocks ? odd_blocks : blocks; }
};

struct machine_plan {
  int ranks = 2;
  unsigned blocks = 1, lanes = 1;
  epoch_t last_epoch = epoch_zero;
  std::uint64_t seed = 1;
  std::chrono::nanoseconds deadline = std::chrono::seconds(60);
  std::uint64_t packet_bytes_per_rank = 2048, bulk_bytes_per_rank = 4096, wide_bytes_per_rank = 2048;
  std::uint64_t spread = 0;    // see layout::place()
  int absent_rank = -1;        // does not come to a run that is not complete
  std::vector<int> ring = {};  // ranks in the order of the ring; empty: rank order
};

// A user's buffer with guards on both sides.
class guarded_buffer {
 public:
  static constexpr std::size_t guard = 64;
  static constexpr std::byte filling{0x5a};

  guarded_buffer(std::size_t bytes, std::size_t misalignment)
      : bytes_(bytes), begin_(guard + misalignment), storage_((bytes + misalignment + 2 * guard + 15) / 16) {
    std::memset(storage_.data(), static_cast<int>(filling), storage_.size() * 16);
  }
  std::byte* data() { return raw() + begin_; }
  bool guards_untouched() { return is_filling(0, begin_) && is_filling(begin_ + bytes_, storage_.size() * 16); }
  bool untouched() { return is_filling(0, storage_.size() * 16); }

 private:
  std::byte* raw() { return reinterpret_cast<std::byte*>(storage_.data()); }
  bool is_filling(std::size_t begin, std::size_t end) {
    for (; begin < end; ++begin)
      if (raw()[begin] != filling) return false;
    return true;
  }
  std::size_t bytes_, begin_;
  std::vector<unit16> storage_;
};

enum kind_selection { every_kind, float_sum_only };

// Space: derived from thread_space. Call: derived from xyl::call. Kinds: what all-reduces can be run (each costs
// the compiler time).
template <class Space = thread_space, class Call = call<machine_capacity>, kind_selection Kinds = every_kind>
class thread_machine {
 public:
  explicit thread_machine(const machine_plan& plan) : plan_(plan), map_(map_of(plan)) {
    std::vector<std::byte*> workspaces;
    for (int r = 0; r < plan.ranks; ++r) {
      memory_.emplace_back(static_cast<std::byte*>(::operator new (map_.bytes, std::align_val_t{4096})));
      std::memset(memory_.back().get(), 0, map_.bytes);
      workspaces.push_back(memory_.back().get());
    }
    for (int r = 0; r < plan.ranks; ++r) {
      ranks_.push_back(std::make_unique<thread_rank>(r, workspaces, plan.blocks, plan.lanes, plan.deadline));
      ranks_.back()->control(r).call.epoch = plan.last_epoch;
    }
  }

  const layout& map() const { return map_; }
  thread_rank& rank(int r) { return *ranks_[static_cast<unsigned>(r)]; }
  const give_up_record& record(int r) { return rank(r).control(r).gave_up.record; }
  bool poisoned(int r) { return rank(r).control(r).poisoned.word != 0; }
  guarded_buffer& output(int r, std::size_t call) { return buffer_of(r, call, false); }

  // Runs the calls; true if no lane of any rank gave up.
  bool run(const std::vector<call_plan>& calls, bool complete = false) {
    calls_ = calls;
    prepare();
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<lane_barrier>> launches;
    std::atomic<bool> good{true};
    for (int r = 0; r < plan_.ranks; ++r) {
      launches.push_back(std::make_unique<lane_barrier>(plan_.blocks * plan_.lanes));
      if (r == plan_.absent_rank && !complete) continue;
      for (unsigned b = 0; b < plan_.blocks; ++b)
        for (unsigned l = 0; l < plan_.lanes; ++l)
          threads.emplace_back([this, &launch = *launches.back(), &good, r, b, l] {
            for (std::size_t i = 0; i < calls_.size(); ++i) {
              if (b < calls_[i].blocks_on(r) && !run_lane(r, b, l, i)) good.store(false, std::memory_order_relaxed);
              launch.arrive_and_wait();
            }
          });
    }
    for (auto& thread : threads) thread.join();
    return good.load(std::memory_order_relaxed);
  }

  // "" or what is wrong with the outputs of the last run.
  std::string check() {
    for (std::size_t i = 0; i < calls_.size(); ++i)
      for (int r = 0; r < plan_.ranks; ++r) {
        const std::string wrong = check_one(r, i);
        if (!wrong.empty())
          return "call " + std::to_string(i) + " (" + name_of(calls_[i].how) + ", kind " +
                 std::to_string(calls_[i].kind) + ", count " + std::to_string(calls_[i].count) + ", blocks " +
                 std::to_string(calls_[i].blocks) + ") on rank " + std::to_string(r) + ": " + wrong;
      }
    return "";
  }

 private:
  static layout map_of(const machine_plan& plan) {
    const auto ranks = static_cast<unsigned>(plan.ranks);
    layout map = layout::make(ranks, plan.blocks, plan.packet_bytes_per_rank * ranks,
                              plan.bulk_bytes_per_rank * ranks, 0, 4, 0, plan.wide_bytes_per_rank * ranks);
    map.spread = plan.spread;
    map.headers_by_block = plan.seed % 4 == 1;
    return map;
  }

  struct deleter {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{4096}); }
  };

  guarded_buffer& buffer_of(int r, std::size_t call, bool input) {
    return *buffers_[(call * static_cast<unsigned>(plan_.ranks) + static_cast<unsigned>(r)) * 2 + input];
  }
  std::uint64_t seed_of(std::size_t call) const { return plan_.seed * 4099 + call; }

  // The same on all ranks, which only read it.
  void prepare_addends() {
    addends_.clear();
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      addends_.push_back(std::make_unique<guarded_buffer>(calls_[i].count * sizeof(float), 16 * calls_[i].shift));
      for (std::uint64_t k = 0; k < calls_[i].count && calls_[i].with_addend; ++k) {
        const float element = addend_element(i, k);
        std::memcpy(addends_[i]->data() + k * sizeof element, &element, sizeof element);
      }
    }
  }
  float addend_element(std::size_t call, std::uint64_t k) const {
    return input_element<float>(seed_of(call), plan_.ranks, k);
  }

  void prepare() {
    prepare_addends();
    buffers_.clear();
    for (std::size_t i = 0; i < calls_.size(); ++i)
      for (int r = 0; r < plan_.ranks; ++r) {
        const call_plan& c = calls_[i];
        const std::size_t bytes = element_bytes(c.kind);
        buffers_.push_back(std::make_unique<guarded_buffer>(c.count * bytes, bytes * (c.shift + (c.shift > 0))));
        buffers_.push_back(std::make_unique<guarded_buffer>(c.count * bytes, bytes * c.shift));
        with_kind(c.kind, [&]<class Kind>(Kind) {
          using T = typename Kind::element;
          std::byte* const to = buffer_of(r, i, !c.in_place).data();
          for (std::uint64_t k = 0; k < c.count; ++k) {
            const T element = input_element<T>(seed_of(i), r, k);
            std::memcpy(to + k * sizeof(T), &element, sizeof(T));
          }
        });
      }
  }

  bool run_lane(int r, unsigned block, unsigned lane, std::size_t i) {
    const call_plan& plan = calls_[i];
    const protocol how = plan.how_on(r);
    const unsigned blocks = plan.blocks_on(r);
    Call c;
    c.map = decltype(c.map){map_};
    c.output = output(r, i).data();
    c.input = plan.in_place ? c.output : buffer_of(r, i, true).data();
    c.count = plan.count;
    if (plan.with_addend) c.addend = addends_[i]->data();
    c.record.what = how == protocol::barrier ? collective::barrier : collective::all_reduce;
    c.record.type = static_cast<std::uint8_t>(plan.kind);
    c.record.count = plan.count + (r == plan.odd_rank);
    c.fingerprint = fingerprint(c.record);
    c.rank = r;
    c.ranks = plan_.ranks;
    // At once, and in steps of some sizes, whose numbers have room beside the first 2^48 epochs.
    constexpr std::uint32_t steps[] = {0, 1, 3, 8};
    if (plan_.last_epoch < 1ull << 47) c.step_units = steps[(plan_.seed + i) % 4];
    c.pulls = (plan_.seed + i) / 4 % 2;
    const std::uint64_t places = std::uint64_t{2} * layout::step_places * std::max(plan.blocks, plan.odd_blocks);
    if (how == protocol::two_shot && places * c.step_units * 16 > map_.bulk_stride) c.step_units = 1;
    if (!plan_.ring.empty()) c.ring = seat_in(plan_.ring, r);
    for (int p = 0; p < plan_.ranks; ++p) c.workspace[p] = rank(r).workspaces[static_cast<unsigned>(p)];
    Space s(rank(r), block, blocks, lane,
            mix64(plan_.seed + ((i * 8 + static_cast<unsigned>(r)) * 8 + block) * 8 + lane));
    if (how == protocol::barrier) return barrier(s, c);
    if constexpr (requires { s.template all_reduce<kind<float, operation::sum>>(c, how); }) {
      // A space that comes with reductions of its own.
      bool good = false;
      with_kind(plan.kind, [&]<class Kind>(Kind) { good = s.template all_reduce<Kind>(c, how); });
      return good;
    } else if constexpr (Kinds == float_sum_only) {
      return run_protocol<kind<float, operation::sum>, 0>(s, c, how);
    } else {
      bool good = false;
      with_kind(plan.kind, [&]<class Kind>(Kind) {
        if constexpr (Kind::has_constant_ranks) {
          if (plan.constant_ranks && plan_.ranks == 2) return void(good = run_protocol<Kind, 2>(s, c, how));
          if (plan.constant_ranks && plan_.ranks == 4) return void(good = run_protocol<Kind, 4>(s, c, how));
          if (plan.constant_ranks && plan_.ranks == 8) return void(good = run_protocol<Kind, 8>(s, c, how));
        }
        good = run_protocol<Kind, 0>(s, c, how);
      });
      return good;
    }
  }

  std::string check_one(int r, std::size_t i) {
    const call_plan& c = calls_[i];
    if (c.how == protocol::barrier) return output(r, i).untouched() ? "" : "a barrier wrote to a buffer";
    if (!output(r, i).guards_untouched()) return "bytes around the output were written";
    if (!buffer_of(r, i, true).guards_untouched()) return "bytes around the input were written";
    std::string wrong;
    with_kind(c.kind, [&]<class Kind>(Kind) {
      using T = typename Kind::element;
      for (std::uint64_t k = 0; k < c.count && wrong.empty(); ++k) {
        const T given = input_element<T>(seed_of(i), r, k);
        T expected = expected_element<Kind>(c.how, seed_of(i), plan_.ranks, k, c.count, plan_.ring);
        if constexpr (std::is_same_v<T, float>)
          if (c.with_addend) expected = expected + addend_element(i, k);
        if (std::memcmp(output(r, i).data() + k * sizeof(T), &expected, sizeof(T)) != 0)
          wrong = "element " + std::to_string(k) + " is wrong";
        else if (!c.in_place && std::memcmp(buffer_of(r, i, true).data() + k * sizeof(T), &given, sizeof(T)) != 0)
          wrong = "the input was written at element " + std::to_string(k);
      }
    });
    return wrong;
  }

  const machine_plan plan_;
  const layout map_;
  std::vector<std::unique_ptr<std::byte, deleter>> memory_;
  std::vector<std::unique_ptr<thread_rank>> ranks_;
  std::vector<call_plan> calls_;
  std::vector<std::unique_ptr<guarded_buffer>> addends_;  // by call
  std::vector<std::unique_ptr<guarded_buffer>> buffers_;  // (call, rank, output or input)
};

}  // namespace xyl::test
