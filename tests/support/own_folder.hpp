// SPDX-License-Identifier: BSD-3-Clause
//
// Tests with a folder of their own, which goes when they end.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace xyl::test {

class with_a_folder : public testing::Test {
 protected:
  explicit with_a_folder(const std::string& name)
      : folder_(testing::TempDir() + name + "." + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~with_a_folder() override { std::filesystem::remove_all(folder_); }
  // A new file in it.
  std::string file(const std::string& text) {
    const std::string path = folder_ + "/" + std::to_string(files_++);
    std::ofstream(path) << text;
    return path;
  }
  std::string folder_;
  int files_ = 0;
};

}  // namespace xyl::test
