// SPDX-License-Identifier: BSD-3-Clause
//
// What a person reads when a communicator is out of service, and that nothing a peer has written makes the library
// wait long or reach for what does not exist.
#include "comm/explain.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"

namespace xyl {
namespace {

struct world {
  explicit world(int ranks) : blocks(std::make_unique<control_block[]>(static_cast<std::size_t>(ranks))) {
    for (int r = 0; r < ranks; ++r) controls.push_back(&blocks[static_cast<std::size_t>(r)]);
  }
  result explain(std::uint64_t word, std::vector<int>* asked = nullptr) const {
    return explain_poison(word, controls, 0, mine, 7, [&](int rank) {
      if (asked) asked->push_back(rank);
      return "rank " + std::to_string(rank);
    });
  }
  std::unique_ptr<control_block[]> blocks;
  std::vector<const control_block*> controls;
  call_record mine;
};

TEST(explain, names_the_culprit) {
  const world w(4);
  const result r = w.explain(poison::pack(xylRemoteError, 3));
  EXPECT_EQ(r.code(), xylRemoteError);
  EXPECT_NE(r.text().find("rank 3 died"), std::string::npos) << r.text();
}

TEST(explain, a_culprit_that_no_rank_has_is_never_looked_up) {
  const world w(4);
  for (const int code : {xylInvalidUsage, xylRemoteError, xylTimeout, xylSystemError})
    for (const int culprit : {-1, 4, INT32_MAX, INT32_MIN}) {
      std::vector<int> asked;
      EXPECT_EQ(w.explain(poison::pack(code, culprit), &asked).code(), code);
      EXPECT_TRUE(asked.empty()) << culprit;
    }
}

TEST(explain, ranks_without_a_record_are_not_waited_for_one_by_one) {
  const world w(64);
  const std::int64_t begin = now_ns();
  EXPECT_EQ(w.explain(poison::pack(xylInvalidUsage, 1)).code(), xylInvalidUsage);
  EXPECT_LT(now_ns() - begin, 2'000'000'000);
}

}  // namespace
}  // namespace xyl
