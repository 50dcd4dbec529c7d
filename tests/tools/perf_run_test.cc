// SPDX-License-Identifier: BSD-3-Clause
//
// The checker is checked: collectives with planted faults must be counted and named. One rank, started without
// mpirun; the communicator is real, the collective is a copy made here.
#include "tools/perf_run.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "tools/perf_types.hpp"
#include "xylem/xylem_mpi.h"

namespace xyl {
namespace {

enum class fault { none, flipped_bit, missing_tail, overrun, returned_error };
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
  return xylSuccess;
}

const perf_collective collective = {"copy",
                                    "Copies",
                                    -1,
                                    [](int) { return 1.0; },
                                    copy_with_fault,
                                    "copy_with_fault",
                                    make_reduced,
                                    [](const collective_call&, MPI_Comm) { return int{MPI_SUCCESS}; }};

class perf_run : public ::testing::Test {
 protected:
  perf_run() {
    options_.iterations = options_.repetitions = options_.warmup_iterations = 1;
    EXPECT_EQ(xylCommInitMPI(&comm_, MPI_COMM_WORLD), xylSuccess) << xylGetLastError(nullptr);
  }
  ~perf_run() override { xylCommDestroy(comm_); }

  result measure(fault which, std::size_t count, perf_row& row) {
    planted = which;
    measurement measuring(options_, collective, comm_, MPI_COMM_WORLD, *memory_);
    XYL_TRY(measuring.allocate(count * 8));
    ::testing::internal::CaptureStderr();
    result r = measuring.measure(xylInt32, xylSum, count, row);
    said_ = ::testing::internal::GetCapturedStderr();
    return r;
  }
  bool said(const char* part) const { return said_.find(part) != std::string::npos; }

  perf_options options_;
  xylComm_t comm_ = nullptr;
  std::unique_ptr<perf_memory> memory_ = make_host_memory();
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

}  // namespace
}  // namespace xyl

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  ::testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  MPI_Finalize();
  return failed;
}
