# SPDX-License-Identifier: BSD-3-Clause
#
# The packages other than CUDA. Each macro sets X_outcome, the line of the summary, and X_CPPFLAGS / X_LIBS.

# XYLEM_WITH(NAME, HELP): declares --with-NAME[=DIR]; sets want_NAME to auto, yes or no, and dir_NAME.
AC_DEFUN([XYLEM_WITH], [
AC_ARG_WITH([$1], [AS_HELP_STRING([--with-$1@<:@=DIR@:>@], [$2])], [], [with_$1=auto])
dir_$1=
AS_CASE([$with_$1], [auto|yes|no], [want_$1=$with_$1],
        [want_$1=yes dir_$1=$with_$1
         AS_IF([test -d "$dir_$1"], [], [AC_MSG_ERROR([--with-$1: there is no directory $dir_$1])])])
])

# XYLEM_WITH_MISSING(NAME, TEXT): an error if NAME was asked for, else its line of the summary.
AC_DEFUN([XYLEM_WITH_MISSING], [
AS_IF([test "$want_$1" = yes], [AC_MSG_ERROR([--with-$1: $2])])
$1_outcome="left out ($2)"
])

# XYLEM_WITH_PKG_PATH(DIR, COMMANDS, NAME...): runs COMMANDS with DIR's pkg-config files found first. A DIR that has
# none of NAME.pc hides the system's, so that it cannot be taken for what was asked for.
AC_DEFUN([XYLEM_WITH_PKG_PATH], [
xylem_saved_pkg_path=$PKG_CONFIG_PATH xylem_saved_pkg_config=$PKG_CONFIG
AS_IF([test -n "$1"], [
  xylem_found=no
  for xylem_folder in "$1"/lib/pkgconfig "$1"/lib64/pkgconfig "$1"/share/pkgconfig "$1"/lib/*/pkgconfig; do
    AS_IF([test -d "$xylem_folder"], [PKG_CONFIG_PATH="$xylem_folder${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"])
    for xylem_name in $3; do
      AS_IF([test -f "$xylem_folder/$xylem_name.pc"], [xylem_found=yes])
    done
  done
  export PKG_CONFIG_PATH
  AS_IF([test $xylem_found = no], [PKG_CONFIG=false])])
$2
PKG_CONFIG_PATH=$xylem_saved_pkg_path PKG_CONFIG=$xylem_saved_pkg_config
])

# XYLEM_PACKAGE_REQUIRED(NAME, PREFIX, PKG-CONFIG EXPRESSION, DEBIAN PACKAGE)
AC_DEFUN([XYLEM_PACKAGE_REQUIRED], [
XYLEM_WITH([$1], [where $1 is (required)])
AS_IF([test "$want_$1" = no], [AC_MSG_ERROR([--without-$1: Xylem cannot be built without $1])])
XYLEM_WITH_PKG_PATH([$dir_$1], [
  PKG_CHECK_MODULES([$2], [$3], [$2_VERSION=`$PKG_CONFIG --modversion $1`],
    [AC_MSG_ERROR([$3 is required and pkg-config does not find it (Debian, Ubuntu: apt-get install $4)])])],
  [$1])
])

AC_DEFUN([XYLEM_FIND_UCX], [
XYLEM_WITH([ucx], [UCX, for communication between machines])
AS_IF([test "$want_ucx" = no], [ucx_outcome="left out (--without-ucx)"], [
  XYLEM_WITH_PKG_PATH([$dir_ucx], [
    PKG_CHECK_MODULES([UCX], [ucx >= 1.12],
      [ucx_outcome="`$PKG_CONFIG --modversion ucx` found (used between nodes, not yet)"],
      [XYLEM_WITH_MISSING([ucx], [UCX 1.12 or newer not found])])],
    [ucx])])
])

# XYLEM_MPI_FLAGS_FROM(COMPILER): asks a wrapper compiler, Open MPI's or MPICH's, for its flags.
AC_DEFUN([XYLEM_MPI_FLAGS_FROM], [
AS_IF([MPI_CPPFLAGS=`"$1" --showme:compile 2>/dev/null` && MPI_LIBS=`"$1" --showme:link 2>/dev/null`], [],
  [MPI_CPPFLAGS= MPI_LIBS=
   # "gcc -I... -L... -lmpi": everything but the compiler, sorted by what it is for.
   for xylem_word in `"$1" -show 2>/dev/null | $SED 's/^@<:@^ @:>@* *//'`; do
     AS_CASE([$xylem_word], [-I*|-D*], [MPI_CPPFLAGS="$MPI_CPPFLAGS $xylem_word"],
                            [-L*|-l*|-Wl,*], [MPI_LIBS="$MPI_LIBS $xylem_word"])
   done])
])

# MPI's C interface, for tools, tests and examples. The library itself must never see these flags.
AC_DEFUN([XYLEM_FIND_MPI], [
XYLEM_WITH([mpi], [MPI, for the tools, tests and examples])
AC_ARG_VAR([MPICC], [MPI wrapper compiler that is asked for the flags])
AC_ARG_VAR([MPIRUN], [command that starts MPI programs])
AS_IF([test "$want_mpi" = no], [mpi_outcome="left out (--without-mpi)"], [
  xylem_mpi_path=$PATH
  AS_IF([test -n "$dir_mpi"], [xylem_mpi_path=$dir_mpi/bin])
  AC_PATH_PROGS([MPICC], [mpicc mpicxx], [], [$xylem_mpi_path])
  AC_PATH_PROGS([MPIRUN], [mpirun mpiexec], [], [$xylem_mpi_path])
  AS_IF([test -n "$MPICC"], [XYLEM_MPI_FLAGS_FROM([$MPICC])],
    [XYLEM_WITH_PKG_PATH([$dir_mpi], [
       for xylem_package in ompi-cxx ompi mpich; do
         AS_IF([$PKG_CONFIG --exists $xylem_package],
           [MPI_CPPFLAGS=`$PKG_CONFIG --cflags $xylem_package`
            MPI_LIBS=`$PKG_CONFIG --libs $xylem_package`
            break])
       done], [ompi-cxx ompi mpich])])
  # The C++ bindings that some mpi.h pull in are obsolete and warn.
  MPI_CPPFLAGS="$MPI_CPPFLAGS -DOMPI_SKIP_MPICXX=1 -DMPICH_SKIP_MPICXX=1"
  AC_MSG_CHECKING([whether MPI programs link])
  xylem_mpi=no
  xylem_saved_flags=$CPPFLAGS xylem_saved_libs=$LIBS
  CPPFLAGS="$CPPFLAGS $MPI_CPPFLAGS" LIBS="$MPI_LIBS $LIBS"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]], [[return MPI_Init(nullptr, nullptr);]])],
                 [xylem_mpi=yes], [xylem_mpi=no])
  CPPFLAGS=$xylem_saved_flags LIBS=$xylem_saved_libs
  AC_MSG_RESULT([$xylem_mpi])
  AS_IF([test "$xylem_mpi" = no],
          [XYLEM_WITH_MISSING([mpi], [no usable mpicc, ompi-cxx.pc, ompi.pc or mpich.pc])],
        [test -z "$MPIRUN"], [xylem_mpi=no
           XYLEM_WITH_MISSING([mpi], [neither mpirun nor mpiexec found])],
        [mpi_outcome="${MPICC:-found by pkg-config}, $MPIRUN"])])
AS_IF([test "$xylem_mpi" = yes], [], [MPI_CPPFLAGS= MPI_LIBS=])
AM_CONDITIONAL([HAVE_MPI], [test "$xylem_mpi" = yes])
AC_SUBST([MPI_CPPFLAGS])
AC_SUBST([MPI_LIBS])
])

AC_DEFUN([XYLEM_FIND_NCCL], [
XYLEM_WITH([nccl], [the header nccl.h (needs CUDA)])
NCCL_CPPFLAGS=
AS_IF([test "$want_nccl" = no], [nccl_outcome="left out (--without-nccl)"],
      [test "$xylem_cuda" != yes], [XYLEM_WITH_MISSING([nccl], [nccl.h needs CUDA, which is left out])],
      [test -n "$dir_nccl" && test ! -f "$dir_nccl/include/nccl.h"],
        [XYLEM_WITH_MISSING([nccl], [there is no $dir_nccl/include/nccl.h])], [
  AS_IF([test -n "$dir_nccl"], [NCCL_CPPFLAGS="-I$dir_nccl/include"])
  AC_MSG_CHECKING([for nccl.h])
  xylem_saved_flags=$CPPFLAGS
  CPPFLAGS="$NCCL_CPPFLAGS $CPPFLAGS $CUDA_CPPFLAGS"
  AC_LANG_CONFTEST([AC_LANG_SOURCE([[
#include <nccl.h>
xylem_nccl_version NCCL_MAJOR NCCL_MINOR NCCL_PATCH
]])])
  xylem_nccl=`$CXXCPP -P $CPPFLAGS conftest.cpp 2>&AS_MESSAGE_LOG_FD |
    $SED -n 's/^xylem_nccl_version \(@<:@0-9@:>@*\) \(@<:@0-9@:>@*\) \(@<:@0-9@:>@*\).*/\1.\2.\3/p'`
  rm -f conftest.cpp
  AC_MSG_RESULT([${xylem_nccl:-no}])
  AS_IF([test -n "$xylem_nccl"], [nccl_outcome=$xylem_nccl],
        [NCCL_CPPFLAGS=
         XYLEM_WITH_MISSING([nccl], [nccl.h not found])])
  CPPFLAGS=$xylem_saved_flags])
AC_SUBST([NCCL_CPPFLAGS])
])

# libpci tells whether ports of PCIe switches redirect peer-to-peer traffic. It is under the GPL.
AC_DEFUN([XYLEM_FIND_LIBPCI], [
XYLEM_WITH([libpci], [libpci, which reads the state of access control services (GPL)])
xylem_libpci=no
AS_IF([test "$want_libpci" = no], [libpci_outcome="left out (--without-libpci)"], [
  XYLEM_WITH_PKG_PATH([$dir_libpci], [
    PKG_CHECK_MODULES([LIBPCI], [libpci >= 3.5],
      [xylem_libpci=yes libpci_outcome=`$PKG_CONFIG --modversion libpci`],
      [XYLEM_WITH_MISSING([libpci], [libpci not found: libpci-dev])])],
    [libpci])])
AM_CONDITIONAL([HAVE_LIBPCI], [test "$xylem_libpci" = yes])
])

# XYLEM_HEADER_FOUND(HEADER, VARIABLE): looks only, because compiling these headers takes seconds.
AC_DEFUN([XYLEM_HEADER_FOUND], [
AC_MSG_CHECKING([for $1])
AC_PREPROC_IFELSE([AC_LANG_SOURCE([[
#if !__has_include(<$1>)
#error not there
#endif
]])], [$2=yes], [$2=no])
AC_MSG_RESULT([$$2])
])

# nlohmann-json: topology exports and overrides. The library contains what it needs of it.
AC_DEFUN([XYLEM_FIND_JSON], [
XYLEM_HEADER_FOUND([nlohmann/json.hpp], [xylem_json])
AS_IF([test "$xylem_json" = no],
  [AC_MSG_ERROR([nlohmann/json.hpp is required and not found (Debian, Ubuntu: apt-get install nlohmann-json3-dev)])])
])

# xylem-topo needs CLI11, xylem-perf MPI as well.
AC_DEFUN([XYLEM_FIND_TOOL_HEADERS], [
XYLEM_HEADER_FOUND([CLI/CLI.hpp], [xylem_cli11])
xylem_tools=no
AS_IF([test "$xylem_cli11" = no], [tools_outcome="left out (CLI11 not found: libcli11-dev)"],
      [test "$xylem_mpi" != yes], [tools_outcome="xylem-topo (no MPI: no xylem-perf)"],
      [xylem_tools=yes tools_outcome="xylem-perf, xylem-topo"])
AM_CONDITIONAL([HAVE_TOOLS], [test "$xylem_tools" = yes])
AM_CONDITIONAL([HAVE_TOPO_TOOL], [test "$xylem_cli11" = yes])
])

AC_DEFUN([XYLEM_FIND_GTEST], [
PKG_CHECK_MODULES([GTEST], [gtest_main >= 1.10],
  [xylem_gtest=yes tests_outcome="yes, GoogleTest `$PKG_CONFIG --modversion gtest_main`"],
  [xylem_gtest=no tests_outcome="left out (GoogleTest not found: libgtest-dev)"])
AM_CONDITIONAL([HAVE_GTEST], [test "$xylem_gtest" = yes])
])
