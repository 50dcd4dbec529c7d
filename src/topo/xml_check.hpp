// SPDX-License-Identifier: BSD-3-Clause
// What every topology XML passes before a parser that trusts its input sees it: well-formed, within limits, and of
// a format that is known. For hwloc, whose own parser gives no line numbers and believes what the file claims, the
// claims are checked too (known types, unique ids, matrix sizes, bit masks), and what hwloc gets is not the file
// but this check's own rendering of it, so that the two cannot disagree about what is in it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "topo/xml.hpp"

namespace xyl::topo {

enum class xml_format : std::uint8_t { hwloc2, hwloc3, nccl };

// rendering: filled for hwloc files only. Errors name the line.
[[nodiscard]] result check_xml(std::string_view text, const xml_limits& limits, xml_format& format,
                               std::string& rendering);

}  // namespace xyl::topo
