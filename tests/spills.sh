#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# No kernel of this build spills registers or has a stack, on any SM that it was built for: what ptxas said while
# the library was compiled. In the folder of the build.
set -eu
exec "${srcdir:-.}/kernels/ptxas-table" kernels
