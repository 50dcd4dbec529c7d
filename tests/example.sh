#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The example prints the sum on each of three ranks.
set -eu
out=$(timeout 60 "$MPIRUN" -np 3 examples/allreduce)
echo "$out"
[ "$(echo "$out" | grep -c 'of 3: 3 6 9$')" = 3 ]
