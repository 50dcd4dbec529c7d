// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/packet.cuh"

template xyl::packet_families xyl::packet_kernels<xyl::float8>();
template xyl::packet_families xyl::packet_kernels<xyl::packed>();
