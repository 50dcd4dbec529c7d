// SPDX-License-Identifier: BSD-3-Clause
//
// xylem(7) says of every parameter what the table says, and names no other. The page is looked for below the source
// folder that automake's `srcdir` names, or the current one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "base/parameters.hpp"

namespace xyl {
namespace {

// Roff without its requests: the words, separated by single blanks.
std::string page_text() {
  const char* folder = std::getenv("srcdir");
  std::ifstream page(std::string(folder ? folder : ".") + "/man/xylem.7");
  EXPECT_TRUE(page.is_open());
  std::string text;
  for (std::string line; std::getline(page, line);) {
    if (line.rfind(".B ", 0) == 0) line.erase(0, 3);
    if (!line.empty() && line[0] == '.') continue;
    text += line + " ";
  }
  return text;
}

TEST(parameters_manual, says_what_the_table_says) {
  const std::string page = page_text();
  for (const parameter_info& p : parameter_table()) {
    const std::string entry =
        std::string(p.name) + " " + p.help + " Allowed: " + p.allowed + ". Default: " + p.default_value + ".";
    EXPECT_NE(page.find(entry), std::string::npos) << "man/xylem.7 lacks: " << entry;
  }
}

TEST(parameters_manual, names_nothing_that_is_not_in_the_table) {
  std::set<std::string> known;
  for (const parameter_info& p : parameter_table()) known.insert(p.name);
  for (const char* name : foreign_parameter_names()) known.insert(name);
  std::set<std::string> named;
  const std::string page = page_text();
  for (std::size_t at = page.find("XYLEM_"); at != std::string::npos; at = page.find("XYLEM_", at + 1)) {
    const std::size_t end = page.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789", at);
    named.insert(page.substr(at, end - at));
  }
  named.erase("XYLEM_");  // the prefix itself
  EXPECT_EQ(named, known);
}

}  // namespace
}  // namespace xyl
