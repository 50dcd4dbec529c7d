// SPDX-License-Identifier: BSD-3-Clause
// The callbacks are called by C: they keep the first error, stop the parser, and let no exception out. Time is
// looked at in each; between two of them is at most one token, which the limit on bytes bounds.
#include "topo/xml.hpp"

#include <expat.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"

namespace xyl::topo {
namespace {

struct reading {
  XML_Parser parser;
  const xml_limits& limits;
  xml_handler& handler;
  std::int64_t deadline_ns = 0;
  unsigned depth = 0;
  std::size_t elements = 0;
  std::vector<xml_attribute> attributes;
  result problem;

  unsigned long line() const { return XML_GetCurrentLineNumber(parser); }

  void stop(result r) {
    if (r.ok() || !problem.ok()) return;
    problem = error(r.code(), "line %lu: %s", line(), r.text().c_str());
    XML_StopParser(parser, XML_FALSE);
  }

  result open(const char* name, const char** pairs) {
    if (depth >= limits.depth) return error(xylInvalidArgument, "elements are nested deeper than %u", limits.depth);
    if (++elements > limits.elements)
      return error(xylInvalidArgument, "there are more than %zu elements", limits.elements);
    attributes.clear();
    for (; *pairs; pairs += 2) {
      attributes.push_back({pairs[0], pairs[1]});
      if (attributes.size() > limits.attributes)
        return error(xylInvalidArgument, "<%s> has more than %zu attributes", shown(name).c_str(),
                     limits.attributes);
      if (attributes.back().name.size() + attributes.back().value.size() > limits.attribute_bytes)
        return error(xylInvalidArgument, "attribute %s of <%s> is longer than %zu bytes", shown(pairs[0]).c_str(),
                     shown(name).c_str(), limits.attribute_bytes);
    }
    return handler.open({.name = name, .attributes = attributes, .depth = depth++, .line = line()});
  }
};

unsigned long line_of(std::string_view text, std::size_t at) {
  return 1 +
         static_cast<unsigned long>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

// expat takes a tag apart before anybody can count its attributes. Inside a tag there is no '<', so the distance to
// the next one bounds it.
result check_tag_lengths(std::string_view text, const xml_limits& limits) {
  for (std::size_t at = text.find('<'); at != text.npos;) {
    const std::size_t next = text.find('<', at + 1);
    if (std::min(next, text.size()) - at > limits.tag_bytes)
      return error(xylInvalidArgument, "line %lu: more than %zu bytes between two \"<\"", line_of(text, at),
                   limits.tag_bytes);
    at = next;
  }
  return {};
}

// Runs a step of the reading; whatever goes wrong in it ends the parser.
template <typename Step>
void guarded(void* user, Step step) {
  auto& r = *static_cast<reading*>(user);
  if (!r.problem.ok()) return;
  try {
    r.stop(step(r));
    if (now_ns() > r.deadline_ns)
      r.stop(error(xylInvalidArgument, "reading took longer than %lld ms",
                   static_cast<long long>(r.limits.milliseconds)));
  } catch (const std::exception& failure) {
    r.stop(error(xylSystemError, "%s", failure.what()));
  }
}

void XMLCALL on_open(void* user, const char* name, const char** pairs) {
  guarded(user, [&](reading& r) { return r.open(name, pairs); });
}
void XMLCALL on_close(void* user, const char* name) {
  guarded(user, [&](reading& r) {
    --r.depth;
    return r.handler.close(name);
  });
}
void XMLCALL on_text(void* user, const char* characters, int count) {
  guarded(user, [&](reading& r) { return r.handler.text({characters, static_cast<std::size_t>(count)}); });
}
void XMLCALL on_doctype(void* user, const char*, const char*, const char*, int has_internal_subset) {
  guarded(user, [&](reading&) {
    return has_internal_subset ? error(xylInvalidArgument, "a DOCTYPE with declarations of its own is not accepted")
                               : result();
  });
}
void XMLCALL on_entity(void* user, const char* name, int, const char*, int, const char*, const char*, const char*,
                       const char*) {
  guarded(user, [&](reading&) {
    return error(xylInvalidArgument, "the declaration of entity %s is not accepted", shown(name).c_str());
  });
}
// Another encoding would let the next parser see other elements than those that were checked here.
void XMLCALL on_declaration(void* user, const char*, const char* encoding, int) {
  guarded(user, [&](reading&) {
    const auto same = [&](const char* name) { return strcasecmp(encoding, name) == 0; };
    return !encoding || same("UTF-8") || same("US-ASCII")
               ? result()
               : error(xylInvalidArgument, "encoding %s is not accepted; UTF-8 is", shown(encoding).c_str());
  });
}

}  // namespace

std::optional<std::string_view> xml_element::find(std::string_view attribute) const {
  for (const xml_attribute& a : attributes)
    if (a.name == attribute) return a.value;
  return std::nullopt;
}

std::string shown(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, 64)) out += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > 64 ? out + "..." : out;
}

result read_xml(std::string_view text, const xml_limits& limits, xml_handler& handler) {
  if (text.size() > limits.bytes)
    return error(xylInvalidArgument, "line 1: %zu bytes; at most %zu are read", text.size(), limits.bytes);
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos)
    return error(
        xylInvalidArgument, "line %zu: a NUL byte",
        static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<long>(nul), '\n')) + 1);
  XYL_TRY(check_tag_lengths(text, limits));
  // expat decodes as UTF-8 whatever the declaration says; a byte order mark for UTF-16 contains no valid UTF-8.
  const std::unique_ptr<XML_ParserStruct, void (*)(XML_Parser)> parser(XML_ParserCreate("UTF-8"), &XML_ParserFree);
  if (!parser) return error(xylSystemError, "no memory for the XML parser");
  reading r{.parser = parser.get(),
            .limits = limits,
            .handler = handler,
            .deadline_ns = now_ns() + limits.milliseconds * 1'000'000,
            .attributes = {},
            .problem = {}};
  XML_SetUserData(r.parser, &r);
  XML_SetElementHandler(r.parser, &on_open, &on_close);
  XML_SetCharacterDataHandler(r.parser, &on_text);
  XML_SetStartDoctypeDeclHandler(r.parser, &on_doctype);
  XML_SetEntityDeclHandler(r.parser, &on_entity);
  XML_SetXmlDeclHandler(r.parser, &on_declaration);

  // In one piece: a token that spans pieces would be scanned again for each of them.
  const XML_Status status = XML_Parse(r.parser, text.data(), static_cast<int>(text.size()), XML_TRUE);
  if (!r.problem.ok()) return std::move(r.problem);
  if (status != XML_STATUS_OK)
    return error(xylInvalidArgument, "line %lu: %s", r.line(), XML_ErrorString(XML_GetErrorCode(r.parser)));
  return {};
}

result read_small_file(const char* path, std::size_t limit, std::string& out) {
  const unique_fd file(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return system_error("cannot open %s", path);
  struct stat about {};
  if (fstat(file.get(), &about) != 0) return system_error("fstat of %s", path);
  if (!S_ISREG(about.st_mode)) return error(xylInvalidArgument, "%s is not a regular file", path);
  // Read to the end rather than to st_size: files of /proc and /sys claim 0 or 4096 bytes.
  std::string text;
  char buffer[1 << 14];
  for (;;) {
    const ssize_t count = read(file.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("cannot read %s", path);
    if (count == 0) break;
    text.append(buffer, static_cast<std::size_t>(count));
    if (text.size() > limit) return error(xylInvalidArgument, "%s has more than %zu bytes", path, limit);
  }
  out = std::move(text);
  return {};
}

}  // namespace xyl::topo
