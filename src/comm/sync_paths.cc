// SPDX-License-Identifier: BSD-3-Clause
#include "comm/sync_paths.hpp"

#include <algorithm>

namespace xyl {

namespace {

// ld/st.relaxed, acquire and release exist from SM 70 on; the oldest image of this library is for 75.
constexpr path_facts table[sync_paths] = {
    {sync_path::packet, 70, sync_link::other, "8-byte stores are seen whole"},
    {sync_path::wide_packet, 70, sync_link::nvlink, "128 bytes stored by a warp are seen whole"},
    {sync_path::line_packet, 70, sync_link::host_memory, "16-byte stores are seen whole", 2},
    {sync_path::flag, 70, sync_link::other, "release and acquire at system scope"},
    {sync_path::device_flag, 70, sync_link::one_gpu, "release and acquire at the scope of a GPU"},
    {sync_path::fenced_flag, 70, sync_link::other, "fences at system scope"},
};

// A path that is preferred by order gives way to one that is so much faster: less is noise. But an order at the
// scope of a GPU waits for less, and more so the more there is to order: in trials, which move a line or two, it is
// faster by a tenth or less, in a two-shot allreduce of 1 MB among 4 ranks by a quarter (9.1 us instead of 12.0).
constexpr double faster = 0.9;
constexpr double needed_of(sync_path p) { return p == sync_path::device_flag ? 1 : faster; }
// Packets are there to be faster than plain flags; so much slower they may be measured.
constexpr double not_slower = 1.15;
// So much slower than another is worth a line.
constexpr double slow = 3;
// An overlap that gains less is left out: it costs the neighbours' blocks room.
constexpr double gains = 0.97;

double us(std::uint64_t ns) { return static_cast<double>(ns) * 1e-3; }
double trip(const sync_trials& trials, sync_path p) { return us(trials.of(p).trips.found.round_ns); }

bool gained(const path_trials& t) {
  return t.plain.passed() && t.overlapped.passed() &&
         static_cast<double>(t.overlapped.found.launch_ns) < gains * static_cast<double>(t.plain.found.launch_ns);
}

launch_overlap overlap_for(sync_path p, const sync_facts& facts, const sync_wishes& wishes,
                           const sync_trials& trials) {
  if (!facts.can_overlap) return launch_overlap::none;
  if (wishes.overlap != launch_overlap::automatic) return wishes.overlap;
  // Forced, it must have worked.
  if (wishes.path != sync_wishes::no_path)
    return wishes.overlapped != 0 && trials.of(p).overlapped.passed() ? facts.allowed_overlap
                                                                      : launch_overlap::none;
  return gained(trials.of(p)) ? facts.allowed_overlap : launch_overlap::none;
}

const joint_finding* ended(const sync_trials& trials) {
  if (trials.first.ended()) return &trials.first;
  for (const path_trials& t : trials.of_path)
    for (const joint_finding* one : {&t.trips, &t.plain, &t.overlapped})
      if (one->ended()) return one;
  return nullptr;
}

// The flags to use, or none.
std::optional<sync_path> best_flags(const sync_trials& trials) {
  std::optional<sync_path> best;
  for (const path_facts& one : table) {
    if (!is_flag(one.path) || !trials.of(one.path).works()) continue;
    if (!best || trip(trials, one.path) < needed_of(one.path) * trip(trials, *best)) best = one.path;
  }
  return best;
}

std::string why_forced_fails(const sync_facts& facts, const sync_wishes& wishes, const sync_trials& trials) {
  const path_facts& forced = table[wishes.path];
  if (std::string why = not_allowed(forced, facts); !why.empty()) return why;
  if (!trials.of(forced.path).works()) return trials.of(forced.path).failure();
  if (wishes.overlapped == 0) return "";
  if (!facts.can_overlap) return "programmatic launches need SM 90 and a driver for CUDA 12.3 on every rank";
  if (!trials.of(forced.path).overlapped.tried)
    return "launches were not tried with overlap, since the ranks take turns on their GPU";
  return trials.of(forced.path).failure();
}

std::string failures_of(const sync_trials& trials, const sync_facts& facts) {
  std::string all;
  for (const path_facts& one : table) {
    std::string why = not_allowed(one, facts);
    if (why.empty()) why = trials.of(one.path).failure();
    if (!why.empty()) all += format_text("%s%s: %s", all.empty() ? "" : "; ", name_of(one.path), why.c_str());
  }
  return all;
}

struct reasons {
  const sync_facts& facts;
  const sync_wishes& wishes;
  const sync_trials& trials;
  const sync_choice& choice;
  sync_path flags;
  bool refused;

  std::string of_path(sync_path p, bool& is_chosen) const {
    const path_trials& t = trials.of(p);
    is_chosen = !refused && (p == sync_path::packet        ? choice.packets
                             : p == sync_path::wide_packet ? choice.wide_packets
                             : p == sync_path::line_packet ? choice.line_packets
                                                           : p == flags);
    const bool is_forced = wishes.path == static_cast<std::uint32_t>(p);
    if (is_chosen && is_forced) return "yes: XYLEM_SYNC";
    if (is_chosen)
      return p == sync_path::packet ? "yes, for small messages"
             : is_flag(p)           ? "yes, for what is not packets"
             : p == sync_path::line_packet && facts.link != sync_link::host_memory
                 ? "yes, where XYLEM_ALGO asks for it"
                 : "yes, for some allreduces";
    if (!t.works()) return "no";
    if (refused) return "no: device memory is not used";
    if (wishes.path != sync_wishes::no_path) return "no: XYLEM_SYNC asks for another";
    if (p == sync_path::line_packet && choice.wide_packets) return "no: ll128 sends fewer bytes";
    if (!is_flag(p)) return "no: slower than plain flags";
    return format_text(p == sync_path::device_flag ? "no: not faster than %s" : "no: not so much faster than %s",
                       name_of(flags));
  }

  std::string of_overlap(sync_path p, bool& is_chosen) const {
    bool path_is_chosen = false;
    (void)of_path(p, path_is_chosen);
    const launch_overlap used = !is_flag(p) ? choice.packet_overlap : choice.flag_overlap;
    is_chosen = path_is_chosen && used != launch_overlap::none;
    if (!facts.can_overlap) return "no";
    if (!path_is_chosen) return "no: the path is not used";
    const char* const when = used == launch_overlap::early  ? "early"
                             : used == launch_overlap::late ? "late"
                                                            : "none";
    if (wishes.overlap != launch_overlap::automatic)
      return format_text("%s: XYLEM_OVERLAP (%s)", is_chosen ? "yes" : "no", when);
    if (wishes.path != sync_wishes::no_path) return is_chosen ? "yes: XYLEM_SYNC" : "no: XYLEM_SYNC";
    if (is_chosen) return format_text("yes (%s)", when);
    return trials.of(p).overlapped.tried ? "no: no gain" : "no: not measured";
  }
};

std::string tested(const joint_finding& f) {
  if (!f.tried) return "not tried";
  return f.passed() ? "passed" : text_of(f);
}

}  // namespace

std::span<const path_facts> path_table() { return table; }

sync_wishes sync_wishes::of(const parameters& p) {
  sync_wishes w;
  if (p.forced_sync) w.path = static_cast<std::uint32_t>(*p.forced_sync);
  w.overlapped = p.forced_sync && p.forced_sync_overlaps ? 1 : 0;
  w.overlap = p.overlap;
  return w;
}

bool sync_wishes::plausible() const {
  return (path == no_path || path < static_cast<std::uint32_t>(sync_paths)) && overlapped <= 1 &&
         overlap <= launch_overlap::early;
}

bool is_allowed(const path_facts& path, const sync_facts& facts) { return not_allowed(path, facts).empty(); }

std::string not_allowed(const path_facts& path, const sync_facts& facts) {
  if (facts.least_sm < path.sm)
    return format_text("it needs SM %d, and a rank's GPU is SM %d", path.sm, facts.least_sm);
  if (path.ranks != 0 && facts.ranks != path.ranks) return format_text("only between %d ranks", path.ranks);
  if (path.path == sync_path::line_packet && !facts.has_line_kernels)
    return "it needs a library built with CUDA 12.4 or newer";
  if (facts.link <= path.farthest) return "";
  switch (path.farthest) {
    case sync_link::one_gpu:
      return "only where all ranks are on one GPU";
    case sync_link::nvlink:
      return "only on one GPU or where NVLink joins every pair";
    default:
      return "only in host memory, on one GPU or where NVLink joins every pair";
  }
}

joint_finding join_findings(std::span<const trial_finding> of_ranks, const trial_plan& plan) {
  joint_finding joint;
  joint.tried = true;
  joint.plan = plan;
  joint.found.verdict = trial_verdict::passed;
  // Who was not there explains who waited for it, and wrong data who waited, perhaps, on account of it.
  const auto weight = [](trial_verdict v) {
    switch (v) {
      case trial_verdict::passed:
        return 0;
      case trial_verdict::late:
        return 1;
      case trial_verdict::wrong_data:
        return 2;
      case trial_verdict::absent:
        return 3;
      case trial_verdict::not_launched:
        break;
    }
    return 4;
  };
  for (std::size_t r = 0; r < of_ranks.size(); ++r) {
    const trial_finding& one = of_ranks[r];
    if (weight(one.verdict) > weight(joint.found.verdict)) {
      joint.found = one;
      joint.rank = static_cast<int>(r);
    } else if (joint.found.verdict == trial_verdict::passed) {
      joint.found.round_ns = std::max(joint.found.round_ns, one.round_ns);
      joint.found.launch_ns = std::max(joint.found.launch_ns, one.launch_ns);
    }
  }
  return joint;
}

std::string text_of(const joint_finding& bad) {
  const trial_finding& f = bad.found;
  switch (f.verdict) {
    case trial_verdict::passed:
      return "";
    case trial_verdict::wrong_data:
      return format_text("rank %d read 0x%llx from rank %d where it had put 0x%llx (round %u, word %u)", bad.rank,
                         static_cast<unsigned long long>(f.seen), f.peer, static_cast<unsigned long long>(f.wanted),
                         f.round, f.word);
    case trial_verdict::late:
      return format_text(
          "rank %d had nothing of rank %d in round %u when the limit of %.0f ms for %u rounds was over", bad.rank,
          f.peer, f.round, static_cast<double>(bad.plan.what.limit_ns) * 1e-6, bad.plan.what.rounds);
    case trial_verdict::absent:
      return format_text("the self-test of rank %d had not begun when rank %d had waited %.1f s for it", f.peer,
                         bad.rank, static_cast<double>(bad.plan.meeting_ns) * 1e-9);
    case trial_verdict::not_launched:
      break;
  }
  return format_text("rank %d could not run it", bad.rank);
}

std::string path_trials::failure() const {
  for (const joint_finding* one : {&trips, &plain, &overlapped})
    if (one->failed())
      return (one == &overlapped ? "launches that overlap: " : one == &plain ? "launches: " : "") + text_of(*one);
  return "";
}

sync_decision decide(const sync_facts& facts, const sync_wishes& wishes, const sync_trials& trials) {
  sync_decision d;
  const std::optional<sync_path> flags = best_flags(trials);
  const path_trials& packets = trials.of(sync_path::packet);
  if (const joint_finding* end = ended(trials))
    d.verdict = error(xylSystemError, "the self-test of %s could not be run: %s", name_of(end->plan.what.path),
                      text_of(*end).c_str());
  else if (!packets.works())
    d.verdict = error(xylSystemError, "the self-test of the packets that every call begins with failed: %s",
                      packets.failure().c_str());
  else if (!flags)
    d.verdict =
        error(xylSystemError, "no way to post a flag passed its self-test: %s", failures_of(trials, facts).c_str());
  d.choice.flags = order_of(flags.value_or(sync_path::flag));
  const auto forced = static_cast<sync_path>(wishes.path);
  if (wishes.path != sync_wishes::no_path) {
    const std::string why = why_forced_fails(facts, wishes, trials);
    if (!why.empty() && d.verdict.ok())
      d.verdict = error(xylInvalidUsage, "XYLEM_SYNC asks for %s%s, which this machine does not have: %s",
                        name_of(forced), wishes.overlapped ? "+pdl" : "", why.c_str());
    if (is_flag(forced)) d.choice.flags = order_of(forced);
    d.choice.packets = !is_flag(forced);
    d.choice.wide_packets = forced == sync_path::wide_packet && why.empty();
    d.choice.line_packets = forced == sync_path::line_packet && why.empty();
  } else if (flags) {
    const sync_path plain = trials.of(sync_path::flag).works() ? sync_path::flag : *flags;
    d.choice.packets = trip(trials, sync_path::packet) <= not_slower * trip(trials, plain);
    if (!d.choice.packets)
      d.dropped.push_back(format_text("ll: a trip takes %.1f us, one of %s only %.1f",
                                      trip(trials, sync_path::packet), name_of(plain), trip(trials, plain)));
    // For longer messages than a trip has, where sizes choose.
    const auto is_good = [&](sync_path lines) {
      if (!trials.of(lines).works()) return false;
      if (trip(trials, lines) <= slow * trip(trials, plain)) return true;
      d.dropped.push_back(format_text("%s: a trip takes %.1f us, one of %s only %.1f", name_of(lines),
                                      trip(trials, lines), name_of(plain), trip(trials, plain)));
      return false;
    };
    d.choice.wide_packets = is_good(sync_path::wide_packet);
    d.choice.line_packets = is_good(sync_path::line_packet) && !d.choice.wide_packets;
    for (const path_facts& one : table)
      if (is_flag(one.path) && trials.of(one.path).works() && trip(trials, one.path) > slow * trip(trials, *flags))
        d.dropped.push_back(format_text("%s: a trip takes %.1f us, one of %s only %.1f", name_of(one.path),
                                        trip(trials, one.path), name_of(*flags), trip(trials, *flags)));
  }
  const bool wishes_lines = forced == sync_path::wide_packet || forced == sync_path::line_packet;
  d.choice.packet_overlap = overlap_for(wishes_lines ? forced : sync_path::packet, facts, wishes, trials);
  d.choice.flag_overlap = overlap_for(path_of(d.choice.flags), facts, wishes, trials);

  const reasons why{facts, wishes, trials, d.choice, path_of(d.choice.flags), !d.verdict.ok()};
  for (const path_facts& one : table) {
    const path_trials& t = trials.of(one.path);
    const std::string veto = not_allowed(one, facts);
    sync_row row{name_of(one.path), one.relies_on, veto.empty() ? "yes" : "no: " + veto, "", ""};
    row.tested = veto.empty() ? tested(t.plain.failed() ? t.plain : t.trips) : "not tried";
    row.trip_us = t.trips.passed() ? us(t.trips.found.round_ns) : 0;
    row.launch_us = t.plain.passed() ? us(t.plain.found.launch_ns) : 0;
    row.chosen = why.of_path(one.path, row.is_chosen);
    d.rows.push_back(row);
    if (veto.empty() && !t.failure().empty())
      d.dropped.push_back(format_text("%s: %s", row.name.c_str(), t.failure().c_str()));
    row.name += "+pdl";
    row.relies_on += ", programmatic launch";
    if (veto.empty() && !facts.can_overlap) row.allowed = "no: it needs SM 90 and a driver for CUDA 12.3";
    row.tested = veto.empty() && facts.can_overlap ? tested(t.overlapped) : "not tried";
    row.launch_us = t.overlapped.passed() ? us(t.overlapped.found.launch_ns) : 0;
    row.chosen = why.of_overlap(one.path, row.is_chosen);
    d.rows.push_back(std::move(row));
  }
  return d;
}

std::string text_of(std::span<const sync_row> rows) {
  std::string text = format_text("%-12s %-8s %-8s %-38s %s\n", "sync path", "trip us", "launch", "chosen",
                                 "allowed; self-test; relies on");
  const auto number = [](double x) { return x > 0 ? format_text("%.2f", x) : std::string("-"); };
  for (const sync_row& r : rows)
    text += format_text("%-12s %-8s %-8s %-38s %s; %s; %s\n", r.name.c_str(), number(r.trip_us).c_str(),
                        number(r.launch_us).c_str(), r.chosen.c_str(), r.allowed.c_str(), r.tested.c_str(),
                        r.relies_on.c_str());
  return text;
}

}  // namespace xyl
