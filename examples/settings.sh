# SPDX-License-Identifier: BSD-3-Clause
#
# Environment for starting MPI programs anywhere: more ranks than cores, and as root. Read with `.` by the scripts;
# what the user has set stays.
: "${OMPI_MCA_rmaps_base_oversubscribe=1}"
: "${PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe}"
export OMPI_MCA_rmaps_base_oversubscribe PRTE_MCA_rmaps_default_mapping_policy
if [ "$(id -u)" = 0 ]; then
  : "${OMPI_ALLOW_RUN_AS_ROOT=1}" "${OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1}"
  export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
fi
