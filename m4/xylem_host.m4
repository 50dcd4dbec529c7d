# SPDX-License-Identifier: BSD-3-Clause
#
# XYLEM_HOST_FLAGS: language standard, warnings and the --enable-debug/tsan/asan options, as XYLEM_CXXFLAGS,
# XYLEM_CFLAGS and XYLEM_LDFLAGS. The user's CFLAGS, CXXFLAGS and LDFLAGS stay as they are.
AC_DEFUN([XYLEM_HOST_FLAGS], [
AC_ARG_ENABLE([debug], [AS_HELP_STRING([--enable-debug], [no optimisation; checks inside the C++ library])],
              [], [enable_debug=no])
AC_ARG_ENABLE([tsan], [AS_HELP_STRING([--enable-tsan], [build everything under ThreadSanitizer])],
              [], [enable_tsan=no])
AC_ARG_ENABLE([asan], [AS_HELP_STRING([--enable-asan], [build everything under AddressSanitizer and UBSan])],
              [], [enable_asan=no])
AS_IF([test "$enable_tsan" != no && test "$enable_asan" != no],
      [AC_MSG_ERROR([--enable-tsan and --enable-asan cannot be combined: the two sanitizers exclude each other])])

# No contraction: the host and the GPU must round every product and sum alike.
xylem_common_flags="-fvisibility=hidden -ffp-contract=off -Wall -Wextra -Wno-unknown-pragmas"
# Debug information would make the library ten times as large: with --enable-debug, or a -g of the user's.
AS_IF([test "$enable_debug" != no],
      [xylem_optimise="-O0 -g" xylem_assertions="-D_GLIBCXX_ASSERTIONS" XYLEM_KERNEL_CXXFLAGS= XYLEM_TEST_CXXFLAGS=],
      [xylem_optimise="-O2" xylem_assertions= XYLEM_TEST_CXXFLAGS=-O1
       # Spelled out beside -O3 because a distribution's -O2 in CXXFLAGS comes later and would end vectorisation.
       XYLEM_KERNEL_CXXFLAGS="-O3 -ftree-vectorize"
       XYLEM_TRY_FLAG([-fvect-cost-model=dynamic],
                      [XYLEM_KERNEL_CXXFLAGS="$XYLEM_KERNEL_CXXFLAGS -fvect-cost-model=dynamic"])
       # Nobody reads the exception flags of these loops. Else a conversion in one arm of a choice keeps its branch.
       XYLEM_TRY_FLAG([-fno-trapping-math],
                      [XYLEM_KERNEL_CXXFLAGS="$XYLEM_KERNEL_CXXFLAGS -fno-trapping-math"])])
XYLEM_SANITIZER=
AS_IF([test "$enable_tsan" != no], [XYLEM_SANITIZER="-fsanitize=thread"])
# Not vptr: that check looks at memory through a pipe, and where a test leaves no descriptors every object is bad.
AS_IF([test "$enable_asan" != no],
      [XYLEM_SANITIZER="-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all"])
XYLEM_CXXFLAGS="$xylem_optimise -std=c++20 $xylem_common_flags $xylem_assertions $XYLEM_SANITIZER"
XYLEM_CFLAGS="$xylem_optimise -std=c11 $xylem_common_flags $XYLEM_SANITIZER"
XYLEM_LDFLAGS="$XYLEM_SANITIZER"

AC_MSG_CHECKING([whether $CXX compiles C++20])
xylem_saved_flags=$CXXFLAGS
CXXFLAGS="$XYLEM_CXXFLAGS $CXXFLAGS"
AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#include <atomic>
#include <concepts>
#include <span>
template <std::unsigned_integral T> T load(T& word) { return std::atomic_ref<T>(word).load(std::memory_order_acquire); }
]], [[unsigned word = 0; std::span<unsigned> all(&word, 1); return static_cast<int>(load(all[0]));]])],
  [AC_MSG_RESULT([yes])],
  [AC_MSG_RESULT([no])
   AC_MSG_ERROR([$CXX cannot build a C++20 program with "$CXXFLAGS"; GCC 11 or newer is needed])])

# One test program is always built under ThreadSanitizer, where that can be linked.
xylem_have_tsan=no
AS_IF([test "$enable_asan" = no], [
  AC_MSG_CHECKING([whether $CXX links -fsanitize=thread])
  CXXFLAGS="$XYLEM_CXXFLAGS $CXXFLAGS -fsanitize=thread"
  AC_LINK_IFELSE([AC_LANG_PROGRAM()], [xylem_have_tsan=yes])
  AC_MSG_RESULT([$xylem_have_tsan])])
CXXFLAGS=$xylem_saved_flags
AM_CONDITIONAL([HAVE_TSAN], [test "$xylem_have_tsan" = yes])
AM_CONDITIONAL([ENABLE_TSAN], [test "$enable_tsan" != no])

# Undefined symbols should stop the link of the library; a sanitizer leaves its own to the program.
XYLEM_LIBRARY_LDFLAGS=
AS_IF([test -z "$XYLEM_SANITIZER"], [XYLEM_LIBRARY_LDFLAGS="-Wl,-z,defs"])

AC_SUBST([XYLEM_CXXFLAGS])
AC_SUBST([XYLEM_CFLAGS])
AC_SUBST([XYLEM_LDFLAGS])
AC_SUBST([XYLEM_SANITIZER])
AC_SUBST([XYLEM_LIBRARY_LDFLAGS])
AC_SUBST([XYLEM_KERNEL_CXXFLAGS])
AC_SUBST([XYLEM_TEST_CXXFLAGS])
])

# XYLEM_TRY_FLAG(FLAG, ACTION-IF-ACCEPTED, [ACTION-IF-NOT])
AC_DEFUN([XYLEM_TRY_FLAG], [
AC_MSG_CHECKING([whether $CXX accepts $1])
xylem_try_saved=$CXXFLAGS
CXXFLAGS="$CXXFLAGS -Werror $1"
AC_COMPILE_IFELSE([AC_LANG_PROGRAM()], [xylem_try=yes], [xylem_try=no])
CXXFLAGS=$xylem_try_saved
AC_MSG_RESULT([$xylem_try])
AS_IF([test "$xylem_try" = yes], [$2], [$3])
])

# XYLEM_HOST_ISA: on x86-64 the host reductions are compiled three times. HAVE_X86_64 is true exactly where the
# compiler defines __x86_64__, so that sources may test that.
AC_DEFUN([XYLEM_HOST_ISA], [
AVX2_CXXFLAGS="-mavx2 -mf16c -mfma"
AVX512_CXXFLAGS="-mfma -mavx512f -mavx512bw -mavx512vl -mavx512dq"
AC_MSG_CHECKING([whether the host is x86-64])
AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
#ifndef __x86_64__
#error another processor
#endif
]])], [xylem_x86_64=yes], [xylem_x86_64=no])
AC_MSG_RESULT([$xylem_x86_64])
AS_IF([test "$xylem_x86_64" = yes], [
  XYLEM_TRY_FLAG([$AVX2_CXXFLAGS], [], [AC_MSG_ERROR([$CXX does not know $AVX2_CXXFLAGS])])
  XYLEM_TRY_FLAG([$AVX512_CXXFLAGS], [], [AC_MSG_ERROR([$CXX does not know $AVX512_CXXFLAGS])])])
AM_CONDITIONAL([HAVE_X86_64], [test "$xylem_x86_64" = yes])
AC_SUBST([AVX2_CXXFLAGS])
AC_SUBST([AVX512_CXXFLAGS])
])
