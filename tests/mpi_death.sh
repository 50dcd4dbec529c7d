#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A rank that is killed while an MPI program's ranks initialise: the others, which MPI leaves waiting, come back with
# its name. Needs an mpirun that does not kill all ranks with the first (Open MPI 4's --enable-recovery).
set -eu
if ! timeout 60 "$MPIRUN" --enable-recovery -np 1 true >/dev/null 2>&1; then
  echo "skipped: this mpirun cannot go on without a rank"
  exit 77
fi
for exchange in 2 3 6; do
  # Its own status is that of the killed rank.
  said=$(timeout 60 "$MPIRUN" --enable-recovery -np 3 tests/mpi_death_program $exchange 2>&1 || true)
  for rank in 0 1; do
    case $said in
      *"rank $rank: good"*) ;;
      *) echo "exchange $exchange, rank $rank: $said"; exit 1 ;;
    esac
  done
done
