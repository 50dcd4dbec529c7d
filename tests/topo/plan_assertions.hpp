// SPDX-License-Identifier: BSD-3-Clause
// What must hold of plans on every machine, whether it came from a file or was built by hand. Each function adds
// failures of the running test.
#pragma once

#include <string>

#include "topo/graph.hpp"
#include "topo/planner.hpp"

namespace xyl::topo::test {

// A plan of one rank per GPU; a failure of the planner fails the test.
plan plan_of(const graph& g, const plan_request& request);
plan plan_of(const graph& g);

// All of the below.
void expect_sound(const graph& g, const std::string& name);

// Every rank once in each ring, in one island of each level, in each tree with one root.
void expect_complete(const graph& g);
// Permuting ranks, and vertices, edges and pairs, changes nothing but numbers.
void expect_invariant(const graph& g);
// A ring loads each separating edge at most once each way, and its rate is within 1% of the cut bound; not with a
// capacity group, where the bound is not the edges' alone.
void expect_optimal_on_bridges(const graph& g);
// What an allreduce puts on each separating edge is what its algorithm's formula says; of trees there is none.
void expect_loads_of_formulas(const graph& g);
// With a collapse flagged, no ring, tree or hierarchical phase writes from one switch to two root complexes.
void expect_one_target(const graph& g);
// Predicted time rises with size, and falls nowhere when a link slows.
void expect_monotonic(const graph& g);
// A veto of one pair, and of all, gives a host-staged plan, which does not depend on numbers either.
void expect_staged_after_veto(const graph& g);

// Everything in a plan in terms of hardware, so that plans of renumbered machines compare equal.
std::string in_terms_of_hardware(const plan& p);

}  // namespace xyl::topo::test
