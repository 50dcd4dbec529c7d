#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# xylem-perf under mpirun on host memory: every type and operation with checked results, the files it writes, side by
# side with MPI, and what it says when it is called wrongly.
set -eu
run() {
  ranks=$1
  shift
  timeout 120 "$MPIRUN" -np "$ranks" ./xylem-perf allreduce --memory host "$@"
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

run 3 -d all -o all -b 1 -e 5000 -f 17 -n 2 -w 1 -r 1 --json "$folder/all.json" --csv "$folder/all.csv" >"$folder/all.txt"
grep -q '^# Out of bounds values : 0 OK' "$folder/all.txt"
# 8 integer types with 8 operations, 6 others with 5; a header line and three sizes.
lines=$(wc -l <"$folder/all.csv")
[ "$lines" -ge 283 ] || { echo "all.csv has $lines lines"; exit 1; }
grep -q '"f8e5m2"' "$folder/all.json"

run 2 -b 8 -e 64K -f 64 -n 20 --compare >"$folder/compare.txt"
grep -q 'ratio' "$folder/compare.txt"

if run 1 -b 4K -e 1K >"$folder/wrong.txt" 2>&1; then
  echo "-b 4K -e 1K was accepted"
  exit 1
fi
if XYLEM_TIMEOUT=soon run 2 -e 64 >"$folder/wrong.txt" 2>&1; then
  echo "XYLEM_TIMEOUT=soon was accepted"
  exit 1
fi
grep -q 'XYLEM_TIMEOUT' "$folder/wrong.txt"
