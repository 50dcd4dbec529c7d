#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# catch_mutants.sh [PROGRAM]: PROGRAM is ordering_mutants built with ThreadSanitizer. Every planted fault must be reported
# within a few seeds in every protocol that it can be planted in, and the control (no fault) in none. One line per mutant.
# Exit: 0 all as it must be, 1 not, 77 this machine cannot run ThreadSanitizer.
program=${1:-./tests/ordering_mutants}
seeds='1 2 3 4 5 6'
report=66
failures=0
TSAN_OPTIONS="exitcode=$report halt_on_error=1"
export TSAN_OPTIONS

# Newer kernels place memory where older versions of ThreadSanitizer do not expect it.
fixed=''
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed="setarch $(uname -m) -R"; fi

pairs=$($fixed "$program" list 2>&1) || {
  case $pairs in
    *'unexpected memory mapping'*) echo "SKIP: ThreadSanitizer does not start on this kernel"; exit 77 ;;
  esac
  echo "$pairs"
  exit 1
}

set -- $pairs
while [ $# -ge 2 ]; do
  fault=$1 protocol=$2
  shift 2
  verdict='not caught'
  for seed in $seeds; do
    $fixed "$program" "$fault" "$protocol" "$seed" >/dev/null 2>&1
    code=$?
    case $code in
      0) ;;
      "$report") verdict="caught with seed $seed"; break ;;
      *) verdict="ended with code $code at seed $seed"; break ;;
    esac
  done
  expected='caught with seed *'
  [ "$fault" = none ] && expected='not caught'
  case $verdict in
    $expected) mark=ok ;;
    *) mark=FAIL; failures=$((failures + 1)) ;;
  esac
  printf '%-4s %-20s %-9s %s\n' "$mark" "$fault" "$protocol" "$verdict"
done
[ "$failures" -eq 0 ]
