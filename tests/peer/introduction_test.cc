// SPDX-License-Identifier: BSD-3-Clause
#include "peer/introduction.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace xyl {
namespace {

constexpr int ranks = 4;

std::vector<introduction> group() {
  std::vector<introduction> all(ranks);
  for (int r = 0; r < ranks; ++r) {
    EXPECT_TRUE(introduction::make(r, layout::make(ranks, 8, 1 << 16, 1 << 20), all[r]).ok());
    all[r].process_number = 4711 + r;
  }
  return all;
}

void contains(const result& r, const std::string& part) {
  EXPECT_NE(r.text().find(part), std::string::npos) << "\"" << r.text() << "\" lacks \"" << part << "\"";
}

// The same change has the same verdict on every rank.
void refused_by_all(const std::function<void(std::vector<introduction>&)>& change, const std::string& part,
                    const std::string& other_part) {
  std::vector<introduction> all = group();
  change(all);
  for (int r = 0; r < ranks; ++r) {
    const result verdict = check_introductions(all, r);
    EXPECT_EQ(verdict.code(), xylInvalidUsage);
    contains(verdict, part);
    contains(verdict, other_part);
  }
}

TEST(introduction, equal_ranks_fit_together) {
  const std::vector<introduction> all = group();
  for (int r = 0; r < ranks; ++r) EXPECT_TRUE(check_introductions(all, r).ok());
}

TEST(introduction, names_both_ranks_of_different_versions) {
  refused_by_all([](auto& all) { all[2].library += 100; }, "rank 0 runs Xylem 0.1.0", "rank 2 runs 0.2.0");
  const std::string other = std::to_string(wire_version + 1);
  refused_by_all([](auto& all) { all[0].wire = wire_version + 1; },
                 ("rank 0 runs Xylem 0.1.0 (wire version " + other + ")").c_str(), "rank 1 runs");
}

TEST(introduction, refuses_other_sizes_and_layouts) {
  refused_by_all([](auto& all) { all[3].control_bytes += 128; }, "ranks 0 and 3", "built differently");
  refused_by_all([](auto& all) { all[1].record_bytes -= 8; }, "ranks 0 and 1", "built differently");
  refused_by_all([](auto& all) { all[1].map = layout::make(ranks, 16, 1 << 16, 1 << 20); }, "ranks 0 and 1",
                 "different workspaces");
}

TEST(introduction, refuses_an_allgather_out_of_order) {
  refused_by_all([](auto& all) { std::swap(all[1], all[2]); }, "place 1 of 4", "rank 2 of 4");
  refused_by_all([](auto& all) { all[3].rank = 0; }, "place 3 of 4", "rank 0 of 4");
  refused_by_all([](auto& all) { all[1].ranks = 5; }, "place 1 of 4", "rank 1 of 5");
  refused_by_all([](auto& all) { all[2] = {}; }, "rank 2", "something else");
}

TEST(introduction, refuses_several_machines) {
  refused_by_all([](auto& all) { all[2].boot[0] ^= 1; }, "ranks 0 and 2", "different machines");
}

TEST(introduction, a_rank_that_failed_keeps_its_own_error) {
  std::vector<introduction> all = group();
  all[2].state = report::of(error(xylSystemError, "no memory"));
  EXPECT_EQ(check_introductions(all, 2).code(), xylSystemError);
  EXPECT_EQ(check_introductions(all, 2).text(), "no memory");
  for (int r : {0, 1, 3}) {
    EXPECT_EQ(check_introductions(all, r).code(), xylRemoteError);
    contains(check_introductions(all, r), "rank 2 (process 4713) failed: no memory");
  }
}

TEST(introduction, verdict_names_the_first_rank_that_failed) {
  const std::vector<introduction> names = group();
  std::vector<report> all(ranks);
  EXPECT_TRUE(verdict({}, all, names).ok());
  all[1] = report::of(error(xylInvalidUsage, "first"));
  all[3] = report::of(error(xylSystemError, "second"));
  EXPECT_EQ(verdict({}, all, names).code(), xylRemoteError);
  contains(verdict({}, all, names), "rank 1 (process 4712) failed: first");
  EXPECT_EQ(verdict(error(xylSystemError, "second"), all, names).text(), "second");
}

TEST(introduction, a_long_text_is_cut_not_overrun) {
  const report made = report::of(error(xylSystemError, "%s", std::string(1000, 'x').c_str()));
  EXPECT_EQ(std::string(made.text), std::string(251, 'x'));
}

TEST(introduction, the_secret_needs_every_part) {
  std::vector<introduction> all = group();
  const secret_bytes before = common_secret(all);
  EXPECT_EQ(before, common_secret(all));
  for (int r = 0; r < ranks; ++r) {
    std::vector<introduction> changed = all;
    changed[r].secret_part[5] ^= 1;
    EXPECT_NE(common_secret(changed), before);
  }
}

}  // namespace
}  // namespace xyl
