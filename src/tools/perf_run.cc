// SPDX-License-Identifier: BSD-3-Clause
//
// The median over repetitions is shown. A comparison with MPI takes turns with it, repetition by repetition, so
// that both see the same machine.
#include "tools/perf_run.hpp"

#include <thread>

#include "base/clock.hpp"
#include "tools/perf_check.hpp"
#include "tools/perf_mpi.hpp"
#include "tools/perf_timing.hpp"
#include "tools/perf_types.hpp"

namespace xyl {

std::string measurement::describe(const collective_call& what) const {
  std::string text = collective_.name;
  if (collective_.send != extent::none) text += format_text(" of %zu %s", what.count, info_of(what.type).name);
  if (collective_.reduces) text += format_text(", %s", info_of(what.operation).name);
  if (collective_.has_root) text += format_text(", root %d", what.root);
  if (collective_.has_in_place) text += what.in_place ? ", in-place" : ", out-of-place";
  return text;
}

measurement::calls measurement::calls_of(const perf_line& line, bool in_place) const {
  calls out;
  for (const perf_rank& r : team_.own) {
    out.push_back(
        {nullptr, nullptr, line.count, line.type, line.operation, line.root, r.rank, team_.ranks, in_place});
    place_buffers(collective_, info_of(line.type).size, r.send, r.recv, out.back());
  }
  return out;
}

// Several ranks of one thread make their calls in a group: one of them alone would wait for the others for ever.
result measurement::call(const calls& what) {
  const bool is_group = what.size() > 1;
  xylResult_t code = is_group ? xylGroupStart() : xylSuccess;
  std::size_t i = 0;
  while (code == xylSuccess && i < what.size()) {
    const perf_rank& r = team_.own[i];
    code = collective_.call(what[i], r.comm, r.memory->stream());
    if (code == xylSuccess) ++i;
  }
  if (is_group)
    if (const xylResult_t end = xylGroupEnd(); code == xylSuccess) code = end;
  if (code == xylSuccess) return {};
  // Of a group any rank may know the reason.
  std::size_t at = std::min(i, what.size() - 1);
  for (std::size_t k = 0; i == what.size() && k < what.size(); ++k)
    if (*xylGetLastError(team_.own[k].comm)) at = k;
  return error(code, "%s (%s) on rank %d: %s: %s", collective_.function, describe(what[at]).c_str(), what[at].rank,
               xylGetErrorString(code), xylGetLastError(team_.own[at].comm));
}

result measurement::call_often(const calls& what, int times) {
  for (int i = 0; i < times; ++i) XYL_TRY(call(what));
  return {};
}

result measurement::call_mpi_often(const calls& what, int times) {
  for (int i = 0; i < times; ++i)
    if (collective_.mpi_call(what.front(), team_.place.mpi()) != MPI_SUCCESS)
      return error(xylSystemError, "MPI failed in its %s", describe(what.front()).c_str());
  return {};
}

result measurement::wait() { return wait_for_work(team_, collective_.function); }

// One call, in a graph if calls are to be measured in one.
result measurement::launch_of(const calls& what, work& launch) {
  const work once = [this, &what] { return call(what); };
  launch = once;
  return options().graph_launches > 0 ? record_graph(team_, once, launch) : result();
}

// New data in all buffers; the checks refer to what and book.
result measurement::prepare(const calls& what, pattern_book& book, std::vector<buffer_check>& checks) {
  for (std::size_t i = 0; i < what.size(); ++i) {
    checks.emplace_back(collective_, what[i], *team_.own[i].memory, book);
    XYL_TRY(checks.back().prepare());
  }
  return {};
}

result measurement::check_buffers(const calls& what, std::int64_t& wrong) {
  pattern_book book(collective_, what.front(), ++salt_);
  std::vector<buffer_check> checks;
  XYL_TRY(prepare(what, book, checks));
  work launch;
  XYL_TRY(launch_of(what, launch));
  XYL_TRY(launch());
  XYL_TRY(wait());

  fault_count faults;
  for (buffer_check& c : checks) XYL_TRY(c.find_wrong(faults));
  team_.count_wrong(describe(what.front()), faults, wrong);
  return {};
}

// One rank comes late, and nobody may be gone before it has come. The ranks are on one machine and share its clock.
result measurement::check_meeting(const calls& what, std::int64_t& wrong) {
  work launch;
  XYL_TRY(launch_of(what, launch));
  const std::uint64_t late = ++salt_ % static_cast<std::uint64_t>(team_.ranks);
  team_.place.barrier();
  for (const collective_call& c : what)
    if (late == static_cast<std::uint64_t>(c.rank)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const double came = static_cast<double>(now_ns());
  XYL_TRY(launch());
  XYL_TRY(wait());
  const double left = static_cast<double>(now_ns());
  const double last_came = team_.place.largest(came);
  fault_count faults;
  for (const collective_call& c : what)
    if (left < last_came)
      faults.add(c.rank,
                 [&] { return format_text("left %.0f us before the last rank came", (last_came - left) * 1e-3); });
  team_.count_wrong(describe(what.front()), faults, wrong);
  return {};
}

result measurement::check_placement(const calls& what, std::int64_t& wrong) {
  return collective_.send == extent::none ? check_meeting(what, wrong) : check_buffers(what, wrong);
}

result measurement::choose_iterations(const calls& what, int& iterations) {
  const bool on_stream = team_.own.front().memory->stream() != nullptr;
  // A single call takes a meeting of the ranks beside its own time.
  const int most = options().graph_launches > 0 ? 50 : on_stream ? 500 : options().rewrite ? 1000 : 20'000;
  return choose_repeats(
      team_, [&](int times) { return call_often(what, times * options().aggregated_calls); }, most, iterations);
}

result measurement::time_placement(const calls& what, int& iterations, placement_result& out) {
  const bool with_mpi = options().compare && mpi_can(collective_, what.front());
  const int warmup = options().warmup_iterations * options().aggregated_calls;
  XYL_TRY(call_often(what, warmup));
  XYL_TRY(wait());
  if (with_mpi) XYL_TRY(call_mpi_often(what, warmup));
  if (iterations == 0) XYL_TRY(choose_iterations(what, iterations));

  const int times = iterations * options().aggregated_calls;
  const int launches = std::max(1, options().graph_launches);
  work launch = [&] { return call_often(what, times); };
  if (options().graph_launches > 0) {
    XYL_TRY(record_graph(
        team_, [&] { return call_often(what, times); }, launch));
    XYL_TRY(launch());  // the first launch of a graph also uploads it
    XYL_TRY(wait());
  }
  const auto write_anew = [&] {
    for (const collective_call& c : what)
      rewrite(c.send, elements_of(collective_.send, c.count, c.ranks) * info_of(c.type).size);
  };
  const work all_launches = [&]() -> result {
    for (int i = 0; i < launches; ++i) XYL_TRY(launch());
    return {};
  };
  std::vector<double> ours;
  std::vector<double> theirs;
  for (int i = 0; i < options().repetitions; ++i) {
    double seconds = 0;
    if (options().rewrite) {
      XYL_TRY(time_singly(
          team_, write_anew, [&] { return call(what); }, times, seconds));
      ours.push_back(seconds);
      if (!with_mpi) continue;
      XYL_TRY(time_singly(
          team_, write_anew, [&] { return call_mpi_often(what, 1); }, times, seconds));
      theirs.push_back(seconds);
      continue;
    }
    XYL_TRY(time_once(team_, all_launches, seconds));
    XYL_TRY(wait());
    ours.push_back(seconds / times / launches);
    if (!with_mpi) continue;
    XYL_TRY(time_once(
        team_, [&] { return call_mpi_often(what, times); }, seconds));
    theirs.push_back(seconds / times);
  }
  out.seconds = median(std::move(ours));
  if (with_mpi) out.mpi_seconds = median(std::move(theirs));
  return {};
}

result measurement::measure(const perf_line& line, perf_row& out) {
  out = {};
  out.bytes = message_bytes(collective_, line.count, info_of(line.type).size, team_.ranks);
  out.count = line.count;
  out.type = line.type;
  if (collective_.reduces) out.operation = line.operation;
  out.root = line.root;
  int iterations = options().iterations;
  for (placement_result* placement : {&out.out_of_place, &out.in_place}) {
    const bool in_place = placement == &out.in_place;
    placement->is_measured = !in_place || collective_.has_in_place;
    if (!placement->is_measured) continue;
    const calls what = calls_of(line, in_place);
    if (options().checks > 0) placement->wrong = 0;
    for (int i = 0; i < options().checks; ++i) XYL_TRY(check_placement(what, placement->wrong));
    if (options().checks == 0) {
      pattern_book book(collective_, what.front(), salt_);
      std::vector<buffer_check> unused;
      XYL_TRY(prepare(what, book, unused));
    }
    XYL_TRY(time_placement(what, iterations, *placement));
  }
  out.iterations = iterations;
  return {};
}

}  // namespace xyl
