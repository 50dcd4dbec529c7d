#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# No fact about a GPU has an upper bound: what is said of __CUDA_ARCH__ is that it is at least something, and that in
# one file alone. So every line that names the macro, or its like, has to have one of two forms there, and nowhere
# else is there any but in comments: whatever else could be written (< and ==, the other way round, a negation,
# arithmetic, a macro for the macro) is refused without being known here.
set -eu
cd "${srcdir:-.}"
one_file=kernels/cuda_space_machine.cuh
number='[0-9]+'
variant='\(defined\(__CUDA_ARCH_SPECIFIC__\) \|\| defined\(__CUDA_ARCH_FAMILY_SPECIFIC__\)\)'
allowed="^$one_file:$number:#if __CUDA_ARCH__ >= $number( && $variant)?\$"
comment="^[^:]*:$number:[[:space:]]*(//|\*|/\*)"

# FILE:NUMBER:LINE of what may not be written, from lines of that form that name the macro.
refused() { grep -vE -e "$allowed" -e "$comment" || :; }

found=$(find src kernels include tests examples -type f \
  \( -name '*.hpp' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' -o -name '*.h' -o -name '*.c' -o -name '*.inc' \) \
  -exec grep -nE '__CUDA_ARCH' /dev/null {} + || :)
bad=$(printf '%s\n' "$found" | grep . | refused)
if [ -n "$bad" ]; then
  echo "of __CUDA_ARCH__ only 'at least' may be asked, in $one_file alone:"
  echo "$bad"
  exit 1
fi
# The scan must be able to see something,
printf '%s\n' "$found" | grep -qE "$allowed" || { echo "no comparison at all was found in $(pwd)"; exit 1; }
# and must refuse what is wrong.
while read -r line; do
  [ -n "$(printf '%s:1:%s\n' "$one_file" "$line" | refused)" ] || { echo "not refused: $line"; exit 1; }
done <<'LINES'
#if __CUDA_ARCH__ < 1200
#if __CUDA_ARCH__ <= 900
#if __CUDA_ARCH__ == 900
#if __CUDA_ARCH__ != 1200
#if 1200 > __CUDA_ARCH__
#if (__CUDA_ARCH__) < 1200
#if !(__CUDA_ARCH__ >= 1200)
#if __CUDA_ARCH__ / 100 == 9
#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
#elif __CUDA_ARCH__<1200
#define ARCH __CUDA_ARCH__
constexpr int arch = __CUDA_ARCH__;
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
LINES
[ -n "$(printf 'src/exec/x.cu:1:#if __CUDA_ARCH__ >= 900\n' | refused)" ] || { echo "another file was not refused"; exit 1; }
