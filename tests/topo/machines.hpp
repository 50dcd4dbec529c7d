// SPDX-License-Identifier: BSD-3-Clause
// Machines for tests: those in tests/topo/machines, and more where XYLEM_TOPOLOGY_DIR says they are.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "topo/import.hpp"
#include "topo/paths.hpp"

namespace xyl::topo {

inline std::string source_folder() {
  const char* folder = std::getenv("srcdir");
  return folder ? folder : ".";
}

inline std::string machine_path(const std::string& name) {
  return source_folder() + "/tests/topo/machines/" + name;
}

inline std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline graph import_good(const std::string& path) {
  graph g;
  const result r = import_file(path.c_str(), g);
  EXPECT_TRUE(r.ok()) << r.text();
  return g;
}

inline graph machine(const std::string& name) { return import_good(machine_path(name)); }

// Empty where there are no more machines: the test is skipped with a line.
inline std::string more_machines() {
  const char* folder = std::getenv("XYLEM_TOPOLOGY_DIR");
  return folder ? folder : "";
}

inline std::vector<std::string> files_in(const std::string& folder, const std::string& ending) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().string().ends_with(ending)) paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// One row of class names for each GPU, in the order of their addresses.
inline std::vector<std::string> classes(const graph& g) {
  const path_finder find(g);
  std::vector<std::string> rows;
  for (vertex_id from : g.gpus()) {
    std::string row;
    for (vertex_id to : g.gpus()) row += (row.empty() ? "" : " ") + name_of(find.find(from, to));
    rows.push_back(row);
  }
  return rows;
}

// Rows of a machine whose GPUs are in groups of `size`: `inside` within one, `near` between those of one half,
// `far` between halves.
inline std::vector<std::string> grouped(unsigned count, unsigned size, unsigned half, const std::string& inside,
                                        const std::string& near, const std::string& far) {
  std::vector<std::string> rows;
  for (unsigned i = 0; i < count; ++i) {
    std::string row;
    for (unsigned j = 0; j < count; ++j) {
      const std::string& name = i / size == j / size ? inside : i / half == j / half ? near : far;
      row += (j ? " " : "") + (i == j ? "LOC" : name);
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace xyl::topo
