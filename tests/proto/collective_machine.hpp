// SPDX-License-Identifier: BSD-3-Clause
//
// Runs sequences of collectives other than allreduce, and of transfers between neighbours, on ranks whose blocks
// and lanes are threads, and checks every byte of every buffer: what thread_machine.hpp is for allreduce.
#pragma once

#include "proto/collective_plan.hpp"
#include "proto/exchange_packet.hpp"
#include "proto/long_swap.hpp"
#include "proto/one_way.hpp"
#include "proto/reduce_to.hpp"
#include "proto/single_copy.hpp"
#include "proto/thread_machine.hpp"
#include "proto/transfer.hpp"

namespace xyl::test {

// Kinds: see thread_machine.hpp.
template <class Space = thread_space, class Call = call<machine_capacity>, kind_selection Kinds = every_kind>
class collective_machine {
 public:
  explicit collective_machine(const machine_plan& plan)
      : plan_(plan),
        map_(layout::make(static_cast<unsigned>(plan.ranks), plan.blocks,
                          plan.packet_bytes_per_rank * static_cast<unsigned>(plan.ranks),
                          plan.bulk_bytes_per_rank * static_cast<unsigned>(plan.ranks))
                 .with_one_way(4, 1 << 20, 2560)) {
    map_.spread = plan.spread;
    std::vector<std::byte*> workspaces;
    for (int r = 0; r < plan.ranks; ++r) {
      memory_.emplace_back(map_.bytes / sizeof(flag));
      std::memset(static_cast<void*>(memory_.back().data()), 0, map_.bytes);  // what lies between the flags too
      workspaces.push_back(reinterpret_cast<std::byte*>(memory_.back().data()));
    }
    for (int r = 0; r < plan.ranks; ++r) {
      ranks_.push_back(std::make_unique<thread_rank>(r, workspaces, plan.blocks, plan.lanes, plan.deadline));
      ranks_.back()->control(r).call.epoch = plan.last_epoch;
    }
  }

  const layout& map() const { return map_; }
  thread_rank& rank(int r) { return *ranks_[static_cast<unsigned>(r)]; }
  guarded_buffer& output(int r, std::size_t call) { return *buffers_of(r, call).out; }

  bool run(const std::vector<collective_plan>& calls) {
    calls_ = calls;
    prepare();
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<lane_barrier>> launches;
    std::atomic<bool> good{true};
    for (int r = 0; r < plan_.ranks; ++r) {
      launches.push_back(std::make_unique<lane_barrier>(plan_.blocks * plan_.lanes));
      for (unsigned b = 0; b < plan_.blocks; ++b)
        for (unsigned l = 0; l < plan_.lanes; ++l)
          threads.emplace_back([this, &launch = *launches.back(), &good, r, b, l] {
            for (std::size_t i = 0; i < calls_.size(); ++i) {
              if (b < calls_[i].blocks && !run_lane(r, b, l, i)) good.store(false, std::memory_order_relaxed);
              launch.arrive_and_wait();
            }
          });
    }
    for (auto& thread : threads) thread.join();
    return good.load(std::memory_order_relaxed);
  }

  std::string check() {
    for (std::size_t i = 0; i < calls_.size(); ++i)
      for (int r = 0; r < plan_.ranks; ++r)
        if (const std::string wrong = check_one(r, i); !wrong.empty()) {
          const collective_plan& c = calls_[i];
          return "call " + std::to_string(i) + " (" + form_names[static_cast<int>(c.how)] + ", collective " +
                 std::to_string(static_cast<int>(c.what)) + ", root " + std::to_string(c.root) + ", kind " +
                 std::to_string(c.kind) + ", count " + std::to_string(c.count) + ", blocks " +
                 std::to_string(c.blocks) + ", in place " + std::to_string(c.in_place) + ", shift " +
                 std::to_string(c.shift) + ") on rank " + std::to_string(r) + ": " + wrong;
        }
    return "";
  }

 private:
  struct buffers {
    std::unique_ptr<guarded_buffer> in, out;  // in place: one of them holds the other
    std::byte *input = nullptr, *output = nullptr;
    std::uint64_t in_bytes = 0, out_bytes = 0;
  };

  // Pieces in a buffer of a rank; 0 where it is not used.
  std::uint64_t pieces(const collective_plan& c, int r, bool input) const {
    const auto all = static_cast<std::uint64_t>(plan_.ranks);
    switch (c.what) {
      case collective::all_gather:
        return input ? 1 : all;
      case collective::all_to_all:
        return all;
      case collective::reduce_scatter:
        return input ? all : 1;
      case collective::broadcast:
        return input ? r == c.root : 1;
      case collective::scatter:
        return input ? (r == c.root ? all : 0) : 1;
      case collective::gather:
        return input ? 1 : (r == c.root ? all : 0);
      case collective::reduce:
        return input ? 1 : r == c.root;
      default:
        return 1;
    }
  }

  buffers& buffers_of(int r, std::size_t call) {
    return buffers_[call * static_cast<unsigned>(plan_.ranks) + static_cast<unsigned>(r)];
  }
  std::uint64_t seed_of(std::size_t call) const { return plan_.seed * 4099 + call; }

  // Byte `at` of what rank r has to give.
  std::vector<std::byte> content(int r, std::size_t i) {
    const collective_plan& c = calls_[i];
    std::vector<std::byte> bytes(pieces(c, r, true) * c.count * element_bytes(c.kind));
    with_kind(c.kind, [&]<class Kind>(Kind) {
      using T = typename Kind::element;
      for (std::uint64_t k = 0; k * sizeof(T) < bytes.size(); ++k) {
        const T element = input_element<T>(seed_of(i), r, k);
        std::memcpy(bytes.data() + k * sizeof(T), &element, sizeof(T));
      }
    });
    return bytes;
  }

  void prepare() {
    buffers_.clear();
    for (std::size_t i = 0; i < calls_.size(); ++i)
      for (int r = 0; r < plan_.ranks; ++r) {
        const collective_plan& c = calls_[i];
        const std::size_t element = element_bytes(c.kind), piece = c.count * element;
        buffers& b = buffers_.emplace_back();
        b.in_bytes = pieces(c, r, true) * piece;
        b.out_bytes = pieces(c, r, false) * piece;
        b.in = std::make_unique<guarded_buffer>(b.in_bytes, element * c.shift);
        b.out = std::make_unique<guarded_buffer>(b.out_bytes, element * (c.shift + (c.shift > 0)));
        b.input = b.in->data();
        b.output = b.out->data();
        const auto mine = static_cast<unsigned>(r);
        if (is_in_place(c, r)) {
          if (b.out_bytes >= b.in_bytes)
            b.input = b.output + (b.out_bytes > b.in_bytes ? mine * piece : 0);
          else
            b.output = b.input + mine * piece;
        }
        const auto bytes = content(r, i);
        if (!bytes.empty()) std::memcpy(b.input, bytes.data(), bytes.size());
      }
  }
  bool is_in_place(const collective_plan& c, int r) const {
    // Whoever takes an alltoall apart in place has to see to it himself.
    if (c.how == form::single_copy && c.what == collective::all_to_all) return false;
    return c.in_place && c.what != collective::send && pieces(c, r, true) && pieces(c, r, false);
  }

  bool run_lane(int r, unsigned block, unsigned lane, std::size_t i) {
    const collective_plan& plan = calls_[i];
    const std::uint64_t piece = plan.count * element_bytes(plan.kind);
    Call c;
    c.map = decltype(c.map){map_};
    c.input = buffers_of(r, i).input;
    c.output = buffers_of(r, i).output;
    c.count = plan.count;
    c.record.what = plan.what;
    c.record.count = plan.count + (r == plan.odd_rank);
    c.fingerprint = fingerprint(c.record);
    c.rank = r;
    c.ranks = plan_.ranks;
    for (int p = 0; p < plan_.ranks; ++p) c.workspace[p] = rank(r).workspaces[static_cast<unsigned>(p)];
    Space s(rank(r), block, plan.blocks, lane,
            mix64(plan_.seed + ((i * 8 + static_cast<unsigned>(r)) * 8 + block) * 8 + lane));
    if (plan.how == form::shift || plan.how == form::long_shift) return run_shift(s, c, plan, piece, block);
    if (plan.how == form::swap) return run_swap(s, c, plan, piece, block);
    if (plan.how >= form::packet_reduce || plan.what == collective::reduce) return run_reduce(s, c, plan, piece);
    movement m;
    m.bytes = piece;
    if (plan.what == collective::all_to_all || plan.what == collective::scatter) m.input_stride = piece;
    if (plan.what == collective::all_to_all || plan.what == collective::all_gather ||
        plan.what == collective::gather)
      m.output_stride = piece;
    if (plan.what == collective::broadcast || plan.what == collective::scatter) m.from = plan.root;
    if (plan.what == collective::gather) m.to = plan.root;
    switch (plan.how) {
      case form::packet:
        if (!moves_whole_units(c.input, c.output, m)) return packet_exchange(s, c, m);
        if (plan_.ranks == 2) return packet_exchange<2>(s, c, m);
        if (plan_.ranks == 8) return packet_exchange<8>(s, c, m);
        return packet_exchange(s, c, m);
      case form::spread:
        return spread_broadcast(s, c, m);
      case form::one_way:
        return one_way_move(s, c, m);
      case form::single_copy: {
        if (block > 0) return true;
        const bool good = single_copy_exchange(s, c, m);
        // The caller may write to its buffer now: a peer that still reads it races with this.
        if (good && lane == 0)
          if (const auto bytes = content(r, i); !bytes.empty())
            std::memcpy(buffers_of(r, i).input, bytes.data(), bytes.size());
        return good;
      }
      default:
        return exchange(s, c, m, plan.how == form::pull);
    }
  }

  // Every rank sends to one neighbour and receives from the other, by half of the blocks each; where there is one
  // block, or a space that can, one after the other in that order.
  bool run_shift(Space& s, Call& c, const collective_plan& plan, std::uint64_t bytes, unsigned block) {
    const unsigned half = plan.blocks / 2;
    transfer out, in;
    out.sends = true;
    out.from = c.input;
    in.to = c.output;
    out.bytes = in.bytes = bytes;
    if (plan.how == form::long_shift)
      out.slot_bytes = in.slot_bytes = static_cast<std::uint32_t>(map_.long_slot_room(half));
    out.fingerprint = in.fingerprint = c.fingerprint;
    out.peer = (c.rank + plan.distance) % c.ranks;
    in.peer = (c.rank - plan.distance + c.ranks) % c.ranks;
    if constexpr (requires { s.transfer_both(c, out, in); }) {
      out.offered = in.offered = plan.offered;
      return s.transfer_both(c, out, in);
    } else {
      out.blocks = in.blocks = static_cast<std::uint16_t>(half);
      const auto run = [&](const transfer& t, unsigned of_transfer) {
        if (plan.only >= 0 && plan.only != (t.sends ? c.rank : t.peer)) return true;
        return t.is_long() ? run_long_transfer(s, c, t, of_transfer) : run_transfer(s, c, t, of_transfer);
      };
      return block < half ? run(out, block) : block >= 2 * half || run(in, block - half);
    }
  }

  bool run_swap(Space& s, Call& c, const collective_plan& plan, std::uint64_t bytes, unsigned block) {
    const auto of = [bytes](int rank) { return bytes * static_cast<unsigned>(rank); };
    const bool is_for_each = plan.what != collective::all_gather, sums = plan.what == collective::reduce_scatter;
    swapped both;
    transfer& out = both.out;
    out.peer = 1 - c.rank;
    out.sends = true;
    out.from = c.input + (is_for_each ? of(out.peer) : 0);
    out.bytes = bytes;
    out.fingerprint = c.fingerprint;
    out.blocks = static_cast<std::uint16_t>(plan.blocks);
    out.slot_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(map_.long_slot_room(plan.blocks), 256));
    both.in = out;
    both.in.sends = false;
    both.in.to = c.output + (sums ? 0 : of(out.peer));
    const std::byte* const own = c.input + (is_for_each ? of(c.rank) : 0);
    if (!sums) return swap_messages(s, c, both, own, c.output + of(c.rank), block);
    bool good = false;
    c.input = own;
    const auto of_kind = [&]<class Kind>(Kind) {
      reduction<portable_codec<typename Kind::element>, typename Kind::combining> red;
      if (Kind::average) red.divisor = static_cast<unsigned>(c.ranks);
      good = swap_and_reduce(s, c, red, both, block);
    };
    if constexpr (Kinds == float_sum_only)
      of_kind(kind<float, operation::sum>{});
    else
      with_kind(plan.kind, of_kind);
    return good;
  }

  bool run_reduce(Space& s, Call& c, const collective_plan& plan, std::uint64_t piece) {
    const bool scatters = plan.what == collective::reduce_scatter;
    const reduce_target target{scatters ? piece : 0, scatters ? movement::everyone : plan.root};
    bool good = false;
    const auto of_kind = [&]<class Kind>(Kind) {
      const auto with = [&](const auto& red) {
        if constexpr (
            requires { red.codec::per_word; } || requires { red.per_word; })
          if (plan.how == form::packet_reduce) return void(good = packet_reduce(s, c, red, target));
        if (plan.how == form::one_way) return void(good = one_way_reduce(s, c, red, plan.root));
        good =
            plan.how == form::two_phase ? two_phase_reduce(s, c, red, plan.root) : direct_reduce(s, c, red, target);
      };
      if constexpr (requires { s.template ranged<Kind>(c.ranks); }) {
        with(s.template ranged<Kind>(c.ranks));
      } else {
        reduction<portable_codec<typename Kind::element>, typename Kind::combining> red;
        if (Kind::average) red.divisor = static_cast<unsigned>(c.ranks);
        with(red);
      }
    };
    if constexpr (Kinds == float_sum_only)
      of_kind(kind<float, operation::sum>{});
    else
      with_kind(plan.kind, of_kind);
    return good;
  }

  int sender_to(const collective_plan& c, int r) const { return (r - c.distance + plan_.ranks) % plan_.ranks; }

  // The bytes that a rank's output must hold.
  std::vector<std::byte> expected(int r, std::size_t i) {
    const collective_plan& c = calls_[i];
    const std::uint64_t piece = c.count * element_bytes(c.kind);
    std::vector<std::byte> bytes(buffers_of(r, i).out_bytes);
    if (bytes.empty()) return bytes;
    if (c.what == collective::reduce || c.what == collective::reduce_scatter) {
      with_kind(c.kind, [&]<class Kind>(Kind) {
        using T = typename Kind::element;
        const std::uint64_t first = c.what == collective::reduce_scatter ? static_cast<unsigned>(r) * c.count : 0;
        for (std::uint64_t k = 0; k < c.count; ++k) {
          const T element =
              expected_element<Kind>(protocol::one_shot, seed_of(i), plan_.ranks, first + k, first + c.count);
          std::memcpy(bytes.data() + k * sizeof(T), &element, sizeof(T));
        }
      });
      return bytes;
    }
    const std::uint64_t out_stride = pieces(c, r, false) > 1 ? piece : 0;
    for (int p = 0; p < plan_.ranks; ++p) {
      if ((c.what == collective::broadcast || c.what == collective::scatter) && p != c.root) continue;
      if (c.what == collective::send && p != sender_to(c, r)) continue;
      const auto theirs = content(p, i);
      const std::uint64_t in_stride = pieces(c, p, true) > 1 ? piece : 0;
      std::memcpy(bytes.data() + static_cast<unsigned>(p) * out_stride,
                  theirs.data() + static_cast<unsigned>(r) * in_stride, piece);
    }
    return bytes;
  }

  std::string check_one(int r, std::size_t i) {
    buffers& b = buffers_of(r, i);
    if (!b.in->guards_untouched()) return "bytes around the input were written";
    if (!b.out->guards_untouched()) return "bytes around the output were written";
    const collective_plan& c = calls_[i];
    if (c.what == collective::send && c.only >= 0 && c.only != sender_to(c, r))
      return b.out->untouched() ? "" : "the output of a rank that got nothing was written";
    const auto want = expected(r, i);
    for (std::size_t k = 0; k < want.size(); ++k)
      if (b.output[k] != want[k]) return "byte " + std::to_string(k) + " of the output is wrong";
    const auto given = content(r, i);
    for (std::size_t k = 0; k < given.size(); ++k) {
      const std::byte* const at = b.input + k;
      if (is_in_place(calls_[i], r) && at >= b.output && at < b.output + want.size()) continue;
      if (*at != given[k]) return "the input was written at byte " + std::to_string(k);
    }
    return "";
  }

  const machine_plan plan_;
  layout map_;
  std::vector<std::vector<flag>> memory_;
  std::vector<std::unique_ptr<thread_rank>> ranks_;
  std::vector<collective_plan> calls_;
  std::vector<buffers> buffers_;  // (call, rank)
};

}  // namespace xyl::test
