#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The example without MPI prints the sum on each of three ranks.
set -eu
out=$(timeout 60 examples/unique_id 3)
echo "$out"
[ "$(echo "$out" | grep -c 'of 3: 3 6 9$')" = 3 ]
