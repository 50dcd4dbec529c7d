// SPDX-License-Identifier: BSD-3-Clause
//
// The separate pass of the tool, and the checker of fused layers: right results of one rank are right for every
// type and kind of weight, and results of a call that was made once too often, or not at all, are not.
#include "tools/perf_layer.hpp"

#include <gtest/gtest.h>

#include "xylem/xylem_mpi.h"

namespace xyl {
namespace {

class perf_layer : public ::testing::Test {
 protected:
  perf_layer() {
    team_.own.emplace_back();
    team_.own[0].memory = make_host_memory();
    EXPECT_EQ(xylCommInitMPI(&team_.own[0].comm, MPI_COMM_WORLD), xylSuccess) << xylGetLastError(nullptr);
  }
  ~perf_layer() override { xylCommDestroy(team_.own[0].comm); }

  // Runs `made` calls and expects the results of `wanted` ones.
  fault_count faults_of(fused_layer& layer, const layer_call& what, int made, int wanted) {
    fault_count faults;
    EXPECT_TRUE(layer.allocate(what.type, what.tokens).ok());
    EXPECT_TRUE(layer.prepare(what).ok());
    for (int i = 0; i < made; ++i) {
      const result ran = layer.run(what);
      EXPECT_TRUE(ran.ok()) << ran.text();
    }
    EXPECT_TRUE(layer.check(what, wanted, faults).ok());
    return faults;
  }

  perf_options options_;
  crew crew_{1, MPI_COMM_WORLD};
  perf_team team_{options_, seat(crew_, 0), 1, true, true, {}};
};

TEST_F(perf_layer, the_separate_pass_agrees_with_the_reference) {
  for (xylDataType_t type : {xylFloat16, xylBfloat16, xylFloat32})
    for (std::size_t hidden : {8u, 2880u})
      for (bool gemma : {false, true})
        for (bool fp32_weight : {false, true}) {
          fused_layer layer(team_, hidden, gemma, fp32_weight);
          const layer_call what{xylFusedResidualRMSNorm, type, 3, false, true, false};
          const fault_count faults = faults_of(layer, what, 4, 4);
          EXPECT_EQ(faults.wrong, 0) << layer.describe(what) << ": " << faults.first;
        }
}

TEST_F(perf_layer, the_sum_alone) {
  fused_layer layer(team_, 64, false, false);
  const fault_count faults = faults_of(layer, {xylFusedAllReduce, xylFloat32, 2, false, true, true}, 1, 1);
  EXPECT_EQ(faults.wrong, 0) << faults.first;
}

TEST_F(perf_layer, a_call_too_many_or_too_few_is_wrong) {
  fused_layer layer(team_, 64, false, false);
  const layer_call what{xylFusedResidualRMSNorm, xylBfloat16, 2, false, true, false};
  EXPECT_GT(faults_of(layer, what, 3, 2).wrong, 0);
  const fault_count nothing = faults_of(layer, what, 0, 2);
  EXPECT_GE(nothing.wrong, 2 * 64) << "every norm at least";
  EXPECT_NE(nothing.first.find("of token 0, number 0 is"), std::string::npos) << nothing.first;
}

}  // namespace
}  // namespace xyl
