// SPDX-License-Identifier: BSD-3-Clause
#include <string>

#include "config.h"
#include "kernels/arch.hpp"

const char* xyl::built_in_archs() {
  static const std::string words = [] {
    constexpr int list[] = {XYLEM_CUDA_ARCHS};
    std::string text;
    for (int i = 0; const int arch : list) {
      if (i > 0) text += i + 1 == static_cast<int>(sizeof list / sizeof *list) ? " and " : ", ";
      text += std::to_string(arch);
      ++i;
    }
    return text;
  }();
  return words.c_str();
}
