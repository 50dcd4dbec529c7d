// SPDX-License-Identifier: BSD-3-Clause
//
// Random programs of collective calls on several streams, which fork from one and are joined to it again by events:
// what is enqueued, eagerly or into a capture, and what it must do to the model. All ranks make the same programs.
// Whatever two streams do between a fork and a join touches different parts of the arenas.
#pragma once

#include <memory>
#include <utility>

#include "abi/fused_call.hpp"
#include "tests/gpu/device_copy.hpp"
#include "tests/gpu/mpi_communicator.hpp"
#include "tests/support/call_model.hpp"

namespace xyl::gpu_test {

inline constexpr int capture_streams = 4;

struct capture_step {
  enum class kind { calls, fork, join, copy, fused, barrier } what = kind::calls;
  int stream = 0;  // that forks, is joined, or does it
  // calls: together in a group if there are several, each on its stream.
  std::vector<std::pair<int, test::modelled_call>> calls;
  // copy: of a part of the arena to another.
  std::size_t from = 0, to = 0, bytes = 0;
};

struct capture_program {
  int main = 0;  // the stream that others fork from
  std::vector<capture_step> steps;
  std::string text() const {
    std::string all = "on stream " + std::to_string(main) + ":";
    for (const capture_step& s : steps) {
      constexpr const char* names[] = {"calls", "fork", "join", "copy", "fused", "barrier"};
      all += "\n  " + std::string(names[static_cast<int>(s.what)]) + " " + std::to_string(s.stream);
      for (const auto& [stream, call] : s.calls) all += "; on " + std::to_string(stream) + " " + call.text();
    }
    return all;
  }
};

// Parts of the arenas are the streams' own while they are forked, else the main one's.
class program_maker {
 public:
  program_maker(std::mt19937_64& random, int ranks, std::size_t part_bytes, std::size_t most_bytes)
      : random_(random), ranks_(ranks), part_(part_bytes), most_(most_bytes) {}

  capture_program make(int length) {
    capture_program p;
    p.main = below(capture_streams);
    bool forked[capture_streams] = {};
    const auto owner = [&](int part) { return forked[part] ? part : p.main; };
    for (int i = 0; i < length; ++i) {
      capture_step s;
      const int part = below(capture_streams), dice = below(20);
      s.stream = owner(part);
      if (dice < 4 && part != p.main) {
        s.what = forked[part] ? capture_step::kind::join : capture_step::kind::fork;
        s.stream = part;
        forked[part] = !forked[part];
      } else if (dice < 6 && owner(0) == owner(1)) {
        s.what = capture_step::kind::copy;
        s.stream = owner(0);
        s.bytes = 1 + random_() % part_;
        s.to = part_;
        if (below(2)) std::swap(s.from, s.to);
      } else if (dice < 8) {
        s.what = capture_step::kind::fused;
      } else if (dice < 9) {
        s.what = capture_step::kind::barrier;
      } else if (dice < 12) {
        for (int q = 0; q < capture_streams; ++q)
          if (below(2)) s.calls.emplace_back(owner(q), call_in(q));
        if (s.calls.empty()) s.calls.emplace_back(owner(part), call_in(part));
      } else {
        s.calls.emplace_back(owner(part), call_in(part));
      }
      p.steps.push_back(std::move(s));
    }
    for (int side = 0; side < capture_streams; ++side)
      if (forked[side]) p.steps.push_back({capture_step::kind::join, side, {}, 0, 0, 0});
    return p;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  test::modelled_call call_in(int part) {
    return test::random_call(random_, ranks_, static_cast<unsigned>(part) * part_, part_, most_);
  }
  std::mt19937_64& random_;
  int ranks_;
  std::size_t part_, most_;
};

// This rank's memory and streams, and all ranks' model.
class capture_machine {
 public:
  capture_machine(std::size_t part_bytes, std::uint64_t seed) : model(ranks_, part_bytes * capture_streams, seed) {
    const auto& mine = model.arenas[static_cast<std::size_t>(rank_)];
    must(cudaMalloc(reinterpret_cast<void**>(&arena_), mine.size()), "cudaMalloc");
    must(cudaMemcpy(arena_, mine.data(), mine.size(), cudaMemcpyHostToDevice), "copy in");
    for (cudaStream_t& s : streams) s = new_stream();
    must(cudaEventCreateWithFlags(&meeting_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    constexpr fused_pattern patterns[capture_streams] = {fused_pattern::norm, fused_pattern::all_reduce,
                                                         fused_pattern::fp8_per_token, fused_pattern::norm};
    for (int i = 0; i < capture_streams; ++i) {
      test::fused_case f;
      f.pattern = patterns[i];
      f.hidden = 1024;
      f.tokens = i == 3 ? 150 : 3;
      f.seed = seed + static_cast<unsigned>(i);
      fused_.push_back(std::make_unique<test::fused_data<bfloat16>>(f, rank_, ranks_));
      there_.push_back(std::make_unique<device_copy>(*fused_.back()));
    }
  }
  ~capture_machine() {
    must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    (void)cudaEventDestroy(meeting_);
    for (cudaStream_t s : streams) (void)cudaStreamDestroy(s);
    (void)cudaFree(arena_);
  }
  capture_machine(const capture_machine&) = delete;

  // What is enqueued on `after` from now on comes after what is on `before`.
  void follow(int after, int before) {
    if (after == before) return;
    must(cudaEventRecord(meeting_, streams[before]), "cudaEventRecord");
    must(cudaStreamWaitEvent(streams[after], meeting_, 0), "cudaStreamWaitEvent");
  }

  void enqueue(const capture_program& p) {
    for (const capture_step& s : p.steps) switch (s.what) {
        case capture_step::kind::fork:
          follow(s.stream, p.main);
          break;
        case capture_step::kind::join:
          follow(p.main, s.stream);
          break;
        case capture_step::kind::copy:
          must(
              cudaMemcpyAsync(arena_ + s.to, arena_ + s.from, s.bytes, cudaMemcpyDeviceToDevice, streams[s.stream]),
              "cudaMemcpyAsync");
          break;
        case capture_step::kind::fused: {
          const device_copy& at = *there_[static_cast<std::size_t>(s.stream)];
          must(test::fused_call(*fused_[static_cast<std::size_t>(s.stream)], [&](std::byte* b) { return at(b); })(
                   comm, streams[s.stream]),
               "a fused call");
          break;
        }
        case capture_step::kind::barrier:
          must(xylBarrier(comm, streams[s.stream]), "xylBarrier");
          break;
        case capture_step::kind::calls:
          if (s.calls.size() > 1) must(xylGroupStart(), "xylGroupStart");
          for (const auto& [stream, call] : s.calls)
            must(test::issue(call, arena_, rank_, ranks_, comm, streams[stream]), call.text().c_str());
          if (s.calls.size() > 1) must(xylGroupEnd(), "xylGroupEnd");
          break;
      }
  }

  // What it has done once it has run.
  void account(const capture_program& p) {
    for (const capture_step& s : p.steps) {
      for (const auto& [stream, call] : s.calls) model.run(call);
      if (s.what == capture_step::kind::fused) was_called_[s.stream] = true;
      if (s.what == capture_step::kind::copy)
        for (auto& arena : model.arenas) std::memmove(arena.data() + s.to, arena.data() + s.from, s.bytes);
    }
  }

  void check(const std::string& after) {
    must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    xylResult_t state = xylSuccess;
    must(xylCommGetAsyncError(comm, &state), "xylCommGetAsyncError");
    must(state == xylSuccess, after.c_str(), xylGetErrorString(state));
    const auto& want = model.arenas[static_cast<std::size_t>(rank_)];
    std::vector<std::uint8_t> got(want.size());
    must(cudaMemcpy(got.data(), arena_, got.size(), cudaMemcpyDeviceToHost), "copy out");
    const auto wrong = std::mismatch(got.begin(), got.end(), want.begin());
    expect(wrong.first == got.end(), "byte %td of the arena is %d, not %d, after %s", wrong.first - got.begin(),
           wrong.first == got.end() ? 0 : *wrong.first, wrong.first == got.end() ? 0 : *wrong.second,
           after.c_str());
    for (std::size_t i = 0; i < fused_.size(); ++i) {
      if (!std::exchange(was_called_[i], false)) continue;
      test::fused_data<bfloat16>& d = *fused_[i];
      there_[i]->copy_back();
      const std::string problem = d.check() + d.check_untouched();
      expect(problem.empty(), "fused call of stream %zu: %s, after %s", i, problem.c_str(), after.c_str());
      // So that the next one has to be done.
      for (test::aligned_bytes* b : {&d.output, &d.residual_out, &d.quantised, &d.scales})
        must(cudaMemset((*there_[i])(b->raw()), test::aligned_bytes::filling, b->size()), "cudaMemset");
    }
    must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  test::call_model model;
  cudaStream_t streams[capture_streams] = {};

 private:
  std::byte* arena_ = nullptr;
  cudaEvent_t meeting_ = nullptr;
  std::vector<std::unique_ptr<test::fused_data<bfloat16>>> fused_;  // by stream
  std::vector<std::unique_ptr<device_copy>> there_;
  bool was_called_[capture_streams] = {};
};

}  // namespace xyl::gpu_test
