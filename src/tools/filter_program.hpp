// SPDX-License-Identifier: BSD-3-Clause
// Another program as a function from text to text: gnuplot, dot. Found in PATH, run without a shell.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace xyl {

// arguments[0] is the program. Errors (xylSystemError): it is not there, or ends with anything but 0; out is then
// untouched. What it writes to standard error goes to ours. SIGPIPE may be as it is: a program that stops reading
// ends the writing.
result filter_through(const std::vector<std::string>& arguments, std::string_view input, std::string& out);

}  // namespace xyl
