// SPDX-License-Identifier: BSD-3-Clause
//
// Runs fused calls on ranks whose blocks and lanes are threads. The launches of a call follow each other as in a
// stream; ranks are never synchronised with each other.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <thread>

#include "proto/fused_data.hpp"
#include "proto/fused_pull.hpp"
#include "proto/fused_slices.hpp"
#include "proto/fused_two_shot_packet.hpp"
#include "spaces/thread_space.hpp"

namespace xyl::test {

struct fused_grid {
  int ranks = 2;
  unsigned blocks = 1, lanes = 1;
  unsigned blocks_of_row = 1;
  std::uint64_t rows = 1;  // of a launch (two-shot: of each share)
  bool constant_ranks = false;
  std::uint64_t seed = 1;
};

// All ranks' inputs.
struct fused_inputs {
  const std::byte* of[8] = {};
  const std::byte* operator[](int p) const { return of[p]; }
};
template <class T>
fused_inputs inputs_of(std::vector<fused_data<T>>& data) {
  fused_inputs all;
  for (std::size_t p = 0; p < data.size(); ++p) all.of[p] = data[p].input.raw();
  return all;
}

// The whole call, of one rank; launches have yet to be cut out of it.
template <class T>
fused_work work_of(fused_data<T>& d, fused_form form, int ranks, unsigned blocks_of_row = 1) {
  fused_work w;
  w.input = d.input.raw();
  w.residual = d.has_residual() ? d.residual.raw() : nullptr;
  w.weight = d.weight.raw();
  w.scale = reinterpret_cast<const float*>(d.scale.raw());
  w.output = d.output_buffer();
  w.residual_out = d.residual_out_buffer();
  w.quantised = d.quantised.raw();
  w.scales = d.scales.raw();
  if (d.f.experts) {
    w.expert_output = d.expert_output.raw();
    w.expert_row = d.f.expert_table ? reinterpret_cast<const std::int32_t*>(d.expert_row.raw()) : nullptr;
    w.expert_weight = reinterpret_cast<const float*>(d.expert_weight.raw());
    w.experts = d.f.experts;
    w.expert_rows = static_cast<std::uint32_t>(d.f.tokens * d.f.experts);
  }
  w.tokens = d.f.tokens;
  w.share = share_of(w.tokens, ranks);
  w.hidden = d.f.hidden;
  w.inverse_hidden = 1.0f / static_cast<float>(w.hidden);
  w.eps = d.f.eps;
  w.pattern = d.f.pattern;
  w.weight_is_float = d.f.weight_is_float;
  w.gemma = d.f.gemma;
  w.residual_sharded = d.f.residual_sharded;
  w.choose_wire();
  w.spread((uses_packets(form) ? 8 : 16) / sizeof(T), form == fused_form::two_shot_slices ? 1 : blocks_of_row);
  return w;
}

// Space: derived from thread_space, or with forms of its own. Call: derived from xyl::call.
template <class Space = thread_space, class Call = call<8>>
class fused_machine_of {
 public:
  explicit fused_machine_of(const fused_grid& g, std::uint64_t packet_bytes, std::uint64_t bulk_bytes)
      : grid_(g),
        map_(layout::make(static_cast<unsigned>(g.ranks), g.blocks, packet_bytes * static_cast<unsigned>(g.ranks),
                          bulk_bytes * static_cast<unsigned>(g.ranks))) {
    map_.headers_by_block = g.seed % 2 != 0;
    std::vector<std::byte*> workspaces;
    for (int r = 0; r < g.ranks; ++r) {
      memory_.emplace_back(static_cast<std::byte*>(::operator new (map_.bytes, std::align_val_t{4096})));
      std::memset(memory_.back().get(), 0, map_.bytes);
      workspaces.push_back(memory_.back().get());
    }
    for (int r = 0; r < g.ranks; ++r) {
      ranks_.push_back(std::make_unique<thread_rank>(r, workspaces, g.blocks, g.lanes, std::chrono::seconds(60)));
      ranks_.back()->control(r).call.epoch = epoch_zero;
    }
  }

  // Every rank runs its call in `form`; true if no lane gave up. odd_rank: makes another call. Where inputs are
  // pulled, a rank writes its own right before its call, and changes it as soon as the call is over: which races with
  // a peer that does not wait for it, or that is not done.
  template <class T>
  bool run(fused_form form, std::vector<fused_data<T>>& data, int odd_rank = -1) {
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<lane_barrier>> launches;
    std::atomic<bool> good{true};
    const fused_inputs inputs = inputs_of(data);
    std::vector<std::vector<std::byte>> written;
    for (fused_data<T>& d : data) {
      if (!pulls(form)) break;
      written.emplace_back(d.input.raw(), d.input.raw() + d.input.size());
      std::memset(d.input.raw(), 0x22, d.input.size());
    }
    for (int r = 0; r < grid_.ranks; ++r) {
      launches.push_back(std::make_unique<lane_barrier>(grid_.blocks * grid_.lanes));
      for (unsigned b = 0; b < grid_.blocks; ++b)
        for (unsigned l = 0; l < grid_.lanes; ++l)
          threads.emplace_back([&, &launch = *launches.back(), r, b, l] {
            fused_data<T>& mine = data[static_cast<unsigned>(r)];
            fused_work w = work_of(mine, form, grid_.ranks, grid_.blocks_of_row);
            const std::uint64_t all = uses_shares(form) ? w.share : w.tokens;
            const unsigned usable = grid_.blocks / w.split * w.split;
            if (pulls(form)) {
              const std::vector<std::byte>& input = written[static_cast<unsigned>(r)];
              if (b == 0 && l == 0) std::copy(input.begin(), input.end(), mine.input.raw());
              launch.arrive_and_wait();
            }
            do {
              w.rows = static_cast<std::uint32_t>(std::min(grid_.rows, all - w.first));
              if (b < usable && !run_lane<T>(form, w, inputs, r, b, usable, l, r == odd_rank))
                good.store(false, std::memory_order_relaxed);
              launch.arrive_and_wait();
              w.first += w.rows;
            } while (w.first < all);
            if (pulls(form) && !mine.f.in_place && b == 0 && l == 0 && good.load(std::memory_order_relaxed))
              std::memset(mine.input.raw(), 0x11, mine.input.size());
          });
    }
    for (auto& thread : threads) thread.join();
    return good.load(std::memory_order_relaxed);
  }

 private:
  struct deleter {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{4096}); }
  };

  template <class T>
  bool run_lane(fused_form form, const fused_work& w, const fused_inputs& inputs, int r, unsigned b,
                unsigned blocks, unsigned l, bool odd) {
    Call c;
    c.map = decltype(c.map){map_};
    c.record.count = w.tokens + odd;
    c.fingerprint = fingerprint(c.record);
    c.rank = r;
    c.ranks = grid_.ranks;
    thread_rank& me = *ranks_[static_cast<unsigned>(r)];
    for (int p = 0; p < grid_.ranks; ++p) c.workspace[p] = me.workspaces[static_cast<unsigned>(p)];
    Space s(me, b, blocks, l, mix64(grid_.seed + ((w.first * 8 + static_cast<unsigned>(r)) * 8 + b) * 8 + l));
    if constexpr (requires { s.template fused<T>(c, w, inputs, form); }) {
      return s.template fused<T>(c, w, inputs, form);
    } else {
      return run_form<T>(s, c, w, inputs, form);
    }
  }

  template <class T>
  bool run_form(Space& s, const Call& c, const fused_work& w, const fused_inputs& inputs, fused_form form) {
    const auto with = [&]<int Ranks>(std::integral_constant<int, Ranks>) {
      using F = fused_kind<portable_codec<T>, portable_quantiser, Ranks>;
      switch (form) {
        case fused_form::packet:
          return fused_packet<F>(s, c, w);
        case fused_form::two_shot_packet:
          return fused_two_shot_packet<F>(s, c, w);
        case fused_form::one_shot:
          return fused_one_shot<F>(s, c, w);
        case fused_form::two_shot_slices:
          return fused_two_shot_slices<F>(s, c, w);
        case fused_form::two_shot:
          return fused_two_shot<F>(s, c, w);
        case fused_form::one_shot_pull:
          return fused_one_shot_pull<F>(s, c, w, inputs);
        case fused_form::two_shot_pull:
          return fused_two_shot_pull<F>(s, c, w, inputs);
      }
      return false;
    };
    if (grid_.constant_ranks && grid_.ranks == 4) return with(std::integral_constant<int, 4>());
    return with(std::integral_constant<int, 0>());
  }

  const fused_grid grid_;
  layout map_;
  std::vector<std::unique_ptr<std::byte, deleter>> memory_;
  std::vector<std::unique_ptr<thread_rank>> ranks_;
};

using fused_machine = fused_machine_of<>;

}  // namespace xyl::test
