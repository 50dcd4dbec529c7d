// SPDX-License-Identifier: BSD-3-Clause
//
// Floating-point arithmetic as IEEE 754 has it by default, for as long as the object lives, whatever the calling
// thread has set: rounding to nearest, subnormal numbers kept, no traps. A program may have been linked with
// -ffast-math on one rank and not on another, and all ranks are to hold the same bits; a program that traps invalid
// operations must not be stopped by a NaN that a maximum passes over. The thread's own mode, flags included, comes
// back afterwards.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace xyl {

class default_arithmetic {
 public:
  default_arithmetic(const default_arithmetic&) = delete;

#if defined(__x86_64__)
  // Reading the register costs a few cycles; it is written only where it has to be.
  default_arithmetic() : mode_(_mm_getcsr()) {
    if (differs()) _mm_setcsr(by_default);
  }
  ~default_arithmetic() {
    if (differs()) _mm_setcsr(mode_);
  }

 private:
  static constexpr unsigned by_default = 0x1f80, flags = 0x3f;
  bool differs() const { return (mode_ & ~flags) != by_default; }
  unsigned mode_;
#else
  default_arithmetic() {
    std::fegetenv(&mode_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~default_arithmetic() { std::fesetenv(&mode_); }

 private:
  std::fenv_t mode_;
#endif
};

}  // namespace xyl
