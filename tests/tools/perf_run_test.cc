// SPDX-License-Identifier: BSD-3-Clause
//
// The checker is checked: collectives with planted faults must be counted and named. One rank, started without
// mpirun; the communicator is real, the collectives are copies made here.
#include "tools/perf_run.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <barrier>
#include <cstring>
#include <thread>

#include "tools/perf_timing.hpp"
#include "tools/perf_types.hpp"
#include "xylem/xylem_mpi.h"

namespace xyl {
namespace {

enum class fault { none, flipped_bit, missing_tail, overrun, changed_input, returned_error };
fault planted = fault::none;

xylResult_t copy_with_fault(const collective_call& what, xylComm_t, xylStream_t) {
  const std::size_t size = info_of(what.type).size;
  const std::size_t bytes = what.count * size;
  std::byte* const out = static_cast<std::byte*>(what.recv);
  if (planted == fault::returned_error) return xylInternalError;
  // In place everything is there already, so that a missing tail shows out of place alone.
  std::memmove(out, what.send, planted == fault::missing_tail ? bytes - size : bytes);
  if (planted == fault::flipped_bit) out[bytes / 2] ^= std::byte{1};
  if (planted == fault::overrun) out[bytes + 2] = std::byte{0};
  if (planted == fault::changed_input && !what.in_place)
    static_cast<std::byte*>(const_cast<void*>(what.send))[bytes - 1] ^= std::byte{1};
  return xylSuccess;
}

perf_collective copying() {
  perf_collective copy = perf_collectives().front();
  copy.name = "copy";
  copy.function = "copy_with_fault";
  copy.call = copy_with_fault;
  copy.mpi_call = [](const collective_call&, MPI_Comm) { return int{MPI_SUCCESS}; };
  return copy;
}

class perf_run : public ::testing::Test {
 protected:
  perf_run() {
    options_.iterations = options_.repetitions = options_.warmup_iterations = 1;
    team_.own.emplace_back();
    team_.own[0].memory = make_host_memory();
    EXPECT_EQ(xylCommInitMPI(&team_.own[0].comm, MPI_COMM_WORLD), xylSuccess) << xylGetLastError(nullptr);
  }
  ~perf_run() override { xylCommDestroy(team_.own[0].comm); }

  result measure(fault which, std::size_t count, perf_row& row) {
    planted = which;
    measurement measuring(collective_, team_);
    XYL_TRY(team_.allocate(count * 8));
    ::testing::internal::CaptureStderr();
    result r = measuring.measure({xylInt32, xylSum, -1, count}, row);
    said_ = ::testing::internal::GetCapturedStderr();
    return r;
  }
  bool said(const char* part) const { return said_.find(part) != std::string::npos; }

  perf_options options_;
  crew crew_{1, MPI_COMM_WORLD};
  perf_team team_{options_, seat(crew_, 0), 1, true, true, {}};
  perf_collective collective_ = copying();
  std::string said_;
};

constexpr std::size_t counts[] = {2, 1000, pattern_length, 3 * pattern_length + 5};

TEST_F(perf_run, right_results_are_silent) {
  for (std::size_t count : counts) {
    perf_row row;
    ASSERT_TRUE(measure(fault::none, count, row).ok());
    EXPECT_EQ(row.out_of_place.wrong, 0);
    EXPECT_EQ(row.in_place.wrong, 0);
    EXPECT_EQ(row.bytes, count * 4);
    EXPECT_GE(row.in_place.seconds, 0);
    EXPECT_EQ(said_, "");
  }
}

TEST_F(perf_run, one_wrong_element_is_named) {
  for (std::size_t count : counts) {
    perf_row row;
    ASSERT_TRUE(measure(fault::flipped_bit, count, row).ok());
    EXPECT_EQ(row.out_of_place.wrong, 1);
    EXPECT_EQ(row.in_place.wrong, 1);
    EXPECT_TRUE(said("WRONG RESULT: copy of ")) << said_;
    EXPECT_TRUE(said(("rank 0: element " + std::to_string(count / 2) + " is ").c_str())) << said_;
    EXPECT_TRUE(said(", expected ") && said("out-of-place") && said("in-place")) << said_;
  }
}

TEST_F(perf_run, an_element_that_was_not_written_is_wrong) {
  for (std::size_t count : counts) {
    perf_row row;
    ASSERT_TRUE(measure(fault::missing_tail, count, row).ok());
    EXPECT_EQ(row.out_of_place.wrong, 1);
    EXPECT_EQ(row.in_place.wrong, 0);
    EXPECT_TRUE(said("is -1, expected")) << "the poison shows: " << said_;
  }
}

TEST_F(perf_run, writing_behind_the_end_is_wrong) {
  perf_row row;
  ASSERT_TRUE(measure(fault::overrun, 1000, row).ok());
  EXPECT_EQ(row.out_of_place.wrong, 1);
  EXPECT_TRUE(said("byte 2 behind the last element was written")) << said_;
}

TEST_F(perf_run, a_changed_input_is_wrong) {
  perf_row row;
  ASSERT_TRUE(measure(fault::changed_input, 1000, row).ok());
  EXPECT_EQ(row.out_of_place.wrong, 1);
  EXPECT_EQ(row.in_place.wrong, 0);
  EXPECT_TRUE(said("element of the input 999 is ")) << said_;
}

TEST_F(perf_run, a_rank_that_is_to_get_nothing_must_get_nothing) {
  collective_.has_root = true;
  collective_.expected = [](const collective_call& c) -> std::vector<expected_part> {
    return {{c.in_place ? c.rank : expected_part::unwritten, 0, c.count}};
  };
  perf_row row;
  ASSERT_TRUE(measure(fault::none, 1000, row).ok());
  EXPECT_EQ(row.out_of_place.wrong, 1000);
  EXPECT_EQ(row.in_place.wrong, 0);
  EXPECT_TRUE(said("root -1, out-of-place") && said("expected -1")) << said_;
}

TEST_F(perf_run, without_an_in_place_form_nothing_is_measured_in_place) {
  collective_.has_in_place = false;
  perf_row row;
  ASSERT_TRUE(measure(fault::flipped_bit, 1000, row).ok());
  EXPECT_EQ(row.out_of_place.wrong, 1);
  EXPECT_FALSE(row.in_place.is_measured);
}

// Two ranks as threads; the barrier is this function.
std::int64_t wrong_of_barrier(xylComm_t comm, xylResult_t (*meet)(const collective_call&, xylComm_t, xylStream_t)) {
  perf_options options;
  options.iterations = options.repetitions = options.checks = 2;
  perf_collective barrier = perf_collectives().back();
  barrier.call = meet;
  crew both(2, MPI_COMM_WORLD);
  std::int64_t wrong = -1;
  const auto run = [&](int rank) {
    perf_team team{options, seat(both, rank), 2, rank == 0, rank == 0, {}};
    team.own.emplace_back();
    team.own[0].rank = rank;
    team.own[0].comm = comm;
    team.own[0].memory = make_host_memory();
    perf_row row;
    EXPECT_TRUE(measurement(barrier, team).measure({xylInt8, xylSum, -1, 0}, row).ok());
    EXPECT_EQ(row.bytes, 0u);
    EXPECT_FALSE(row.in_place.is_measured);
    if (rank == 0) wrong = row.out_of_place.wrong;
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  return wrong;
}

TEST_F(perf_run, a_barrier_that_is_none_is_wrong) {
  static std::barrier<> good(2);
  const auto meet = [](const collective_call&, xylComm_t, xylStream_t) {
    good.arrive_and_wait();
    return xylSuccess;
  };
  EXPECT_EQ(wrong_of_barrier(team_.own[0].comm, meet), 0);
  ::testing::internal::CaptureStderr();
  const auto pass = [](const collective_call&, xylComm_t, xylStream_t) { return xylSuccess; };
  EXPECT_EQ(wrong_of_barrier(team_.own[0].comm, pass), 2)
      << "each of the two checks has a rank that waits for none";
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("before the last rank came"), std::string::npos);
}

TEST_F(perf_run, nothing_is_checked_without_checks) {
  options_.checks = 0;
  perf_row row;
  ASSERT_TRUE(measure(fault::flipped_bit, 1000, row).ok());
  EXPECT_EQ(row.out_of_place.wrong, -1);
  EXPECT_EQ(said_, "");
}

TEST_F(perf_run, a_failed_call_is_named_with_its_arguments) {
  perf_row row;
  const result r = measure(fault::returned_error, 1000, row);
  EXPECT_EQ(r.code(), xylInternalError);
  EXPECT_NE(r.text().find("copy_with_fault (copy of 1000 int32, sum, out-of-place)"), std::string::npos)
      << r.text();
}

TEST_F(perf_run, iterations_are_found_and_the_comparison_is_timed) {
  options_.iterations = 0;
  options_.compare = true;
  perf_row row;
  ASSERT_TRUE(measure(fault::none, 1000, row).ok());
  EXPECT_GE(row.iterations, 3);
  EXPECT_GT(row.out_of_place.seconds, 0);
  EXPECT_GT(row.out_of_place.mpi_seconds, 0);
}

TEST_F(perf_run, single_calls_are_timed_where_inputs_are_written_anew) {
  options_.compare = options_.rewrite = true;
  options_.iterations = 7;
  perf_row row;
  ASSERT_TRUE(measure(fault::none, 1000, row).ok());
  EXPECT_EQ(row.iterations, 7);
  EXPECT_EQ(row.out_of_place.wrong, 0);
  EXPECT_GT(row.out_of_place.seconds, 0);
  EXPECT_GT(row.out_of_place.mpi_seconds, 0);
}

TEST(perf_timing, rewriting_changes_no_value_and_writes_every_line) {
  std::vector<std::byte> bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  const std::vector<std::byte> before = bytes;
  rewrite(bytes.data(), bytes.size());
  EXPECT_EQ(bytes, before);
  rewrite(nullptr, 0);
  // Memory that cannot be written to ends the process, in whichever line it begins.
  const long page = ::sysconf(_SC_PAGESIZE);
  auto* const two = static_cast<std::byte*>(
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(two, MAP_FAILED);
  ASSERT_EQ(::mprotect(two + page, page, PROT_READ), 0);
  rewrite(two, page);
  EXPECT_DEATH(rewrite(two + page - 1, 2), "");
  ::munmap(two, 2 * page);
}

}  // namespace
}  // namespace xyl

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  ::testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  MPI_Finalize();
  return failed;
}
