#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# No fact about a GPU has an upper bound: a comparison of __CUDA_ARCH__ asks for at least something. And only the
# CUDA spaces ask at all.
set -eu
cd "${srcdir:-.}"
files=$(find src kernels include -name '*.hpp' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' -o -name '*.h')
# shellcheck disable=SC2086
found=$(grep -nE '__CUDA_ARCH__[[:space:]]*(<|==|!=)|[0-9][[:space:]]*(>|>=)[[:space:]]*__CUDA_ARCH__' $files || :)
if [ -n "$found" ]; then
  echo "compared with an upper bound:"
  echo "$found"
  exit 1
fi
# The scan must be able to see something.
# shellcheck disable=SC2086
grep -qE '__CUDA_ARCH__ >= [0-9]+' $files || { echo "no comparison at all was found in $(pwd)"; exit 1; }
