#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# libxylem.so exports exactly the functions that xylem.h and what it includes declare, all of symbol node XYLEM_1.0,
# bears its SONAME, and needs neither MPI nor a CUDA driver nor a CUDA runtime.
set -eu
library=.libs/libxylem.so
headers="$srcdir/include/xylem/xylem.h $srcdir/include/xylem/xylem_fused.h $srcdir/include/xylem/xylem_memory.h"

symbols=$("$NM" -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort)
foreign=$(printf '%s\n' "$symbols" | grep -v '^xyl[A-Z][A-Za-z]*@@XYLEM_1\.0$' || true)
if [ -n "$foreign" ]; then
  echo "exported, but not xyl*@@XYLEM_1.0: $foreign"
  exit 1
fi

dynamic=$("$READELF" -d "$library")
case $dynamic in
  *'SONAME'*'[libxylem.so.0]'*) ;;
  *) echo "the SONAME is not libxylem.so.0: $dynamic"; exit 1 ;;
esac
if printf '%s\n' "$dynamic" | grep NEEDED | grep -E 'libmpi|libcuda|libnvidia-ml|libnccl'; then
  echo "the library must not need the libraries above"
  exit 1
fi

if [ -z "$symbols" ]; then
  echo "skipped: the library has no entry points"
  exit 77
fi
declared=$(sed -n 's/^[a-zA-Z].*[ *]\(xyl[A-Z][A-Za-z]*\)(.*/\1/p' $headers | sort)
exported=$(printf '%s\n' "$symbols" | sed 's/@@.*//')
if [ "$declared" != "$exported" ]; then
  echo "xylem.h declares: $declared"
  echo "the library exports: $exported"
  exit 1
fi
