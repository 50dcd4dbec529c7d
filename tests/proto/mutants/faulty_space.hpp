// SPDX-License-Identifier: BSD-3-Clause
//
// The thread space with one ordering fault planted. Each fault is one that a protocol's author could make and that
// a processor with strong ordering hides; they exist to show that the tests under ThreadSanitizer would notice.
#pragma once

#include <string_view>

#include "proto/thread_machine.hpp"

namespace xyl::test {

enum class ordering_fault {
  none,
  relaxed_post,         // a flag that does not carry what was written before it
  relaxed_await,        // a flag that is seen without what was written before it
  no_sync_before_post,  // one lane posts for a block whose lanes may still be writing
  no_sync_after_await,  // lanes read what another lane has awaited, without meeting it
  no_departure,         // headers are not waited for: nobody knows that the peers have left earlier calls
  early_reuse,          // one slot instead of two
  early_step,           // one place for steps instead of two
  no_credit,            // a pair's ring is written on without waiting for the receiver
  not_taken,            // a rank returns while peers may still read its buffer
  line_in_pieces,       // a line whose number is seen before its data
};
inline constexpr std::string_view fault_names[] = {
    "none",        "relaxed_post", "relaxed_await", "no_sync_before_post", "no_sync_after_await", "no_departure",
    "early_reuse", "early_step",   "no_credit",     "not_taken",           "line_in_pieces"};

template <ordering_fault Fault>
class faulty_space : public thread_space {
 public:
  using thread_space::thread_space;

  void post(flag* f, epoch_t e) {
    thread_space::post(
        f, e, Fault == ordering_fault::relaxed_post ? std::memory_order_relaxed : std::memory_order_release);
  }
  bool await(const flag* f, epoch_t e, waiting w) {
    if (Fault == ordering_fault::no_credit && w.what == phase::credit) return true;
    if (Fault == ordering_fault::not_taken && (w.what == phase::taken || w.what == phase::pulled)) return true;
    return thread_space::await(
        f, e, w, Fault == ordering_fault::relaxed_await ? std::memory_order_relaxed : std::memory_order_acquire);
  }
  // Protocols call sync() by itself only before they post.
  void sync() {
    if constexpr (Fault != ordering_fault::no_sync_before_post) thread_space::sync();
  }
  bool all(bool mine) {
    if constexpr (Fault == ordering_fault::no_sync_after_await) return mine;
    return thread_space::all(mine);
  }
  template <int N>
  bool get_all(const line* const (&lines)[N], std::uint32_t e, std::uint64_t (&data)[N], waiting w) {
    if (Fault == ordering_fault::no_departure && w.what == phase::header) return true;
    return thread_space::get_all(lines, e, data, w);
  }
  template <int N>
  void put_packs(wide_pack* const (&to)[N], const unit16 (&units)[wide_pack::units], epoch_t e) {
    if constexpr (Fault == ordering_fault::line_in_pieces) {
      for (wide_pack* const pack : to)
        for (int l = 0; pack && l < 2; ++l)
          of(pack->line[l].word[wide_pack::number_word]).store(e, std::memory_order_release);
      jitter();
      for (wide_pack* const pack : to)
        if (pack) write_data(*pack, units);
    } else {
      thread_space::put_packs(to, units, e);
    }
  }
  void put_line(unit16* to, const unit16& whole) {
    if constexpr (Fault == ordering_fault::line_in_pieces) {
      of(to->word[3]).store(whole.word[3], std::memory_order_release);
      jitter();
      copy_words(to->word, whole.word);
    } else {
      thread_space::put_line(to, whole);
    }
  }
  void announce(line* l, std::uint64_t data, std::uint32_t e) {
    thread_space::put(
        l, data, e, Fault == ordering_fault::relaxed_post ? std::memory_order_relaxed : std::memory_order_release);
  }
  template <int N>
  bool hear(const line* const (&lines)[N], std::uint32_t e, std::uint64_t (&data)[N], waiting w) {
    if (Fault == ordering_fault::no_departure) return true;
    return thread_space::get_all(
        lines, e, data, w,
        Fault == ordering_fault::relaxed_await ? std::memory_order_relaxed : std::memory_order_acquire);
  }
};

struct one_slot_layout : layout {
  static constexpr unsigned slot(epoch_t) { return 0; }
};

struct one_place_layout : layout {
  static constexpr unsigned step_places = 1;
};

// A fingerprint that equals everything: for headers that were not waited for.
struct unchecked_fingerprint {
  std::uint64_t value;
  unchecked_fingerprint(std::uint64_t value = 0) : value(value) {}
  operator std::uint64_t() const { return value; }
  friend bool operator!=(std::uint64_t, const unchecked_fingerprint&) { return false; }
};

template <ordering_fault Fault>
struct faulty_call : call<machine_capacity> {};

template <>
struct faulty_call<ordering_fault::early_reuse> : call<machine_capacity> {
  one_slot_layout map;
};

template <>
struct faulty_call<ordering_fault::early_step> : call<machine_capacity> {
  one_place_layout map;
};

template <>
struct faulty_call<ordering_fault::no_departure> : call<machine_capacity> {
  unchecked_fingerprint fingerprint;
};

template <ordering_fault Fault>
struct faulty_pull_call : faulty_call<Fault> {
  const std::byte* input_of[machine_capacity] = {};
  std::byte* output_of[machine_capacity] = {};
  bool inputs_aligned = false, outputs_aligned = false;
};

}  // namespace xyl::test
