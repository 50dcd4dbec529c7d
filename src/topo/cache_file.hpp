// SPDX-License-Identifier: BSD-3-Clause
// Files of a cache: small, the user's own, replaced as a whole and atomically, so that a reader sees an old one or
// a new one. Whoever can write such a file decides how fast a program's collectives are, and which links it
// believes in; so only the user's own file, or the administrator's, is believed, and only one that nobody else may
// write.
#pragma once

#include <string>

#include "base/result.hpp"

namespace xyl::topo {

// Errors (xylSystemError): it is not there, cannot be read, or is not to be believed. The text goes behind a name.
[[nodiscard]] result read_own_file(const std::string& path, std::string& out);
// Whether there is something of that name, as far as can be told.
[[nodiscard]] bool exists(const std::string& path);

// The folder must exist. Errors (xylSystemError): it cannot be written to; an older file is then still whole.
[[nodiscard]] result replace_file(const std::string& path, const std::string& text);
// The folder and those above it, for the user alone.
[[nodiscard]] result make_folder(const std::string& path);

}  // namespace xyl::topo
