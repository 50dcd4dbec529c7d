#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Fuzzes with libFuzzer and AddressSanitizer, each of FUZZ_TARGETS for FUZZ_SECONDS (10): import (topology files; the
# default) and plan (machines, overrides and plan files all the way to a plan and its printing). Skipped where
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

imported="assembly export graph hwloc_reader import json_read nccl_reader nvlink_rate paths pci_link xml xml_check"
planned="acs_none advice capacity cost describe fabric hierarchical islands loads machine_tree nvml nvml_links \
  override plan plan_file planner rings schedule staging tree_schedule trees"
# One compiler call for each source that is older than its object or than a header.
compile() {
  source=$root/$1.cc
  object=$(basename "$1").o
  objects="$objects $object"
  if [ ! -f "$object" ] ||
    [ -n "$(find "$source" "$root/src/topo" "$root/src/base" -newer "$object" \( -name '*.hpp' -o -path "$source" \))" ]; then
    # shellcheck disable=SC2046  # words
    "$cxx" -std=c++20 -O1 -g -fsanitize=fuzzer-no-link,address -I"$root/include" -I"$root/src" \
      $(pkg-config --cflags hwloc expat) -c "$source" -o "$object"
  fi
}

for target in ${FUZZ_TARGETS:-import}; do
  objects=
  compile "tests/fuzz/${target}_fuzz"
  for name in $imported; do compile "src/topo/$name"; done
  compile src/base/result
  if [ "$target" = plan ]; then
    for name in $planned; do compile "src/topo/$name"; done
    compile src/base/parse
    compile src/tools/topo_text
  fi
  # shellcheck disable=SC2046,SC2086  # lists of words
  "$cxx" -fsanitize=fuzzer,address $objects $(pkg-config --libs hwloc expat) -ldl -o "$target-fuzz"

  # What it finds is a failure; libFuzzer's own exit status for that is the one that says "skipped" here.
  # hwloc forgets objects of files that it refuses halfway; these leaks are not ours.
  ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=64 "./$target-fuzz" -max_total_time="${FUZZ_SECONDS:-10}" -timeout=5 -rss_limit_mb=512 \
    -error_exitcode=1 -seed="${FUZZ_SEED:-1}" -max_len=32768 -dict="$root/tests/fuzz/topology.dict" \
    -print_final_stats=1 -verbosity=0 found "$root/tests/fuzz/corpus"
done
