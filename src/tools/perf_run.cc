// SPDX-License-Identifier: BSD-3-Clause
//
// Time: barrier, clock, calls, clock; the slowest rank counts; the median over repetitions is shown. A comparison
// with MPI takes turns with it, repetition by repetition, so that both see the same machine.
#include "tools/perf_run.hpp"

#include <algorithm>
#include <climits>
#include <cstring>

#include "base/clock.hpp"
#include "tools/perf_types.hpp"

namespace xyl {
namespace {

// Behind the output lie bytes that must stay as they are.
constexpr std::size_t guard_bytes = 256;
constexpr int poison = 0xff;  // NaN in the floating-point types

// A repetition that lasts this long makes clock reading and barrier skew a small part of it.
constexpr double wanted_seconds = 5e-3;

double slowest(double seconds, MPI_Comm mpi) {
  double out = 0;
  MPI_Allreduce(&seconds, &out, 1, MPI_DOUBLE, MPI_MAX, mpi);
  return out;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

measurement::measurement(const perf_options& options, const perf_collective& collective, xylComm_t comm,
                         MPI_Comm mpi, perf_memory& memory)
    : options_(options), collective_(collective), comm_(comm), mpi_(mpi), memory_(memory) {
  MPI_Comm_rank(mpi_, &rank_);
  MPI_Comm_size(mpi_, &ranks_);
}

result measurement::allocate(std::size_t most_bytes) {
  XYL_TRY(memory_.allocate(most_bytes + guard_bytes, send_));
  return memory_.allocate(most_bytes + guard_bytes, recv_);
}

std::string measurement::describe(const collective_call& what) const {
  return format_text("%s of %zu %s, %s, %s", collective_.name, what.count, info_of(what.type).name,
                     info_of(what.operation).name, what.send == what.recv ? "in-place" : "out-of-place");
}

result measurement::call(const collective_call& what) {
  const xylResult_t code = collective_.call(what, comm_, memory_.stream());
  if (code == xylSuccess) return {};
  return error(code, "%s (%s): %s: %s", collective_.function, describe(what).c_str(), xylGetErrorString(code),
               xylGetLastError(comm_));
}

result measurement::call_often(const collective_call& what, int times) {
  for (int i = 0; i < times; ++i) XYL_TRY(call(what));
  return {};
}

result measurement::call_mpi_often(const collective_call& what, int times) {
  for (int i = 0; i < times; ++i)
    if (collective_.mpi_call(what, mpi_) != MPI_SUCCESS)
      return error(xylSystemError, "MPI failed in its %s", describe(what).c_str());
  return {};
}

result measurement::wait() {
  XYL_TRY(memory_.wait());
  xylResult_t code = xylSuccess;
  if (const xylResult_t asked = xylCommGetAsyncError(comm_, &code); asked != xylSuccess) code = asked;
  if (code == xylSuccess) return {};
  return error(code, "%s failed: %s: %s", collective_.function, xylGetErrorString(code), xylGetLastError(comm_));
}

result measurement::write_pattern(std::byte* to, const std::vector<std::byte>& pattern, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes; done += pattern.size())
    XYL_TRY(memory_.write(to + done, pattern.data(), std::min(pattern.size(), bytes - done)));
  return {};
}

// Equality of bits with the repeated pattern, then the guard. first: a sentence about the first fault.
result measurement::find_wrong(const collective_call& what, const std::vector<std::byte>& expected,
                               std::int64_t& wrong, std::string& first) {
  const std::size_t size = info_of(what.type).size;
  const std::size_t bytes = what.count * size;
  std::vector<std::byte> got(std::max(expected.size(), guard_bytes));
  for (std::size_t done = 0; done < bytes; done += expected.size()) {
    const std::size_t here = std::min(expected.size(), bytes - done);
    XYL_TRY(memory_.read(got.data(), recv_ + done, here));
    if (std::memcmp(got.data(), expected.data(), here) == 0) continue;
    for (std::size_t at = 0; at < here; at += size) {
      if (std::memcmp(&got[at], &expected[at], size) == 0) continue;
      if (wrong++ == 0)
        first =
            format_text("element %zu is %s, expected %s", (done + at) / size,
                        element_text(what.type, &got[at]).c_str(), element_text(what.type, &expected[at]).c_str());
    }
  }
  XYL_TRY(memory_.read(got.data(), recv_ + bytes, guard_bytes));
  for (std::size_t i = 0; i < guard_bytes; ++i) {
    if (got[i] == std::byte{poison}) continue;
    if (wrong++ == 0) first = format_text("byte %zu behind the last element was written", i);
    break;
  }
  return {};
}

result measurement::check_placement(const collective_call& what, std::int64_t& wrong) {
  const data_key key{what.type, what.operation, ranks_, ++salt_};
  const std::size_t bytes = what.count * info_of(what.type).size;
  const std::size_t pattern_count = std::min(what.count, pattern_length);
  XYL_TRY(memory_.fill(recv_, poison, bytes + guard_bytes));
  XYL_TRY(write_pattern(what.send == recv_ ? recv_ : send_, make_input(key, rank_, pattern_count), bytes));
  work launch = [&] { return call(what); };
  if (options_.graph_launches > 0) XYL_TRY(memory_.record([&] { return call(what); }, launch));
  XYL_TRY(launch());
  XYL_TRY(wait());

  std::int64_t here = 0;
  std::string first;
  XYL_TRY(find_wrong(what, collective_.expected(key, pattern_count), here, first));
  const int own = here > 0 ? rank_ : INT_MAX;
  int speaker = INT_MAX;
  std::int64_t everywhere = 0;
  MPI_Allreduce(&own, &speaker, 1, MPI_INT, MPI_MIN, mpi_);
  MPI_Allreduce(&here, &everywhere, 1, MPI_INT64_T, MPI_SUM, mpi_);
  if (speaker == rank_)
    std::fprintf(stderr, "xylem-perf: WRONG RESULT: %s: rank %d: %s (%lld wrong on this rank, %lld on all)\n",
                 describe(what).c_str(), rank_, first.c_str(), static_cast<long long>(here),
                 static_cast<long long>(everywhere));
  wrong += everywhere;
  return {};
}

result measurement::time_once(const work& calls, double& seconds) {
  MPI_Barrier(mpi_);
  XYL_TRY(memory_.start_clock());
  XYL_TRY(calls());
  XYL_TRY(memory_.stop_clock(seconds));
  seconds = slowest(seconds, mpi_);
  return {};
}

// Lengthens a trial until it lasts long enough to tell. All ranks decide from the slowest one's time.
result measurement::choose_iterations(const collective_call& what, int& iterations) {
  const int most = options_.graph_launches > 0 ? 50 : memory_.stream() ? 500 : 20'000;
  int trial = 1;
  double seconds = 0;
  while (true) {
    XYL_TRY(time_once([&] { return call_often(what, trial * options_.aggregated_calls); }, seconds));
    if (seconds > wanted_seconds / 4 || trial == most) break;
    trial = std::min(most, trial * 4);
  }
  const double each = seconds / trial;
  iterations = each * most <= wanted_seconds ? most : std::max(3, static_cast<int>(wanted_seconds / each));
  return {};
}

result measurement::time_placement(const collective_call& what, int& iterations, placement_result& out) {
  const bool with_mpi = options_.compare && mpi_can(what.type, what.operation);
  const int warmup = options_.warmup_iterations * options_.aggregated_calls;
  XYL_TRY(call_often(what, warmup));
  XYL_TRY(wait());
  if (with_mpi) XYL_TRY(call_mpi_often(what, warmup));
  if (iterations == 0) XYL_TRY(choose_iterations(what, iterations));

  const int calls = iterations * options_.aggregated_calls;
  const int launches = std::max(1, options_.graph_launches);
  work launch = [&] { return call_often(what, calls); };
  if (options_.graph_launches > 0) {
    XYL_TRY(memory_.record([&] { return call_often(what, calls); }, launch));
    XYL_TRY(launch());  // the first launch of a graph also uploads it
    XYL_TRY(wait());
  }
  const work all_launches = [&]() -> result {
    for (int i = 0; i < launches; ++i) XYL_TRY(launch());
    return {};
  };
  std::vector<double> ours;
  std::vector<double> theirs;
  for (int i = 0; i < options_.repetitions; ++i) {
    double seconds = 0;
    XYL_TRY(time_once(all_launches, seconds));
    XYL_TRY(wait());
    ours.push_back(seconds / calls / launches);
    if (!with_mpi) continue;
    XYL_TRY(time_once([&] { return call_mpi_often(what, calls); }, seconds));
    theirs.push_back(seconds / calls);
  }
  out.seconds = median(std::move(ours));
  if (with_mpi) out.mpi_seconds = median(std::move(theirs));
  return {};
}

result measurement::measure(xylDataType_t type, xylRedOp_t operation, std::size_t count, perf_row& out) {
  out = {};
  out.bytes = count * info_of(type).size;
  out.count = count;
  out.type = type;
  out.operation = operation;
  out.root = collective_.root;
  int iterations = options_.iterations;
  for (placement_result* placement : {&out.out_of_place, &out.in_place}) {
    const bool in_place = placement == &out.in_place;
    const collective_call what{in_place ? recv_ : send_, recv_, count, type, operation};
    if (options_.checks > 0) placement->wrong = 0;
    for (int i = 0; i < options_.checks; ++i) XYL_TRY(check_placement(what, placement->wrong));
    if (options_.checks == 0)
      XYL_TRY(write_pattern(in_place ? recv_ : send_,
                            make_input({type, operation, ranks_, 0}, rank_, std::min(count, pattern_length)),
                            out.bytes));
    XYL_TRY(time_placement(what, iterations, *placement));
  }
  out.iterations = iterations;
  return {};
}

}  // namespace xyl
