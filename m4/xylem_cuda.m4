# SPDX-License-Identifier: BSD-3-Clause
#
# XYLEM_FIND_CUDA: nvcc (12.0 or newer, able to work with the configured C++ compiler), the static runtime, and the
# list of architectures. The driver is not looked for: libcuda and NVML are opened at run time.
AC_DEFUN([XYLEM_FIND_CUDA], [
XYLEM_WITH([cuda], [CUDA toolkit 12.0 or newer])
AC_ARG_WITH([cuda-arch], [AS_HELP_STRING([--with-cuda-arch=LIST],
  [SM numbers to compile for, as in "80,90"; PTX is added for the last. "native": this machine's GPUs, 90 if it has
   none. Default: cubins 75 80 86 89 90 100 120 and PTX 90 and 120, as far as nvcc knows them])],
  [], [with_cuda_arch=default])
AC_ARG_VAR([NVCC], [CUDA compiler])
AC_ARG_VAR([NVCCFLAGS], [additional flags for the CUDA compiler])
AC_ARG_VAR([CUDA_HOME], [CUDA toolkit folder, if --with-cuda names none])
xylem_cuda=no
AS_IF([test "$want_cuda" = no], [cuda_outcome="left out (--without-cuda): host memory only"], [
  AS_IF([test -n "$dir_cuda"], [xylem_cuda_path=$dir_cuda/bin],
        [xylem_cuda_path="${CUDA_HOME:+$CUDA_HOME/bin:}/usr/local/cuda/bin:$PATH"])
  AC_PATH_PROG([NVCC], [nvcc], [], [$xylem_cuda_path])
  AS_IF([test -z "$NVCC"], [XYLEM_WITH_MISSING([cuda], [nvcc not found])], [
    xylem_cuda_version=`"$NVCC" --version | $SED -n 's/.*release \(@<:@0-9@:>@*\.@<:@0-9@:>@*\).*/\1/p'`
    AS_VERSION_COMPARE([${xylem_cuda_version:-0}], [12.0], [xylem_cuda_old=yes], [xylem_cuda_old=no],
                       [xylem_cuda_old=no])
    AS_IF([test $xylem_cuda_old = yes],
      [XYLEM_WITH_MISSING([cuda], [$NVCC is ${xylem_cuda_version:-of unknown version}; 12.0 or newer is needed])],
      [XYLEM_CHECK_CUDA])])
  AS_IF([test "$xylem_cuda" = yes],
    [cuda_outcome="$xylem_cuda_version, $NVCC, cubins:$xylem_cubins, PTX:$xylem_ptx"],
    [cuda_outcome="$cuda_outcome: host memory only"])])
AS_IF([test "$xylem_cuda" = yes],
  [AC_DEFINE([XYLEM_HAVE_CUDA], [1], [Built with CUDA.])
   AC_DEFINE_UNQUOTED([XYLEM_CUDA_ARCHS], [`echo $xylem_cubins | $SED 's/ /, /g'`], [SMs that code is built for.])
   XYLEM_DISTCHECK_CUDA="--with-cuda=$xylem_cuda_root"],
  [CUDA_CPPFLAGS= CUDA_LIBS= XYLEM_DISTCHECK_CUDA="--without-cuda"])
AM_CONDITIONAL([HAVE_CUDA], [test "$xylem_cuda" = yes])
AC_SUBST([CUDA_CPPFLAGS])
AC_SUBST([CUDA_LIBS])
AC_SUBST([XYLEM_NVCCFLAGS])
AC_SUBST([XYLEM_GENCODE])
AC_SUBST([XYLEM_GENCODE_BFLOAT16])
AC_SUBST([XYLEM_GENCODE_FUSED])
AC_SUBST([XYLEM_GENCODE_FUSED_BFLOAT16])
AC_SUBST([XYLEM_GENCODE_FAMILY])
AC_SUBST([XYLEM_GENCODE_FAMILY_BFLOAT16])
AC_SUBST([XYLEM_DISTCHECK_CUDA])
])

# The rest of the search, once there is an nvcc that is new enough. Sets xylem_cuda.
AC_DEFUN([XYLEM_CHECK_CUDA], [
# A distribution's nvcc may be a link or a script; what it passes on to its compilers says where the toolkit is.
xylem_cuda_root=`"$NVCC" --dryrun conftest.cu 2>&1 | $SED -n 's/^#\\$ TOP=//p'`
AS_IF([test -d "$xylem_cuda_root"], [xylem_cuda_root=`cd "$xylem_cuda_root" && pwd -P`],
      [xylem_cuda_root=`AS_DIRNAME(["$NVCC"])`/..])
CUDA_CPPFLAGS=
AS_IF([test -f "$xylem_cuda_root/include/cuda_runtime.h"], [CUDA_CPPFLAGS="-isystem $xylem_cuda_root/include"])
AS_CASE([$xylem_cuda_root], [/usr], [CUDA_CPPFLAGS=])
CUDA_LIBS=
for xylem_folder in "$xylem_cuda_root"/lib64 "$xylem_cuda_root"/targets/*/lib "$xylem_cuda_root"/lib; do
  AS_IF([test -f "$xylem_folder/libcudart_static.a"], [CUDA_LIBS="-L$xylem_folder"; break])
done
CUDA_LIBS="$CUDA_LIBS -lcudart_static -ldl -lrt -lpthread"

XYLEM_CUDA_ARCHITECTURES

# nvcc wants a bare compiler name: no launcher, no options.
xylem_ccbin=
for xylem_word in $CXX; do
  AS_CASE([$xylem_word], [*ccache|*distcc|-*], [], [xylem_ccbin=$xylem_word; break])
done
# A kernel that calls a function of the host's would be built empty, with a warning.
XYLEM_NVCCFLAGS="-ccbin $xylem_ccbin -std=c++20 -O3 -fmad=false -diag-error 20011,20013,20014,20015"
AS_IF(["$NVCC" --help | grep -e -compress-mode >/dev/null 2>&1],
      [XYLEM_NVCCFLAGS="$XYLEM_NVCCFLAGS -compress-mode=size"])
AS_IF([test "$enable_debug" != no], [XYLEM_NVCCFLAGS="$XYLEM_NVCCFLAGS -g -lineinfo"])

AC_MSG_CHECKING([whether $NVCC works with $xylem_ccbin])
cat >conftest.cu <<'EOF'
@%:@include <concepts>
template <std::integral T> __global__ void add(T* x) { *x += 1; }
int main() { add<int><<<1, 1>>>(nullptr); return cudaGetLastError() == cudaSuccess ? 0 : 1; }
EOF
AS_IF(["$NVCC" -ccbin $xylem_ccbin -std=c++20 -c conftest.cu -o conftest_cuda.o >&AS_MESSAGE_LOG_FD 2>&1 &&
       $CXX -o conftest_cuda conftest_cuda.o $CUDA_LIBS >&AS_MESSAGE_LOG_FD 2>&1],
  [AC_MSG_RESULT([yes])
   xylem_cuda=yes],
  [AC_MSG_RESULT([no])
   XYLEM_WITH_MISSING([cuda], [$NVCC cannot build a program with $xylem_ccbin; config.log says why])])
rm -f conftest.cu conftest_cuda conftest_cuda.o
])

# XYLEM_GENCODE_OF(VARIABLE, STEPS, [FAMILY]): nvcc's options for all of xylem_cubins and xylem_ptx. Most of nvcc's
# time goes into what comes before ptxas and is the same for every SM between two STEPS, at which the source differs:
# there a step's PTX is assembled for all SMs up to the next. FAMILY: cubins from SM 100 on have the instructions
# that only the SM's family has; they run on all of the family, as those of 100f on 103. So has their PTX, where
# there is that of SM 90 for whatever is of no such family. The toolkits that these are asked of come with drivers
# that know such cubins.
AC_DEFUN([XYLEM_GENCODE_OF], [
$1=
for xylem_sm in $xylem_cubins; do
  xylem_from=$xylem_sm
  AS_CASE(["$xylem_ptx "], [*" $xylem_sm "*], [], [
    for xylem_step in $2; do
      AS_CASE([" $xylem_known"], [*" $xylem_step "*],
              [AS_IF([test $xylem_step -le $xylem_sm], [xylem_from=$xylem_step])])
    done])
  m4_ifval([$3], [AS_IF([test $xylem_sm -ge 100 && test "$xylem_families" = yes], [xylem_from=${xylem_sm}f])])
  AS_CASE([$xylem_from], [*f], [xylem_code=$xylem_from], [xylem_code=$xylem_sm])
  $1="$$1 -gencode arch=compute_$xylem_from,code=sm_$xylem_code"
done
for xylem_sm in $xylem_ptx; do
  xylem_from=$xylem_sm
  m4_ifval([$3], [AS_CASE([" $xylem_ptx "], [*" 90 "*],
                          [AS_IF([test $xylem_sm -ge 100 && test "$xylem_families" = yes], [xylem_from=${xylem_sm}f])])])
  $1="$$1 -gencode arch=compute_$xylem_from,code=compute_$xylem_from"
done
])

# Sets xylem_cubins, xylem_ptx and XYLEM_GENCODE*. SM 103 and 121 run the cubins of 100 and 120; PTX serves what
# is newer than any cubin.
AC_DEFUN([XYLEM_CUDA_ARCHITECTURES], [
xylem_known=`"$NVCC" --list-gpu-code | $SED -n 's/^sm_//p' | tr '\n' ' '`
xylem_cubins= xylem_ptx=
AS_CASE([$with_cuda_arch],
  [default|yes|no], [
    for xylem_sm in 75 80 86 89 90 100 120; do
      AS_CASE([" $xylem_known"], [*" $xylem_sm "*], [
        xylem_cubins="$xylem_cubins $xylem_sm"
        AS_CASE([$xylem_sm], [90|120], [xylem_ptx="$xylem_ptx $xylem_sm"])])
    done],
  [native], [
    for xylem_sm in `nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sort -nu`; do
      # The newest cubin of the same family that nvcc can make, as 100 for a GPU of 103.
      xylem_best=
      for xylem_candidate in $xylem_known; do
        AS_IF([test "${xylem_candidate%?}" = "${xylem_sm%?}" && test "$xylem_candidate" -le "$xylem_sm"],
              [AS_IF([test "$xylem_candidate" -gt "${xylem_best:-0}"], [xylem_best=$xylem_candidate])])
      done
      AS_IF([test -n "$xylem_best"], [
        AS_CASE(["$xylem_cubins "], [*" $xylem_best "*], [], [xylem_cubins="$xylem_cubins $xylem_best"])
        xylem_ptx=" $xylem_best"])
    done
    AS_IF([test -z "$xylem_cubins"], [xylem_cubins=" 90" xylem_ptx=" 90"])],
  [
    for xylem_sm in `echo "$with_cuda_arch" | tr ',;' '  '`; do
      AS_CASE([" $xylem_known"], [*" $xylem_sm "*], [xylem_cubins="$xylem_cubins $xylem_sm" xylem_ptx=" $xylem_sm"],
        [AC_MSG_ERROR([--with-cuda-arch: $NVCC does not know SM $xylem_sm; it knows $xylem_known])])
    done
    AS_IF([test -z "$xylem_cubins"], [AC_MSG_ERROR([--with-cuda-arch: the list is empty])])])
# The steps are the comparisons of __CUDA_ARCH__ in kernels/cuda_space_machine.cuh: programmatic launches and
# clusters, conversions to 16 bits, and to FP8. Conversions to NVFP4 are a family's.
AS_VERSION_COMPARE([${xylem_cuda_version:-0}], [13.0], [xylem_families=no], [xylem_families=yes],
                   [xylem_families=yes])
# Rounding a pair to binary16 takes one instruction more before SM 80, which is no reason for a step.
XYLEM_GENCODE_OF([XYLEM_GENCODE], [75 90])
XYLEM_GENCODE_OF([XYLEM_GENCODE_BFLOAT16], [75 80 90])
XYLEM_GENCODE_OF([XYLEM_GENCODE_FUSED], [75 89 90])
XYLEM_GENCODE_OF([XYLEM_GENCODE_FUSED_BFLOAT16], [75 80 89 90])
XYLEM_GENCODE_OF([XYLEM_GENCODE_FAMILY], [75 89 90], [family])
XYLEM_GENCODE_OF([XYLEM_GENCODE_FAMILY_BFLOAT16], [75 80 89 90], [family])
])
