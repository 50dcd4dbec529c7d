// SPDX-License-Identifier: BSD-3-Clause
// What a probe found, kept for later starts on the same machine: one file per key (tuning_cache.hpp). It has the
// links of as many GPUs as were ever probed together, so that a communicator of some of them need not probe again.
// Only a report without a veto or a problem is worth keeping.
#pragma once

#include <string>

#include "topo/probe_report.hpp"
#include "topo/tuning_cache.hpp"

namespace xyl::topo {

// False: nothing was read, out is untouched, note says why ("" if there simply is no file).
[[nodiscard]] bool load_probe(const std::string& path, const tuning_key& key, probe_report& out, std::string& note);
// Makes the folder if need be; what is there of the same GPUs and more stays. Errors (xylSystemError): it cannot be
// written to.
[[nodiscard]] result store_probe(const std::string& folder, const tuning_key& key, const probe_report& what);

}  // namespace xyl::topo
