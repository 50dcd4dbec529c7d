// SPDX-License-Identifier: BSD-3-Clause
//
// result: success is free, an error keeps its code and its whole sentence, XYL_TRY returns early.
#include "base/result.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace {

TEST(result, success_has_no_text) {
  const xyl::result r;
  EXPECT_TRUE(r.ok());
  EXPECT_EQ(r.code(), xylSuccess);
  EXPECT_EQ(r.text(), "");
}

TEST(result, error_keeps_code_and_text) {
  const xyl::result r = xyl::error(xylTimeout, "rank %d waited %.1f s for rank %d", 3, 30.0, 5);
  EXPECT_FALSE(r.ok());
  EXPECT_EQ(r.code(), xylTimeout);
  EXPECT_EQ(r.text(), "rank 3 waited 30.0 s for rank 5");
}

TEST(result, long_text_is_not_cut) {
  const std::string name(10'000, 'x');
  EXPECT_EQ(xyl::format_text("<%s>", name.c_str()), "<" + name + ">");
}

TEST(result, empty_format_gives_empty_text) { EXPECT_EQ(xyl::format_text("%s", ""), ""); }

TEST(result, system_error_names_errno) {
  errno = ENOENT;
  const xyl::result r = xyl::system_error("open of %s", "a file");
  EXPECT_EQ(r.code(), xylSystemError);
  EXPECT_EQ(r.text(), std::string("open of a file: ") + std::strerror(ENOENT));
}

TEST(result, moving_keeps_the_text) {
  xyl::result first = xyl::error(xylInternalError, "kept");
  const xyl::result second = std::move(first);
  EXPECT_EQ(second.code(), xylInternalError);
  EXPECT_EQ(second.text(), "kept");
}

xyl::result stop_at(xyl::result (*step)(), bool& reached) {
  XYL_TRY(step());
  reached = true;
  return {};
}

TEST(result, try_returns_the_first_error) {
  bool reached = false;
  const xyl::result r = stop_at([] { return xyl::error(xylRemoteError, "rank 2 is gone"); }, reached);
  EXPECT_EQ(r.code(), xylRemoteError);
  EXPECT_EQ(r.text(), "rank 2 is gone");
  EXPECT_FALSE(reached);
}

TEST(result, try_goes_on_after_success) {
  bool reached = false;
  EXPECT_TRUE(stop_at([] { return xyl::result(); }, reached).ok());
  EXPECT_TRUE(reached);
}

}  // namespace
