// SPDX-License-Identifier: BSD-3-Clause
//
// What the generations of GPUs have, as one list of types; the launch code asks it by the number of the device's
// SM. A chip that is newer than the list inherits the nearest older entry: what is listed is what a later
// generation keeps, and what pays off is measured, not assumed. Inside kernels the compiler's own macro says which
// instructions exist; there, as here, no fact has an upper bound.
#pragma once

namespace xyl {

struct arch_facts {
  int sm;                        // from this one on
  unsigned vector_bytes;         // the widest load and store of a lane
  bool has_programmatic_launch;  // griddepcontrol
  bool has_clusters;             // and distributed shared memory
  bool has_fp8_conversion;       // cvt to e4m3x2
  bool has_fp4_conversion;       // cvt to e2m1x2, in images for the a and f variants of the SM
  unsigned shared_kilobytes;     // of a multiprocessor
  unsigned lanes;                // resident on a multiprocessor
};

template <int Sm, unsigned VectorBytes, bool ProgrammaticLaunch, bool Clusters, bool Fp8, bool Fp4, unsigned Shared,
          unsigned Lanes>
struct arch {
  static constexpr arch_facts facts{Sm, VectorBytes, ProgrammaticLaunch, Clusters, Fp8, Fp4, Shared, Lanes};
};

template <class... Entries>
struct arch_list {
  // The nearest entry that is not newer. Older than all: the oldest (for which there is no image to launch).
  static constexpr arch_facts of(int sm) {
    constexpr arch_facts all[] = {Entries::facts...};
    arch_facts found = all[0];
    for (const arch_facts& one : all)
      if (one.sm <= sm && one.sm >= found.sm) found = one;
    return found;
  }
};

using known_archs = arch_list<arch<75, 16, false, false, false, false, 64, 1024>,   //
                              arch<80, 16, false, false, false, false, 164, 2048>,  //
                              arch<86, 16, false, false, false, false, 100, 1536>,  //
                              arch<89, 16, false, false, true, false, 100, 1536>,   //
                              arch<90, 16, true, true, true, false, 228, 2048>,     //
                              arch<100, 32, true, true, true, true, 228, 2048>,     //
                              arch<120, 32, true, true, true, true, 100, 1536>>;

static_assert(known_archs::of(87).sm == 86 && known_archs::of(121).sm == 120 && known_archs::of(200).has_clusters);
static_assert(!known_archs::of(89).has_clusters && known_archs::of(89).has_fp8_conversion);

// The SMs that this library has code for, in words: "75, 80 and 90".
const char* built_in_archs();

}  // namespace xyl
