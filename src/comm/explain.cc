// SPDX-License-Identifier: BSD-3-Clause
#include "comm/explain.hpp"

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstring>

#include "base/clock.hpp"
#include "comm/operations.hpp"
#include "comm/request.hpp"
#include "exec/dispatch.hpp"

namespace xyl {

namespace {

// A peer may have written the record.
const char* name_of_fused_pattern(unsigned pattern) {
  static constexpr const char* names[] = {"sum",
                                          "residual, RMSNorm",
                                          "residual, RMSNorm, FP8 static",
                                          "residual, RMSNorm, FP8 per token",
                                          "residual, RMSNorm, FP8 per group",
                                          "residual, RMSNorm, NVFP4",
                                          "residual, RMSNorm, NVFP4 swizzled"};
  return pattern < sizeof names / sizeof *names ? names[pattern] : "?";
}

std::string describe_place(const char* which, std::uint64_t place) {
  if (place == 0) return {};
  return format_text("%s in registered buffer %llu from byte %llu%s, ", which,
                     static_cast<unsigned long long>(window_place::window(place)),
                     static_cast<unsigned long long>(window_place::offset(place)),
                     (place & window_place::in_place) != 0 ? " in place" : "");
}

}  // namespace

std::string describe_call(const call_record& r) {
  if (r.what == collective::split || r.what == collective::window_register) return name_of(r.what);
  if (r.what == collective::window_deregister)
    return format_text("%s of buffer %llu", name_of(r.what), static_cast<unsigned long long>(r.count - 1));
  const type_facts* const facts = facts_of(r.type);
  if (r.what == collective::fused_all_reduce) {
    const auto eps = static_cast<std::uint32_t>(r.more);
    return format_text("fused allreduce of %llu x %llu %s (%s, eps %g, options %x, %s%s memory)",
                       static_cast<unsigned long long>(r.count), static_cast<unsigned long long>(r.more >> 32),
                       facts ? facts->name : "?", name_of_fused_pattern(r.operation),
                       static_cast<double>(bits_float(eps)), r.root, describe_place("input", r.send_place).c_str(),
                       r.device ? "device" : "host");
  }
  std::string text = name_of(r.what);
  if (r.what != collective::barrier)
    text += format_text(" of %llu %s", static_cast<unsigned long long>(r.count), facts ? facts->name : "?");
  if (r.what == collective::send) text += format_text(" to rank %u", r.root);
  if (r.what == collective::receive) text += format_text(" from rank %u", r.root);
  if (r.what == collective::barrier && !r.device) return text;
  text += " (";
  if (is_reduction(r.what)) text += std::string(describe_operation(r.operation)) + ", ";
  if (has_root(r.what)) text += format_text("root %u, ", r.root);
  text += describe_place("send", r.send_place) + describe_place("recv", r.recv_place);
  return text + (r.device ? "device" : "host") + " memory)";
}

const char* describe_phase(phase p) {
  switch (p) {
    case phase::none:
      return "nothing";
    case phase::header:
      return "header";
    case phase::packet:
      return "packet";
    case phase::one_shot:
      return "one-shot data";
    case phase::scatter:
      return "reduce-scatter data";
    case phase::gather:
      return "allgather data";
    case phase::ring:
      return "ring data";
    case phase::control:
      return "control plane";
    case phase::exchange:
    case phase::spread:
    case phase::forward:
    case phase::contribution:
      return "data";
    case phase::message:
      return "message";
    case phase::credit:
      return "receive";
    case phase::team:
      return "part of a row";
    case phase::taking:
      return "reading of its buffer";
    case phase::taken:
      return "end of its reading";
    case phase::pulled:
      return "end of its use of registered buffers";
  }
  return "?";
}

namespace {

// A rank's give-up record; false if it has none (yet).
bool read_record(const control_block& control, give_up_record& out) {
  auto& record = const_cast<give_up_record&>(control.gave_up.record);
  // Acquire: the fields were written before 2 was stored with release order.
  if (std::atomic_ref(record.state).load(std::memory_order_acquire) != 2) return false;
  // All but the state, which a later giver still tries to take.
  out.state = 2;
  constexpr std::size_t from = offsetof(give_up_record, code);
  std::memcpy(reinterpret_cast<std::byte*>(&out) + from, reinterpret_cast<const std::byte*>(&record) + from,
              sizeof record - from);
  return true;
}

// The first peer that has written down another call than `mine`: "rank 1 called ...". All ranks together are given
// a moment for it, since not all of them have come.
std::string other_call(std::span<const control_block* const> controls, int rank, const call_record& mine) {
  const deadline until = deadline::in_ms(200);
  for (;;) {
    for (std::size_t p = 0; p < controls.size(); ++p) {
      give_up_record theirs{};
      if (static_cast<int>(p) == rank || !read_record(*controls[p], theirs)) continue;
      call_record call_of_peer;
      std::memcpy(&call_of_peer, theirs.call, sizeof call_of_peer);
      if (fingerprint(call_of_peer) != fingerprint(mine))
        return format_text("rank %zu called %s", p, describe_call(call_of_peer).c_str());
    }
    if (until.passed()) return {};
    ::sched_yield();
  }
}

}  // namespace

xylResult_t code_for(std::uint64_t poison_word, int rank) {
  const int code = poison::code(poison_word);
  // A peer wrote the word: what is no error code is not passed on as one.
  if (code < xylUnhandledCudaError || code > xylTimeout) return xylInternalError;
  const bool late_itself = code == xylTimeout && poison::culprit(poison_word) == rank;
  return late_itself ? xylRemoteError : static_cast<xylResult_t>(code);
}

result explain_poison(std::uint64_t word, std::span<const control_block* const> controls, int rank,
                      const call_record& mine, std::uint64_t call_number,
                      const std::function<std::string(int)>& name) {
  const auto code = static_cast<xylResult_t>(poison::code(word));
  const int culprit = poison::culprit(word);
  // Any peer may have written the word, so the number in it is no index before it was bounded.
  const bool is_rank = culprit >= 0 && culprit < static_cast<int>(controls.size());
  const std::string who = is_rank ? name(culprit) : format_text("rank %d, which does not exist,", culprit);
  const std::string call = describe_call(mine);
  const auto number = static_cast<unsigned long long>(call_number);
  give_up_record own{};
  const bool recorded = read_record(*controls[static_cast<std::size_t>(rank)], own);

  if (code == xylTimeout && culprit == rank)
    return error(
        code_for(word, rank),
        "the others waited for rank %d until XYLEM_TIMEOUT passed and went on without it; it leaves %s #%llu", rank,
        call.c_str(), number);
  if (code == xylTimeout) {
    if (recorded && own.code == xylTimeout && own.peer != culprit && own.peer >= 0 &&
        own.peer < static_cast<int>(controls.size()))
      return error(
          code, "rank %d waited for %s in %s #%llu until XYLEM_TIMEOUT passed; who kept all of them waiting was %s",
          rank, name(own.peer).c_str(), call.c_str(), number, who.c_str());
    if (recorded && own.code == xylTimeout && own.waited_in == phase::header)
      return error(code, "rank %d waited for %s in %s #%llu until XYLEM_TIMEOUT passed: it never arrived", rank,
                   who.c_str(), call.c_str(), number);
    if (recorded && own.code == xylTimeout)
      return error(code, "rank %d waited for %s in %s #%llu until XYLEM_TIMEOUT passed: its %s did not come", rank,
                   who.c_str(), call.c_str(), number, describe_phase(own.waited_in));
    return error(code,
                 "a rank waited for %s until XYLEM_TIMEOUT passed and gave up; rank %d leaves %s #%llu with it",
                 who.c_str(), rank, call.c_str(), number);
  }
  if (code == xylInvalidUsage) {
    std::string others = other_call(controls, rank, mine);
    if (!others.empty()) others = "; " + others;
    return error(code, "the ranks' calls differ: rank %d called %s (#%llu)%s; the communicator is out of service",
                 rank, call.c_str(), number, others.c_str());
  }
  if (code == xylRemoteError)
    return error(code, "%s died, aborted or left; rank %d leaves %s #%llu", who.c_str(), rank, call.c_str(),
                 number);
  if (code == xylSystemError && recorded && own.code == xylSystemError && own.waited_in == phase::taking)
    return error(code, "rank %d could not read the buffer that %s gave to %s #%llu: %s", rank, who.c_str(),
                 call.c_str(), number, std::strerror(static_cast<int>(own.seen)));
  return error(code_for(word, rank), "%s took the communicator out of service (%d); rank %d leaves %s #%llu",
               who.c_str(), static_cast<int>(code), rank, call.c_str(), number);
}

}  // namespace xyl
