// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of protocols that are run for several numbers of ranks, blocks and lanes.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "proto/thread_machine.hpp"

namespace xyl::test {

struct shape {
  int ranks;
  unsigned blocks, lanes;
};

inline std::string shape_name(const testing::TestParamInfo<shape>& info) {
  return "ranks" + std::to_string(info.param.ranks) + "blocks" + std::to_string(info.param.blocks) + "lanes" +
         std::to_string(info.param.lanes);
}

class of_a_shape : public testing::TestWithParam<shape> {
 protected:
  // Of which the low half of the epoch wraps with every other seed.
  static machine_plan plan_of(std::uint64_t seed) {
    machine_plan plan;
    plan.ranks = GetParam().ranks;
    plan.blocks = GetParam().blocks;
    plan.lanes = GetParam().lanes;
    plan.seed = seed;
    plan.last_epoch = seed % 2 ? epoch_zero : 0xfffffff4ull;
    return plan;
  }
};

}  // namespace xyl::test
