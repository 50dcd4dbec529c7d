// SPDX-License-Identifier: BSD-3-Clause
#include "topo/tuning_cache.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "topo/built_machines.hpp"

namespace xyl::topo::test {
namespace {

class tuning_cache : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "tuning-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/cache.json";
    key_ = key_of(switched({2, 2}, {0, 0}), "580.95");
    value_.thresholds = {{pattern::all_reduce, {{65536, method::packet}, {UINT64_MAX, method::ring}}}};
    value_.measured = {{pattern::all_reduce, method::ring, 1 << 20, 63.25}};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string text() const {
    std::ifstream in(path_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  // The note of a load that must not succeed.
  std::string ignored(const tuning_key& key) const {
    tuning got;
    std::string note;
    EXPECT_FALSE(load_tuning(path_, key, got, note));
    EXPECT_TRUE(got.thresholds.empty());
    return note;
  }

  std::string folder_, path_;
  tuning_key key_;
  tuning value_;
};

TEST_F(tuning_cache, what_was_stored_is_loaded) {
  ASSERT_TRUE(store_tuning(path_, key_, value_).ok());
  tuning got;
  std::string note = "old";
  ASSERT_TRUE(load_tuning(path_, key_, got, note)) << note;
  EXPECT_EQ(note, "");
  ASSERT_EQ(got.thresholds.size(), 1u);
  ASSERT_EQ(got.thresholds[0].second.size(), 2u);
  EXPECT_EQ(got.thresholds[0].second[0].up_to_bytes, 65536u);
  EXPECT_EQ(got.thresholds[0].second[1].how, method::ring);
  EXPECT_EQ(got.measured, value_.measured);
}

TEST_F(tuning_cache, a_missing_file_is_nothing_to_talk_about) { EXPECT_EQ(ignored(key_), ""); }

TEST_F(tuning_cache, another_machine_driver_library_or_acs_state_is_foreign) {
  ASSERT_TRUE(store_tuning(path_, key_, value_).ok());
  tuning_key other = key_of(switched({2, 2}, {0, 1}), "580.95");
  EXPECT_NE(ignored(other).find("another machine"), std::string::npos);
  other = key_, other.driver = "575";
  EXPECT_NE(ignored(other), "");
  other = key_, ++other.library;
  EXPECT_NE(ignored(other), "");
  other = key_, other.gpus[0] = "GPU-1234";
  EXPECT_NE(ignored(other), "");
  graph redirected = switched({2, 2}, {0, 0});
  redirected.vertices[0].acs_redirect = true;
  EXPECT_NE(ignored(key_of(redirected, "580.95")), "");
  EXPECT_NE(file_name_of(other), file_name_of(key_));
  EXPECT_EQ(file_name_of(key_), file_name_of(key_of(switched({2, 2}, {0, 0}), "580.95")));
}

TEST_F(tuning_cache, every_cut_and_every_changed_byte_is_ignored_or_harmless) {
  ASSERT_TRUE(store_tuning(path_, key_, value_).ok());
  const std::string whole = text();
  for (std::size_t size = 0; size + 2 < whole.size(); size += 7) {
    write(whole.substr(0, size));
    EXPECT_NE(ignored(key_), "") << size;
  }
  for (std::size_t at = 0; at < whole.size(); at += 5) {
    std::string changed = whole;
    changed[at] = '\x01';
    write(changed);
    EXPECT_NE(ignored(key_), "") << at;
  }
  write(std::string(100000, '['));
  EXPECT_NE(ignored(key_), "");
  write(std::string(3 << 20, ' '));
  EXPECT_NE(ignored(key_).find("too large"), std::string::npos);
}

TEST_F(tuning_cache, thresholds_that_make_no_sense_are_ignored) {
  ASSERT_TRUE(store_tuning(path_, key_, value_).ok());
  std::string changed = text();
  const std::size_t at = changed.find("\"packet\"");
  ASSERT_NE(at, std::string::npos);
  changed.replace(at, 8, "\"pocket\"");
  write(changed);
  EXPECT_NE(ignored(key_).find("pocket"), std::string::npos);
}

TEST_F(tuning_cache, only_a_regular_file_that_nobody_else_may_write_is_read) {
  ASSERT_TRUE(store_tuning(path_, key_, value_).ok());
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  EXPECT_NE(ignored(key_).find("written by everybody"), std::string::npos);
  const std::string real = folder_ + "/real.json";
  ASSERT_EQ(rename(path_.c_str(), real.c_str()), 0);
  ASSERT_EQ(symlink(real.c_str(), path_.c_str()), 0);
  EXPECT_NE(ignored(key_), "");
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_NE(ignored(key_), "");
}

TEST_F(tuning_cache, a_reader_never_sees_half_a_file) {
  ASSERT_TRUE(store_tuning(path_, key_, value_).ok());
  std::thread writer([&] {
    tuning longer = value_;
    for (int i = 0; i < 60; ++i) {
      longer.measured.push_back(value_.measured[0]);
      EXPECT_TRUE(store_tuning(path_, key_, longer).ok());
    }
  });
  for (int i = 0; i < 300; ++i) {
    tuning got;
    std::string note;
    EXPECT_TRUE(load_tuning(path_, key_, got, note)) << note;
  }
  writer.join();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "temporary files are left";
}

TEST_F(tuning_cache, a_folder_that_cannot_be_written_is_an_error_and_changes_nothing) {
  const result r = store_tuning(folder_ + "/none/cache.json", key_, value_);
  EXPECT_EQ(r.code(), xylSystemError);
  EXPECT_NE(r.text().find("none/cache.json"), std::string::npos);
}

}  // namespace
}  // namespace xyl::topo::test
