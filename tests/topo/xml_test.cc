// SPDX-License-Identifier: BSD-3-Clause
// Hostile XML: what is refused, on which line, in how much time and memory.
#include "topo/xml.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "topo/import.hpp"

namespace xyl::topo {
namespace {

std::string text_of_bad(const std::string& text) {
  graph g;
  g.notes.push_back("untouched");
  const result r = import_text(text, g);
  EXPECT_EQ(r.code(), xylInvalidArgument) << text.substr(0, 200);
  EXPECT_EQ(g.notes.size(), 1u) << "the graph was changed";
  return r.text();
}

std::string repeated(const std::string& text, std::size_t count) {
  std::string all;
  all.reserve(text.size() * count);
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

const std::string nccl_head = "<system version=\"1\">\n<cpu numaid=\"0\">\n";
const std::string nccl_tail = "</cpu>\n</system>\n";

// In a process of its own, beyond what a process that does nothing needs.
struct cost {
  double seconds = 0;
  double megabytes = 0;
  bool refused_with_line = false;
};

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; }

// Of a child that runs it: processor time, how much memory at most, and what it returned.
template <typename Run>
std::pair<cost, int> measured(Run run) {
  const pid_t child = fork();
  if (child == 0) _exit(run());
  int status = -1;
  rusage used{};
  EXPECT_EQ(wait4(child, &status, 0, &used), child);
  const cost c{.seconds = seconds(used.ru_utime) + seconds(used.ru_stime),
               .megabytes = static_cast<double>(used.ru_maxrss) / 1024,
               .refused_with_line = false};
  return {c, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

cost cost_of(const std::string& text) {
  // A child that reads the text and nothing else has what this process has.
  const cost base = measured([&] { return text.find('\0') == text.npos ? 0 : 1; }).first;
  auto [c, status] = measured([&] {
    graph g;
    const result r = import_text(text, g);
    return r.code() == xylInvalidArgument && r.text().find("line ") != std::string::npos ? 0 : 1;
  });
  c.megabytes -= base.megabytes;
  c.seconds -= base.seconds;
  c.refused_with_line = status == 0;
  return c;
}

bool is_instrumented() {
  const char* sanitizer = std::getenv("TEST_SANITIZER");
  return sanitizer && *sanitizer;
}

void expect_cheap(const std::string& what, const std::string& text) {
  const cost c = cost_of(text);
  EXPECT_TRUE(c.refused_with_line) << what;
  // Meant to be under 100 ms of processor time; sanitizers are given more.
  EXPECT_LT(c.seconds, 5) << what;
  if (!is_instrumented()) {
    EXPECT_LT(c.megabytes, 64) << what;
  }
  std::printf("%s: %zu bytes, %.1f ms, %.1f MB\n", what.c_str(), text.size(), c.seconds * 1e3, c.megabytes);
}

TEST(xml, what_is_too_much_is_refused_fast_and_in_little_memory) {
  expect_cheap("100,000 deep, NCCL", nccl_head + repeated("<pci busid=\"0000:01:00.0\">", 100'000));
  expect_cheap("100,000 deep, hwloc", "<topology version=\"2.0\">" + repeated("<object type=\"Group\">", 100'000));
  expect_cheap("1,000,000 elements", "<system>" + repeated("<a/>", 1'000'000) + "</system>");
  expect_cheap("1,000,000 elements, hwloc",
               "<topology version=\"2.0\">" + repeated("<info/>", 1'000'000) + "</topology>");
  expect_cheap("an attribute of 7 MB", "<system version=\"" + std::string(7 << 20, 'x') + "\"/>");
  expect_cheap("a name of 7 MB", "<system " + std::string(7 << 20, 'x') + "=\"1\"/>");
  expect_cheap("300,000 attributes", [] {
    std::string text = "<system";
    for (int i = 0; i < 300'000; ++i) text += " a" + std::to_string(i) + "=\"\"";
    return text + "/>";
  }());
  expect_cheap("9 MB", "<system>" + std::string(9 << 20, ' ') + "</system>");
  expect_cheap("an unfinished comment", "<system><!--" + std::string(7 << 20, '-'));
}

TEST(xml, entities_are_not_declared) {
  const std::string bomb =
      "<?xml version=\"1.0\"?>\n<!DOCTYPE system [\n<!ENTITY a \"aaaaaaaaaa\">\n<!ENTITY b \"&a;&a;&a;&a;\">\n]>\n"
      "<system version=\"&b;\"/>";
  EXPECT_NE(text_of_bad(bomb).find("line 2: a DOCTYPE with declarations"), std::string::npos);
  const std::string file = "<!DOCTYPE system [<!ENTITY x SYSTEM \"file:///etc/passwd\">]>\n<system>&x;</system>";
  EXPECT_NE(text_of_bad(file).find("line 1:"), std::string::npos);
  EXPECT_NE(text_of_bad("<system>\n&x;</system>").find("line 2: undefined entity"), std::string::npos);
}

TEST(xml, truncated_files) {
  const std::string good =
      nccl_head + "<pci busid=\"0000:01:00.0\" class=\"0x030200\">\n<gpu/>\n</pci>\n" + nccl_tail;
  graph g;
  ASSERT_TRUE(import_text(good, g).ok());
  for (std::size_t length = 1; length + 1 < good.size(); ++length)
    EXPECT_NE(text_of_bad(good.substr(0, length)).find("line "), std::string::npos) << length;
  EXPECT_EQ(text_of_bad(""), "it is empty");
  EXPECT_EQ(text_of_bad(" \n\n"), "it is empty");
}

TEST(xml, other_encodings_and_binary_data) {
  EXPECT_NE(text_of_bad("<?xml version=\"1.0\" encoding=\"UTF-16\"?><system/>").find("encoding UTF-16"),
            std::string::npos);
  EXPECT_NE(text_of_bad("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><system/>").find("line 1"),
            std::string::npos);
  EXPECT_NE(text_of_bad(std::string("<system>\n\0</system>", 19)).find("line 2: a NUL byte"), std::string::npos);
  EXPECT_NE(text_of_bad("\xff\xfe<system/>").find("line 1"), std::string::npos);
  EXPECT_NE(text_of_bad("<system a=\"\xc0\x80\"/>").find("line 1"), std::string::npos);
}

TEST(xml, what_it_is_must_be_known) {
  EXPECT_NE(text_of_bad("<html/>").find("<html> begins neither"), std::string::npos);
  EXPECT_NE(text_of_bad("<topology/>").find("version 2 can be read"), std::string::npos);
  EXPECT_NE(text_of_bad("<root/>").find("version 2 can be read"), std::string::npos);
  EXPECT_NE(text_of_bad("<topology version=\"3.0\"/>").find("hwloc 3"), std::string::npos);
  EXPECT_NE(text_of_bad("not XML").find("line 1"), std::string::npos);
  EXPECT_EQ(text_of_bad("<a" + std::string(1000, 'b') + "/>").find('\n'), std::string::npos);
  EXPECT_LT(text_of_bad("<a" + std::string(1000, 'b') + "/>").size(), 300u);
}

class counting final : public xml_handler {
 public:
  result open(const xml_element& e) override {
    depth = std::max(depth, e.depth);
    last = e.line;
    ++elements;
    return {};
  }
  result close(std::string_view) override { return {}; }
  result text(std::string_view) override { return {}; }
  unsigned depth = 0;
  unsigned long last = 0;
  std::size_t elements = 0;
};

TEST(xml, limits_are_exact) {
  const xml_limits limits{
      .bytes = 100, .depth = 3, .elements = 4, .attribute_bytes = 5, .attributes = 2, .milliseconds = 10'000};
  counting seen;
  EXPECT_TRUE(read_xml("<a>\n<b><c/></b>\n<d/></a>", limits, seen).ok());
  EXPECT_EQ(seen.depth, 2u);
  EXPECT_EQ(seen.elements, 4u);
  EXPECT_EQ(seen.last, 3u);
  EXPECT_EQ(read_xml("<a><b>\n<c><d/></c></b></a>", limits, seen).text(),
            "line 2: elements are nested deeper than 3");
  EXPECT_EQ(read_xml("<a><b/><c/>\n\n<d/><e/></a>", limits, seen).text(), "line 3: there are more than 4 elements");
  xml_limits narrow;
  narrow.tag_bytes = 5;
  EXPECT_TRUE(read_xml("<ab>\n<b/></ab>", narrow, seen).ok());
  EXPECT_EQ(read_xml("<a>\n<bcd/>  </a>", narrow, seen).text(), "line 2: more than 5 bytes between two \"<\"");
  EXPECT_TRUE(read_xml("<a x='1234' y='1'/>", limits, seen).ok());
  EXPECT_FALSE(read_xml("<a x='12345'/>", limits, seen).ok());
  EXPECT_FALSE(read_xml("<a x='' y='' z=''/>", limits, seen).ok());
  EXPECT_FALSE(read_xml("<a>" + std::string(100, ' ') + "</a>", limits, seen).ok());
}

TEST(xml, time_runs_out) {
  xml_limits limits;
  limits.milliseconds = -1;
  counting seen;
  EXPECT_NE(read_xml("<a><b/></a>", limits, seen).text().find("took longer"), std::string::npos);
}

TEST(xml, files_that_are_none) {
  std::string text;
  EXPECT_EQ(read_small_file("/does/not/exist", 10, text).code(), xylSystemError);
  EXPECT_NE(read_small_file("/dev/zero", 10, text).text().find("not a regular file"), std::string::npos);
  EXPECT_NE(read_small_file("/tmp", 10, text).text().find("not a regular file"), std::string::npos);
  const std::string pipe = testing::TempDir() + "/xml_test_pipe." + std::to_string(getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(read_small_file(pipe.c_str(), 10, text).text().find("not a regular file"), std::string::npos);
  std::filesystem::remove(pipe);
  const std::string file = testing::TempDir() + "/xml_test_file." + std::to_string(getpid());
  std::ofstream(file) << "0123456789";
  EXPECT_TRUE(read_small_file(file.c_str(), 10, text).ok());
  EXPECT_EQ(text, "0123456789");
  EXPECT_NE(read_small_file(file.c_str(), 9, text).text().find("more than 9 bytes"), std::string::npos);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace xyl::topo
