// SPDX-License-Identifier: BSD-3-Clause
// From figures to believed capacities. A nominal figure is reduced to what payload gets; a measured one, or a
// person's, is taken as it is. Measurements of pairs are turned into capacities of edges, because a plan has many
// pairs at work at once: an edge over which no measured pair got more than X carries X, where that is less than the
// pairs' own GPUs can do.
#pragma once

#include "topo/fabric.hpp"

namespace xyl::topo {

// Fills write, read, copy_engine_gain and groups of a fabric that has its routes.
void fill_capacities(fabric& f);

}  // namespace xyl::topo
