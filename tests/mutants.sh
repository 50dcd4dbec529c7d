#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The ordering mutants, from the build folder.
exec sh "$(dirname "$0")/proto/mutants/catch_mutants.sh" tests/ordering_mutants
