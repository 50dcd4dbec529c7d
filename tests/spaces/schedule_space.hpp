// SPDX-License-Identifier: BSD-3-Clause
//
// An execution space in which one lane runs at a time and a schedule_explorer decides which. Every access to memory
// that ranks share is a visible operation; memory is sequentially consistent (missing orders are ThreadSanitizer's
// business). get_all reads all its lines in one step, once they all carry the epoch. No wait has a deadline: one
// that can never end is found as a deadlock. One block per rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "proto/space.hpp"
#include "spaces/schedule_explorer.hpp"
#include "xylem/xylem.h"

namespace xyl {

// What the lanes of one rank share. reset() before each run.
struct schedule_rank {
  int rank = 0;
  unsigned lanes = 1;
  std::vector<std::byte*> workspaces;
  epoch_t epoch = 0;
  bool healthy = true;
  unsigned arrived = 0, generation = 0;
  std::vector<char> votes;
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(2 * 8);  // see proto/grouped_packet.hpp

  control_block& control(int of) const {
    return *reinterpret_cast<control_block*>(workspaces[static_cast<unsigned>(of)]);
  }
  void reset() {
    arrived = generation = 0;
    votes.assign(lanes, 0);
  }
};

class schedule_space {
 public:
  schedule_space(schedule_explorer& explorer, schedule_rank& owner, unsigned lane)
      : explorer_(explorer), owner_(owner), lane_(lane) {}

  unsigned lane() const { return lane_; }
  unsigned lanes() const { return owner_.lanes; }
  unsigned block() const { return 0; }
  unsigned blocks() const { return 1; }
  epoch_t epoch() const { return owner_.epoch; }

  bool begin() {
    if (lane_ == 0) {
      explorer_.visible("begin", -1);
      auto& call = owner_.control(owner_.rank).call;
      owner_.epoch = next_epoch(call.epoch);
      explorer_.store(call.epoch, owner_.epoch);
      owner_.healthy = !is_poisoned();
      explorer_.observed(owner_.healthy);
    }
    meet();
    return owner_.healthy;
  }
  bool begin_pair() {
    if (lane_ == 0) {
      explorer_.visible("begin work of a pair", -1);
      owner_.epoch = poison::epoch_of_pairs(next_epoch(owner_.control(owner_.rank).call.epoch));
      owner_.healthy = !is_poisoned();
      explorer_.observed(owner_.healthy);
    }
    meet();
    return owner_.healthy;
  }
  void leave() {
    explorer_.visible("leave", -1);
    meet();
  }

  unsigned lanes_of_group(int) const { return 1; }
  std::uint64_t* shared_words() { return owner_.words.data(); }

  void sync() { meet(); }
  bool all(bool mine) {
    owner_.votes[lane_] = mine;
    meet();
    bool verdict = true;
    for (const char vote : owner_.votes) verdict = verdict && vote;
    meet();
    return verdict;
  }

  void post(flag* f, epoch_t e) {
    explorer_.visible("post a flag", owner_of(f));
    explorer_.store(f->epoch, e);
  }
  bool await(const flag* f, epoch_t e, waiting w) {
    explorer_.visible("await a flag", w.peer, [&] { return f->epoch >= e || is_poisoned(); });
    explorer_.observed(f->epoch);
    return f->epoch >= e || give_up(w);
  }

  void put(line* to, std::uint64_t data, std::uint32_t e) {
    const std::uint64_t high = static_cast<std::uint64_t>(e) << 32;
    explorer_.visible("put the first half of a line", owner_of(to));
    explorer_.store(to->word[0], high | (data & 0xffffffffu));
    explorer_.visible("put the second half of a line", owner_of(to));
    explorer_.store(to->word[1], high | data >> 32);
  }
  template <int N>
  bool get_all(const line* const (&lines)[N], std::uint32_t e, std::uint64_t (&data)[N], waiting w) {
    const auto ready = [&] {
      for (const line* const l : lines)
        if (l && (l->word[0] >> 32 != e || l->word[1] >> 32 != e)) return false;
      return true;
    };
    explorer_.visible("get packets", w.peer, [&] { return ready() || is_poisoned(); });
    if (!ready()) return give_up(w);
    for (int i = 0; i < N; ++i)
      if (lines[i]) {
        data[i] = (lines[i]->word[0] & 0xffffffffu) | lines[i]->word[1] << 32;
        explorer_.observed(data[i]);
      }
    return true;
  }

  // A line is stored in one step, as the protocol is promised.
  static constexpr unsigned pack_lanes = 1;
  template <int N>
  void put_packs(wide_pack* const (&to)[N], const unit16 (&units)[wide_pack::units], epoch_t e) {
    for (wide_pack* const pack : to)
      for (unsigned l = 0; pack && l < 2; ++l) {
        explorer_.visible("put a line of 128 bytes", owner_of(pack));
        put_data(*pack, l, units);
        explorer_.store(pack->line[l].word[wide_pack::number_word], e);
      }
  }
  template <int N>
  bool get_packs(const wide_pack* const (&from)[N], epoch_t e, unit16 (&units)[N][wide_pack::units], waiting w) {
    const auto ready = [&] {
      for (const wide_pack* const pack : from)
        for (unsigned l = 0; pack && l < 2; ++l)
          if (pack->line[l].word[wide_pack::number_word] != e) return false;
      return true;
    };
    explorer_.visible("get packs", w.peer, [&] { return ready() || is_poisoned(); });
    if (!ready()) return give_up(w);
    for (int i = 0; i < N; ++i)
      for (unsigned u = 0; from[i] && u < wide_pack::units; ++u)
        for (unsigned half = 0; half < 2; ++half) {
          const std::uint64_t word = word_of(*from[i], u, half);
          explorer_.observed(word);
          std::memcpy(&units[i][u].word[2 * half], &word, sizeof word);
        }
    return true;
  }

  static constexpr unsigned sheet_lanes = 1;
  void put_line(unit16* to, const unit16& whole) {
    explorer_.visible("put a line", owner_of(to));
    for (int k = 0; k < 4; ++k) explorer_.store(to->word[k], whole.word[k]);
  }
  template <int N>
  bool get_lines(const unit16* const (&lines)[N], std::uint32_t e, unit16 (&got)[N], waiting w) {
    const auto ready = [&] {
      for (const unit16* const l : lines)
        if (l && l->word[3] != e) return false;
      return true;
    };
    explorer_.visible("get lines", w.peer, [&] { return ready() || is_poisoned(); });
    if (!ready()) return give_up(w);
    for (int i = 0; i < N; ++i)
      if (lines[i]) {
        for (const std::uint32_t word : lines[i]->word) explorer_.observed(word);
        got[i] = *lines[i];
      }
    return true;
  }

  // Here everything is in order, and a launch has one block.
  void announce(line* to, std::uint64_t data, std::uint32_t e) { put(to, data, e); }
  template <int N>
  bool hear(const line* const (&lines)[N], std::uint32_t e, std::uint64_t (&data)[N], waiting w) {
    return get_all<N>(lines, e, data, w);
  }

  void refuse(waiting w, std::uint64_t, std::uint64_t) {
    poison_all(poison::pack(xylInvalidUsage, w.peer, owner_.epoch));
  }

  unit16 load16(const unit16* from) const { return *from; }
  unit16 load_peer16(const unit16* from) {
    explorer_.visible("load bulk data", -1);
    for (const std::uint32_t word : from->word) explorer_.observed(word);
    return *from;
  }
  void store16(unit16* to, unit16 value) {
    explorer_.visible("store bulk data", owner_of(to));
    for (int i = 0; i < 4; ++i) explorer_.store(to->word[i], value.word[i]);
  }

 protected:
  template <class Pack>
  static auto& word_of(Pack& pack, unsigned unit, unsigned half) {
    return unit == wide_pack::split_unit
               ? pack.line[half].word[wide_pack::split_word]
               : pack.line[wide_pack::line_of(unit)].word[wide_pack::word_of(unit) + half];
  }
  // The words of one line.
  void put_data(wide_pack& pack, unsigned l, const unit16 (&units)[wide_pack::units]) {
    for (unsigned u = 0; u < wide_pack::units; ++u)
      for (unsigned half = 0; half < 2; ++half) {
        if ((u == wide_pack::split_unit ? half : wide_pack::line_of(u)) != l) continue;
        std::uint64_t word;
        std::memcpy(&word, &units[u].word[2 * half], sizeof word);
        explorer_.store(word_of(pack, u, half), word);
      }
  }
  int owner_of_pack(const wide_pack* pack) const { return owner_of(pack); }
  schedule_explorer& explorer() { return explorer_; }

 private:
  // Arriving is no visible operation: all it can do is to let the others go on.
  void meet() {
    if (owner_.lanes == 1) return;
    const unsigned mine = owner_.generation;
    if (++owner_.arrived == owner_.lanes) {
      owner_.arrived = 0;
      ++owner_.generation;
    } else {
      explorer_.visible("sync", -1, [&] { return owner_.generation != mine; });
    }
  }

  bool is_poisoned() const { return poison::concerns(owner_.control(owner_.rank).poisoned.word, owner_.epoch); }
  bool give_up(waiting w) {
    poison_all(poison::pack(xylRemoteError, w.peer));
    return false;
  }
  void poison_all(std::uint64_t word) {
    for (std::size_t p = 0; p < owner_.workspaces.size(); ++p) {
      explorer_.visible("poison", static_cast<int>(p));
      std::uint64_t& theirs = owner_.control(static_cast<int>(p)).poisoned.word;
      if (theirs == 0) explorer_.store(theirs, word);
    }
  }

  // The rank in whose workspace an address lies: the one that begins last before it.
  int owner_of(const void* address) const {
    int best = -1;
    for (std::size_t p = 0; p < owner_.workspaces.size(); ++p)
      if (owner_.workspaces[p] <= address &&
          (best < 0 || owner_.workspaces[p] > owner_.workspaces[static_cast<unsigned>(best)]))
        best = static_cast<int>(p);
    return best;
  }

  schedule_explorer& explorer_;
  schedule_rank& owner_;
  const unsigned lane_;
};
static_assert(execution_space<schedule_space>);

}  // namespace xyl
