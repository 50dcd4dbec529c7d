// SPDX-License-Identifier: BSD-3-Clause
//
// Explores the interleavings of a few lanes, one visible operation at a time, by depth-first replay: every lane is
// a fibre that stops before each visible operation; one that waits is not run before its condition holds, so
// nothing spins, and a state in which no lane can go on is a deadlock.
//
// With `merge`, a state that was reached before is not continued again. The state is what each lane has done and
// observed so far (a lane's text is deterministic, so this fixes its locals and what it alone writes) and the
// contents of the shared memory, both as 64-bit hashes; states are few enough that a collision is out of the
// question. Every reachable state, and so every deadlock and every result, is still visited. Without it all
// interleavings are run.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "proto/call.hpp"

namespace xyl {

class schedule_explorer {
 public:
  struct scenario {
    int fibres = 0;
    std::function<void()> reset;           // before each run: the shared memory as it was at first
    std::function<void(int)> body;         // what fibre i does; owns nothing, since a run may be abandoned
    std::function<std::string()> verdict;  // after each complete run: "" or what is wrong
    std::function<std::string(int)> name;  // of a fibre
  };
  struct outcome {
    std::uint64_t schedules = 0;  // complete runs
    std::uint64_t states = 0;     // distinct ones that had a choice (merge only)
    std::uint64_t runs = 0;       // also those that ended in a known state
    std::uint64_t deadlocks = 0, wrong = 0;
    std::string failure;  // "" or what went wrong first, and the schedule that led to it
  };

  // Stops at the first failure unless `go_on`. limit: runs; reaching it is a failure, never a silent end.
  outcome explore(const scenario& wanted, bool merge, std::uint64_t limit, bool go_on = false) {
    outcome result;
    std::vector<choice> stack;
    std::unordered_set<std::uint64_t> known;
    scenario_ = &wanted;
    do {
      if (result.runs++ == limit) {
        result.failure = "not exhausted after " + std::to_string(limit) + " runs";
        return result;
      }
      start();
      for (std::size_t depth = 0;; ++depth) {
        const std::vector<int> enabled = enabled_fibres();
        if (enabled.empty()) {
          const bool done = all_done();
          const std::string wrong = done ? wanted.verdict() : "deadlock";
          result.schedules += done;
          result.deadlocks += !done;
          result.wrong += done && !wrong.empty();
          if (!wrong.empty() && result.failure.empty()) result.failure = wrong + trail();
          if (!wrong.empty() && !go_on) return result;
          break;
        }
        if (depth == stack.size()) {
          if (merge && !known.insert(state()).second) break;
          stack.push_back({enabled, 0});
        }
        take(stack[depth].enabled[stack[depth].next]);
      }
      while (!stack.empty() && ++stack.back().next == stack.back().enabled.size()) stack.pop_back();
      result.states = known.size();
    } while (!stack.empty());
    return result;
  }

  // The rest is called by the running fibre. Stops before an operation that can go on when ready() holds.
  template <class Ready>
  void visible(const char* operation, int peer, Ready ready) {
    fibre& self = *fibres_[static_cast<unsigned>(running_)];
    self.operation = operation;
    self.peer = peer;
    self.context_of_ready = &ready;
    self.ready = [](void* context) { return static_cast<bool>((*static_cast<Ready*>(context))()); };
    swapcontext(&self.context, &main_);
    observed(mix64(static_cast<std::uint64_t>(operation[0]) << 8 | static_cast<std::uint64_t>(operation[1])));
  }
  void visible(const char* operation, int peer) {
    visible(operation, peer, [] { return true; });
  }
  // A value that the fibre has read.
  void observed(std::uint64_t value) {
    std::uint64_t& history = fibres_[static_cast<unsigned>(running_)]->history;
    history = mix64(history * 3 + value + 1);
  }
  // A shared word goes from one value to another.
  template <class T>
  void store(T& word, T value) {
    memory_ ^= cell(&word, static_cast<std::uint64_t>(word)) ^ cell(&word, static_cast<std::uint64_t>(value));
    word = value;
  }

 private:
  struct fibre {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(64 * 1024);
    std::uint64_t history = 0;
    bool done = false;
    const char* operation = "";
    int peer = -1;
    void* context_of_ready = nullptr;
    bool (*ready)(void*) = nullptr;
  };
  struct choice {
    std::vector<int> enabled;
    std::size_t next;
  };
  struct step {
    int fibre;
    const char* operation;
    int peer;
  };

  static std::uint64_t cell(const void* where, std::uint64_t value) {
    return mix64(mix64(reinterpret_cast<std::uintptr_t>(where)) + value);
  }

  static void enter(unsigned high, unsigned low) {
    auto* const self = reinterpret_cast<schedule_explorer*>(static_cast<std::uintptr_t>(high) << 32 | low);
    const int mine = self->running_;
    self->scenario_->body(mine);
    self->fibres_[static_cast<unsigned>(mine)]->done = true;
    setcontext(&self->main_);
  }

  // All fibres from the beginning up to their first visible operation.
  void start() {
    scenario_->reset();
    memory_ = 0;
    steps_.clear();
    while (fibres_.size() < static_cast<unsigned>(scenario_->fibres)) fibres_.push_back(std::make_unique<fibre>());
    for (int i = 0; i < scenario_->fibres; ++i) {
      fibre& f = *fibres_[static_cast<unsigned>(i)];
      f.history = mix64(static_cast<unsigned>(i) + 1);
      f.done = false;
      getcontext(&f.context);
      f.context.uc_stack.ss_sp = f.stack.data();
      f.context.uc_stack.ss_size = f.stack.size();
      f.context.uc_link = nullptr;
      const auto self = reinterpret_cast<std::uintptr_t>(this);
      makecontext(&f.context, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(self >> 32),
                  static_cast<unsigned>(self));
      resume(i);
    }
  }

  void resume(int i) {
    running_ = i;
    swapcontext(&main_, &fibres_[static_cast<unsigned>(i)]->context);
  }
  void take(int i) {
    const fibre& f = *fibres_[static_cast<unsigned>(i)];
    steps_.push_back({i, f.operation, f.peer});
    resume(i);
  }

  std::vector<int> enabled_fibres() const {
    std::vector<int> enabled;
    for (int i = 0; i < scenario_->fibres; ++i) {
      const fibre& f = *fibres_[static_cast<unsigned>(i)];
      if (!f.done && f.ready(f.context_of_ready)) enabled.push_back(i);
    }
    return enabled;
  }
  bool all_done() const {
    for (int i = 0; i < scenario_->fibres; ++i)
      if (!fibres_[static_cast<unsigned>(i)]->done) return false;
    return true;
  }

  std::uint64_t state() const {
    std::uint64_t hash = memory_;
    for (int i = 0; i < scenario_->fibres; ++i) hash = mix64(hash + fibres_[static_cast<unsigned>(i)]->history);
    return hash;
  }

  std::string line_of(int i, const char* operation, int peer) const {
    std::string text = "\n  " + scenario_->name(i) + ": " + operation;
    if (peer >= 0) text += " (rank " + std::to_string(peer) + ")";
    return text;
  }
  std::string trail() const {
    std::string text;
    for (const step& s : steps_) text += line_of(s.fibre, s.operation, s.peer);
    for (int i = 0; i < scenario_->fibres; ++i) {
      const fibre& f = *fibres_[static_cast<unsigned>(i)];
      if (!f.done) text += line_of(i, f.operation, f.peer) + " <- stuck here";
    }
    return text;
  }

  const scenario* scenario_ = nullptr;
  std::vector<std::unique_ptr<fibre>> fibres_;
  ucontext_t main_;
  int running_ = 0;
  std::uint64_t memory_ = 0;  // hash of what was stored since the start
  std::vector<step> steps_;
};

}  // namespace xyl
