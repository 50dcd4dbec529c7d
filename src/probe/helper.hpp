// SPDX-License-Identifier: BSD-3-Clause
//
// The life of a helper: it is told who it is, lends memory, opens that of the others, does one step after the other
// as its rank says, and ends when the socket does. It decides nothing.
#pragma once

#include <functional>
#include <memory>

#include "base/result.hpp"
#include "probe/link.hpp"

namespace xyl::probe {

using link_maker = std::function<result(const topo::probe_setup& about, std::unique_ptr<link>& out)>;

// Success: the rank closed the socket. Errors: what came is not a rank's.
result run_helper(int socket, const link_maker& make);

// Host or device, as the setup says.
result make_link(const topo::probe_setup& about, std::unique_ptr<link>& out);

// Everything but the kind of links; the process's exit code.
int helper_main(int argc, char** argv, const link_maker& make);

}  // namespace xyl::probe
