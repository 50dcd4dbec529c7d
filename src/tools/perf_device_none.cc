// SPDX-License-Identifier: BSD-3-Clause
//
// Device memory in a build without CUDA: there is none.
#include "tools/perf_memory.hpp"

namespace xyl {

int device_count() { return 0; }
result use_device(int) { return error(xylInvalidUsage, "this xylem-perf was built without CUDA"); }
std::string device_text(int) { return ""; }
result make_device_memory(int, std::unique_ptr<perf_memory>&) {
  return error(xylInvalidUsage, "this xylem-perf was built without CUDA");
}

}  // namespace xyl
