// SPDX-License-Identifier: BSD-3-Clause
//
// The table of parameters and its reader. Whoever adds a row adds a member to `parameters`, a test, and runs the
// test that compares xylem(7) with this table.
#include "base/parameters.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/parse.hpp"

namespace xyl {
namespace {

constexpr std::string_view name_prefix = "XYLEM_";
constexpr std::uint64_t largest_size = 1ull << 40;

// The position of text among names, in the order of an enumeration.
std::optional<int> position(std::string_view text, std::span<const char* const> names) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (equal_ignoring_case(text, names[i])) return static_cast<int>(i);
  return std::nullopt;
}

bool store_debug(std::string_view text, parameters& out) {
  for (log_level level : {log_level::warn, log_level::info, log_level::trace})
    if (equal_ignoring_case(text, name_of(level))) {
      out.debug = level;
      return true;
    }
  return false;
}

bool store_seconds(std::string_view text, std::int64_t least_ns, std::int64_t& out) {
  const std::optional<std::int64_t> ns = parse_seconds(text);
  if (!ns || *ns < least_ns || *ns > 86'400'000'000'000) return false;
  out = *ns;
  return true;
}

// auto leaves the choice to the library; the rest are the names of proto/algorithm.hpp in its order.
bool store_algorithm(std::string_view text, parameters& out) {
  constexpr const char* names[] = {"auto", "packet",        "oneshot", "twoshot",
                                   "ring", "twoshotpacket", "ll128",   "ll16"};
  const std::optional<int> at = position(text, names);
  if (!at) return false;
  if (*at == 0)
    out.forced_algorithm.reset();
  else
    out.forced_algorithm = static_cast<algorithm>(*at - 1);
  return true;
}

// The paths are the names of proto/sync_path.hpp in its order.
bool store_sync(std::string_view text, parameters& out) {
  constexpr const char* names[] = {"ll", "ll128", "ll16", "flag", "flag-gpu", "fence"};
  constexpr std::string_view suffix = "+pdl";
  out.forced_sync.reset();
  out.list_sync = equal_ignoring_case(text, "list");
  if (out.list_sync || equal_ignoring_case(text, "auto")) return true;
  out.forced_sync_overlaps =
      text.size() > suffix.size() && equal_ignoring_case(text.substr(text.size() - suffix.size()), suffix);
  if (out.forced_sync_overlaps) text.remove_suffix(suffix.size());
  const std::optional<int> at = position(text, names);
  if (at) out.forced_sync = static_cast<sync_path>(*at);
  return at.has_value();
}

bool store_size(std::string_view text, std::optional<std::uint64_t>& out) {
  const std::optional<std::uint64_t> bytes = parse_size(text);
  if (!bytes || *bytes > largest_size) return false;
  out = bytes;
  return true;
}

bool store_max_blocks(std::string_view text, parameters& out) {
  const std::optional<std::uint64_t> blocks = parse_count(text);
  if (!blocks || *blocks < 1 || *blocks > 128) return false;
  out.max_blocks = static_cast<int>(*blocks);
  return true;
}

bool store_choice(std::string_view text, std::span<const char* const> names, auto&& assign) {
  const std::optional<int> at = position(text, names);
  if (at) assign(*at);
  return at.has_value();
}

// A list of interface names; the kernel keeps each to 15 characters.
bool store_interfaces(std::string_view text, parameters& out) {
  const std::size_t names = text.find_first_not_of("^=");
  if (names == std::string_view::npos || text.substr(0, names).size() > 2 || text.starts_with("=^") ||
      text.starts_with("^^") || text.starts_with("=="))
    return false;
  for (std::size_t at = names; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    if (comma == at || comma - at > 15) return false;
    for (char c : text.substr(at, comma - at))
      if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
          std::string_view("._-:@").find(c) == std::string_view::npos)
        return false;
    at = comma + 1;
  }
  out.socket_interfaces = text;
  return true;
}

// Absolute, because ranks need not run in the same folder.
bool store_path(std::string_view text, std::string& out) {
  if (!text.starts_with('/') || text.size() > 4095) return false;
  out = text;
  return true;
}

constexpr const char* path_allowed = "an absolute path of at most 4095 characters";
constexpr const char* size_allowed = "bytes from 0 (never) to 1024G, with an optional suffix K, M or G";

constexpr parameter_info table[] = {
    {"XYLEM_DEBUG", "choice", "WARN", "", "WARN, INFO or TRACE", "How much is written to standard error.",
     store_debug},
    {"XYLEM_TIMEOUT", "seconds", "600", "seconds", "seconds from 0.01 to 86400, without a suffix",
     "How long a wait for another rank may last before the call fails.",
     [](std::string_view text, parameters& out) { return store_seconds(text, 10'000'000, out.timeout_ns); }},
    {"XYLEM_TIMEOUT_WARNING", "seconds", "10", "seconds",
     "seconds from 0.01 to 86400, without a suffix, or 0 (never)",
     "How long a wait for another rank lasts before a warning names that rank.",
     [](std::string_view text, parameters& out) {
       std::int64_t ns = 0;
       if (!store_seconds(text, 0, ns) || (ns > 0 && ns < 10'000'000)) return false;
       out.timeout_warning_ns = ns;
       return true;
     }},
    {"XYLEM_ALGO", "choice", "auto", "", "auto, packet, oneshot, twoshot, ring, twoshotpacket, ll128 or ll16",
     "The algorithm of every allreduce, and of other collectives where they have it, instead of a choice by "
     "message size; ll128 is for allreduces of float16, bfloat16 and float32 on devices, ll16 for sums of them "
     "between two, others go as oneshot.",
     store_algorithm},
    {"XYLEM_GPU", "choice", "auto", "", "auto or never",
     "Whether a new communicator uses the calling thread's current CUDA device.",
     [](std::string_view text, parameters& out) {
       return store_choice(text, std::array{"auto", "never"}, [&](int at) { out.use_gpu = at == 0; });
     }},
    {"XYLEM_P2P", "choice", "auto", "", "auto, 0 or 1",
     "Whether GPUs write straight into each other's memory: auto: where every one can, else all meet in host "
     "memory; "
     "0: in host memory; 1: straight, or device memory cannot be used.",
     [](std::string_view text, parameters& out) {
       return store_choice(text, std::array{"auto", "0", "1"},
                           [&](int at) { out.peer_to_peer = static_cast<peer_to_peer_use>(at); });
     }},
    {"XYLEM_PACKET_BYTES", "size", "chosen by the library", "bytes", size_allowed,
     "Messages up to this size use the packet algorithm.",
     [](std::string_view text, parameters& out) { return store_size(text, out.packet_bytes); }},
    {"XYLEM_ONESHOT_BYTES", "size", "chosen by the library", "bytes", size_allowed,
     "Messages up to this size that are not sent as packets use the oneshot algorithm.",
     [](std::string_view text, parameters& out) { return store_size(text, out.one_shot_bytes); }},
    {"XYLEM_TWOSTEP_BYTES", "size", "chosen by the library", "bytes", size_allowed,
     "Fused allreduces of this size or more (tokens x hidden, in bytes) on a GPU make the norms in a second "
     "launch.",
     [](std::string_view text, parameters& out) { return store_size(text, out.two_step_bytes); }},
    {"XYLEM_COPY_ENGINE_BYTES", "size", "chosen by the library", "bytes", size_allowed,
     "Messages between GPUs from this size on are moved by the GPUs' copy engines, which leaves multiprocessors "
     "free, "
     "except by reduce, and by broadcast with more than two ranks.",
     [](std::string_view text, parameters& out) { return store_size(text, out.copy_engine_bytes); }},
    {"XYLEM_MAX_BLOCKS", "count", "chosen by occupancy", "blocks", "a whole number from 1 to 128",
     "The most thread blocks that a kernel is launched with.", store_max_blocks},
    {"XYLEM_OVERLAP", "choice", "auto", "", "auto, none, late or early",
     "When a kernel lets the next launch of its stream be scheduled (programmatic dependent launch): none: at its "
     "end; late: once it has heard of every peer; early: once it has sent; auto: early where every rank has a GPU "
     "of "
     "its own, else late, where a self-test shows a gain, else none.",
     [](std::string_view text, parameters& out) {
       return store_choice(text, std::array{"auto", "none", "late", "early"},
                           [&](int at) { out.overlap = static_cast<launch_overlap>(at); });
     }},
    {"XYLEM_SYNC", "choice", "auto", "",
     "auto, list, or ll, ll128, ll16, flag, flag-gpu or fence, each also with +pdl behind",
     "How ranks on devices synchronise, instead of the path that is best by its self-test: ll uses packets where "
     "they are the choice for a size, ll128 lines of 128 bytes for every allreduce up to 4 MB (of float16, "
     "bfloat16 and float32: other types have no kernels for them), ll16 lines of 16 bytes for every sum of those "
     "between two ranks, a flag's name neither; without +pdl launches do not overlap. list prints the table of "
     "paths and chooses as auto does.",
     store_sync},
    {"XYLEM_DETERMINISTIC", "switch", "0", "", "0 or 1",
     "1 allows only algorithms that add in rank order, so that results do not depend on message size or machine.",
     [](std::string_view text, parameters& out) {
       return store_choice(text, std::array{"0", "1"}, [&](int at) { out.deterministic = at == 1; });
     }},
    {"XYLEM_ISA", "choice", "auto", "", "auto, baseline, avx2 or avx512",
     "The most capable processor instructions that reductions in host memory may use.",
     [](std::string_view text, parameters& out) {
       return store_choice(text, std::array{"auto", "baseline", "avx2", "avx512"},
                           [&](int at) { out.host_instructions = static_cast<instruction_set>(at); });
     }},
    {"XYLEM_SINGLE_COPY", "choice", "never", "", "never or always",
     "Whether messages of 64 KB and more in host memory are read straight from the other process's buffer, where "
     "the system lets every rank do that; staging was as fast or faster wherever it was measured.",
     [](std::string_view text, parameters& out) {
       return store_choice(text, std::array{"never", "always"},
                           [&](int at) { out.single_copy = static_cast<single_copy_use>(at); });
     }},
    {"XYLEM_PULL", "choice", "auto", "", "auto, never, oneshot, twoshot or staged",
     "Whether registered buffers are read and written in place, and how an allreduce does it; auto: from a size on "
     "where that is faster, unless XYLEM_ALGO says how; oneshot: every rank reads all inputs (where they are not "
     "the outputs); twoshot: every rank reduces a share; staged: as auto, and in an allreduce of other device "
     "memory "
     "in two shots ranks fetch their shares from where peers have copied them, which auto does among more than two "
     "ranks of one GPU from 768 KB on.",
     [](std::string_view text, parameters& out) {
       return store_choice(text, std::array{"auto", "never", "oneshot", "twoshot", "staged"},
                           [&](int at) { out.pull = static_cast<pull_use>(at); });
     }},
    {"XYLEM_CONNECT_TIMEOUT", "seconds", "10", "seconds", "seconds from 0.01 to 86400, without a suffix",
     "How long a rank tries to reach the process that made the unique id, where no machine refuses it.",
     [](std::string_view text, parameters& out) {
       return store_seconds(text, 10'000'000, out.connect_timeout_ns);
     }},
    {"XYLEM_SOCKET_IFNAME", "names", "all interfaces", "",
     "beginnings of names of network interfaces, separated by commas, with = in front for whole names, and ^ in "
     "front "
     "of either for all but these",
     "The network interfaces at which a unique id can be reached, read where it is made.", store_interfaces},
    {"XYLEM_TOPO_FILE", "path", "none", "", path_allowed,
     "A file that describes the machine, instead of what is found there; discovery fills what the file leaves out.",
     [](std::string_view text, parameters& out) { return store_path(text, out.topology_file); }},
    {"XYLEM_TOPO_OVERRIDE", "path", "none", "", path_allowed,
     "A file of capacities and vetoes that replace what was found or measured.",
     [](std::string_view text, parameters& out) { return store_path(text, out.topology_override); }},
    {"XYLEM_PLAN", "path", "none", "", path_allowed,
     "A file of rings and of algorithms by message size that are used instead of the planner's.",
     [](std::string_view text, parameters& out) { return store_path(text, out.plan_file); }},
    {"XYLEM_PROBE", "choice", "auto", "", "auto, always or never",
     "Whether links between GPUs are proven by real accesses and measured when a communicator is made; auto: where "
     "its "
     "ranks have several GPUs and no result of an earlier time is kept.",
     [](std::string_view text, parameters& out) {
       return store_choice(text, std::array{"auto", "always", "never"},
                           [&](int at) { out.probe = static_cast<probe_use>(at); });
     }},
    {"XYLEM_PROBE_HELPER", "path", "where it was installed", "", path_allowed,
     "The program that does this, xylem-probe.",
     [](std::string_view text, parameters& out) { return store_path(text, out.probe_helper); }},
    {"XYLEM_TUNE", "choice", "cached", "", "cached, missing, always or never",
     "Whether the message sizes at which allreduce changes its algorithm are measured when a communicator is made; "
     "cached: no, but measurements of an earlier time are used; missing: where there are none; always: anew; "
     "never: no, "
     "nor are earlier ones used.",
     [](std::string_view text, parameters& out) {
       return store_choice(text, std::array{"cached", "missing", "always", "never"},
                           [&](int at) { out.tune = static_cast<tune_use>(at); });
     }},
};

constexpr const char* foreign_names[] = {"XYLEM_BUILD", "XYLEM_CONF", "XYLEM_TOPOLOGY_DIR"};

// The least number of characters to insert, drop or replace (Wagner and Fischer 1974, with one row kept).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

// What may come from anywhere becomes printable and short.
std::string shown(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, 64)) out += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > 64 ? out + "..." : out;
}

std::string unknown_name_text(std::string_view name) {
  name = name.substr(0, 64);
  const parameter_info* nearest =
      std::min_element(std::begin(table), std::end(table), [&](const parameter_info& a, const parameter_info& b) {
        return edit_distance(name, a.name) < edit_distance(name, b.name);
      });
  return shown(name) + " is not a variable that Xylem knows; did you mean " + nearest->name + "?";
}

}  // namespace

std::span<const parameter_info> parameter_table() { return table; }
std::span<const char* const> foreign_parameter_names() { return foreign_names; }

result read_parameters(const char* const* environment, parameters& out) {
  parameters read;
  std::string problems;
  const auto add_problem = [&](const std::string& text) { problems += (problems.empty() ? "" : "; ") + text; };

  for (const char* const* entry = environment; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (!text.starts_with(name_prefix) || equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals);
    const std::string_view value = text.substr(equals + 1);
    const auto known =
        std::find_if(std::begin(table), std::end(table), [&](const parameter_info& p) { return name == p.name; });
    if (known != std::end(table)) {
      if (!value.empty() && !known->store(value, read))
        add_problem(std::string(known->name) + " is \"" + shown(value) + "\"; allowed: " + known->allowed);
    } else if (std::find(std::begin(foreign_names), std::end(foreign_names), name) == std::end(foreign_names)) {
      add_problem(unknown_name_text(name));
    }
  }
  // A ring adds in its own order.
  constexpr auto ring = static_cast<algorithm>(3);
  if (read.deterministic && read.forced_algorithm == ring)
    add_problem(
        "XYLEM_ALGO is \"ring\", which XYLEM_DETERMINISTIC=1 rules out; allowed: auto, packet, oneshot, twoshot, "
        "twoshotpacket, ll128 or ll16");
  // See proto/sync_path.hpp and proto/algorithm.hpp.
  constexpr auto first_flag = static_cast<sync_path>(3);
  constexpr algorithm packets[] = {static_cast<algorithm>(0), static_cast<algorithm>(4), static_cast<algorithm>(5),
                                   static_cast<algorithm>(6)};
  if (read.forced_sync && *read.forced_sync >= first_flag && read.forced_algorithm &&
      std::find(std::begin(packets), std::end(packets), *read.forced_algorithm) != std::end(packets))
    add_problem("XYLEM_ALGO asks for packets, and XYLEM_SYNC for flags; unset one, or let XYLEM_SYNC be ll");
  if (read.forced_sync && read.overlap != launch_overlap::automatic &&
      (read.overlap != launch_overlap::none) != read.forced_sync_overlaps)
    add_problem(read.forced_sync_overlaps
                    ? "XYLEM_SYNC asks for an overlap (+pdl), and XYLEM_OVERLAP is none; unset one"
                    : "XYLEM_OVERLAP asks for an overlap, and XYLEM_SYNC for a path without +pdl; unset one");
  if (!problems.empty()) return {xylInvalidUsage, std::move(problems)};
  out = read;
  return {};
}

}  // namespace xyl
