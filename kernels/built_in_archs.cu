// SPDX-License-Identifier: BSD-3-Clause
//
// nvcc tells the host pass which architectures it compiles for.
#include <string>

#include "kernels/arch.hpp"

const char* xyl::built_in_archs() {
  static const std::string words = [] {
    constexpr int list[] = {__CUDA_ARCH_LIST__};
    std::string text;
    for (int i = 0; const int arch : list) {
      if (i > 0) text += i + 1 == static_cast<int>(sizeof list / sizeof *list) ? " and " : ", ";
      text += std::to_string(arch / 10);
      ++i;
    }
    return text;
  }();
  return words.c_str();
}
