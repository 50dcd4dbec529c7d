#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Fuzzes the import of topology files with libFuzzer and AddressSanitizer for FUZZ_SECONDS (10). Skipped where
# FUZZ_CXX (clang++) has no libFuzzer. What it finds is left in the build folder as crash-*; put it, made small
# (-minimize_crash=1), into tests/fuzz/corpus with its repair.
set -eu
root=${srcdir:-.}
cxx=${FUZZ_CXX:-clang++}
mkdir -p fuzz/found
cd fuzz
case $root in /*) ;; *) root=../$root ;; esac

if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
  "$cxx" -x c++ -std=c++20 -fsanitize=fuzzer,address -o probe - 2>/dev/null || ! ./probe -runs=1 2>/dev/null; then
  echo "skipped: $cxx has no libFuzzer"
  exit 77
fi

# One compiler call for each source that is older than its object or than a header.
objects=
for name in tests/fuzz/import_fuzz src/topo/assembly src/topo/export src/topo/graph src/topo/hwloc_reader \
  src/topo/import src/topo/json_read src/topo/nccl_reader src/topo/nvlink_rate src/topo/paths src/topo/pci_link src/topo/xml \
  src/topo/xml_check src/base/result; do
  source=$root/$name.cc
  object=$(basename "$source" .cc).o
  objects="$objects $object"
  if [ ! -f "$object" ] ||
    [ -n "$(find "$source" "$root/src/topo" "$root/src/base" -newer "$object" \( -name '*.hpp' -o -path "$source" \))" ]; then
    # shellcheck disable=SC2046  # words
    "$cxx" -std=c++20 -O1 -g -fsanitize=fuzzer-no-link,address -I"$root/include" -I"$root/src" \
      $(pkg-config --cflags hwloc expat) -c "$source" -o "$object"
  fi
done
# shellcheck disable=SC2046,SC2086  # lists of words
"$cxx" -fsanitize=fuzzer,address $objects $(pkg-config --libs hwloc expat) -ldl -o import-fuzz

# What it finds is a failure; libFuzzer's own exit status for that is the one that says "skipped" here.
# hwloc forgets objects of files that it refuses halfway; these leaks are not ours.
ASAN_OPTIONS=detect_leaks=0 ./import-fuzz -max_total_time="${FUZZ_SECONDS:-10}" -timeout=5 -rss_limit_mb=512 -error_exitcode=1 -seed="${FUZZ_SEED:-1}" \
  -max_len=32768 -dict="$root/tests/fuzz/topology.dict" -print_final_stats=1 -verbosity=0 found "$root/tests/fuzz/corpus"
