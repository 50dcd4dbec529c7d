// SPDX-License-Identifier: BSD-3-Clause
//
// How a fused call is cut into launches and spread over blocks of a device. Depends only on what is equal on all
// ranks, so that blocks of the same index meet. The constants of the policy stand here together: they are what
// tuning changes.
#pragma once

#include <algorithm>

#include "proto/fused_work.hpp"
#include "proto/layout.hpp"

namespace xyl {

// What all ranks' devices can do together.
struct fused_limits {
  unsigned blocks[device_fused_forms] = {};  // by form: co-resident on every rank
  unsigned clustered[device_fused_forms] =
      {};  // the same of blocks in clusters of eight; 0: a device has no clusters

  bool has_clusters() const {
    return std::all_of(clustered, clustered + device_fused_forms, [](unsigned n) { return n != 0; });
  }
};

struct fused_shape {
  fused_form form = fused_form::two_shot;
  unsigned blocks = 0;  // of a launch; 0: this form cannot do it
  unsigned lanes = 0;
  std::uint64_t rows = 0;  // the most of a launch: see fused_work::rows
};

// Completes work.split and what follows from it for `form`.
fused_shape shape_fused(fused_form form, unsigned element_bytes, int ranks, const fused_limits& limits,
                        const layout& map, fused_work& work);

// The same for the first of the forms, from `wish` on, that can do it; after one that pulls, its like that does
// not.
fused_shape shape_fused_or_next(fused_form wish, unsigned element_bytes, int ranks, const fused_limits& limits,
                                const layout& map, fused_work& work);

}  // namespace xyl
