#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# xylem-perf under mpirun on host memory: every type and operation with checked results, every collective with every
# root, several ranks in one process, the files it writes, side by side with MPI, what it says when it is called
# wrongly, and that a wrong element of any collective is found (tests/perf_faulty is the tool with a fault in each).
set -eu
perf() {
  ranks=$1
  shift
  timeout 120 "$MPIRUN" -np "$ranks" ./xylem-perf "$@" --memory host
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
  echo "$1"
  exit 1
}
# Prints the last run's output where it went wrong.
good() {
  perf "$@" >"$folder/out.txt" 2>&1 || fail "$* failed: $(cat "$folder/out.txt")"
}
# One process, whose threads are the ranks.
faulty() {
  timeout 120 tests/perf_faulty "$@" --memory host >"$folder/out.txt" 2>&1
}
brief="-n 2 -w 1 --repetitions 1"
collectives="allreduce reduce broadcast reducescatter allgather alltoall gather scatter sendrecv barrier"

# shellcheck disable=SC2086  # words
good 3 allreduce -d all -o all -b 1 -e 5000 -f 17 $brief --json "$folder/all.json" --csv "$folder/all.csv"
grep -q '^# Out of bounds values : 0 OK' "$folder/out.txt"
# 8 integer types with 8 operations, 6 others with 5; a header line and three sizes.
lines=$(wc -l <"$folder/all.csv")
[ "$lines" -ge 283 ] || fail "all.csv has $lines lines"
grep -q '"f8e5m2"' "$folder/all.json"

# Sizes that do not divide by three, every root.
for collective in $collectives; do
  # shellcheck disable=SC2086
  good 3 "$collective" -b 4 -e 20K -f 71 -r all $brief
  grep -q '^# Out of bounds values : 0 OK' "$folder/out.txt" || fail "$collective: $(cat "$folder/out.txt")"
  # shellcheck disable=SC2086
  if faulty "$collective" -t 2 -b 4K -e 4K $brief; then
    fail "nobody saw the fault in $collective: $(cat "$folder/out.txt")"
  fi
  grep -q "WRONG RESULT: $collective" "$folder/out.txt" || fail "$collective: $(cat "$folder/out.txt")"
  grep -q '^# Out of bounds values : .* FAILED' "$folder/out.txt" || fail "$collective: $(cat "$folder/out.txt")"
done
# shellcheck disable=SC2086
good 2 allgather -t 2 -b 1K -e 16K -f 16 $brief
grep -q '4 ranks' "$folder/out.txt"
# shellcheck disable=SC2086
good 1 alltoall -t 2 -g 2 -b 1K -e 16K -f 16 $brief
grep -q '4 ranks' "$folder/out.txt"

# More ranks than a communicator can have are refused before a thread for each is started.
if timeout 60 ./xylem-perf barrier -t 256 -g 256 >"$folder/out.txt" 2>&1; then
  fail "65536 ranks were taken"
fi
grep -q '^xylem-perf: 65536 ranks .*, but a communicator has at most 256$' "$folder/out.txt" ||
  fail "65536 ranks: $(cat "$folder/out.txt")"

# Registered buffers, of processes and of several ranks in one.
for collective in allreduce reducescatter allgather alltoall; do
  # shellcheck disable=SC2086
  good 2 "$collective" -R 1 -t 1 -g 2 -b 4K -e 1M -f 16 $brief
  grep -q 'registered buffers' "$folder/out.txt" || fail "$collective: $(cat "$folder/out.txt")"
  grep -q '^# Out of bounds values : 0 OK' "$folder/out.txt" || fail "$collective: $(cat "$folder/out.txt")"
done

good 2 allreduce -b 8 -e 64K -f 64 -n 20 --compare
grep -q 'ratio' "$folder/out.txt"
# shellcheck disable=SC2086
good 2 gather -r 1 -b 8 -e 1K -f 128 --compare --rewrite $brief
grep -q 'written anew' "$folder/out.txt" || fail "--rewrite: $(cat "$folder/out.txt")"
[ "$(grep -c '^ .*N/A' "$folder/out.txt")" = 0 ] || fail "MPI was not measured: $(cat "$folder/out.txt")"

# Both forms of a decode step, and every pattern of a fused call.
# shellcheck disable=SC2086
good 2 decode --layers 2 --hidden 256 --tokens 1,5 $brief --csv "$folder/decode.csv"
[ "$(wc -l <"$folder/decode.csv")" = 5 ] || fail "decode: $(cat "$folder/out.txt")"
grep -q '^# Out of bounds values : 0 OK' "$folder/out.txt" || fail "decode: $(cat "$folder/out.txt")"
# shellcheck disable=SC2086
good 3 fused --hidden 256 --tokens 1,5 $brief --csv "$folder/fused.csv"
[ "$(wc -l <"$folder/fused.csv")" = 15 ] || fail "fused: $(cat "$folder/out.txt")"
for what in "fused --pattern fp8-token" "decode --layers 1 --fused"; do
  # shellcheck disable=SC2086
  if faulty $what -t 2 --hidden 256 $brief; then
    fail "nobody saw the fault in $what: $(cat "$folder/out.txt")"
  fi
  grep -q 'WRONG RESULT: ' "$folder/out.txt" || fail "$what: $(cat "$folder/out.txt")"
done

timeout 120 "$MPIRUN" -np 2 ./xylem-perf --describe >"$folder/out.txt" 2>&1 || fail "--describe: $(cat "$folder/out.txt")"
grep -q '"rings"' "$folder/out.txt" || fail "--describe: $(cat "$folder/out.txt")"
# Results that nobody can read are not a success. mpirun would read them itself.
# shellcheck disable=SC2086
if [ -c /dev/full ] && timeout 120 ./xylem-perf allreduce -e 64 $brief --memory host >/dev/full 2>"$folder/out.txt"; then
  fail "a full standard output was a success"
fi

if perf 1 allreduce -b 4K -e 1K >"$folder/out.txt" 2>&1; then
  fail "-b 4K -e 1K was accepted"
fi
if perf 2 broadcast -r 2 >"$folder/out.txt" 2>&1; then
  fail "root 2 of 2 ranks was accepted"
fi
grep -q 'the 2 ranks are 0 to 1' "$folder/out.txt"
if XYLEM_TIMEOUT=soon perf 2 allreduce -e 64 >"$folder/out.txt" 2>&1; then
  fail "XYLEM_TIMEOUT=soon was accepted"
fi
grep -q 'XYLEM_TIMEOUT' "$folder/out.txt"
