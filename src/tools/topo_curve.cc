// SPDX-License-Identifier: BSD-3-Clause
// Predicted time and bandwidth over message size: the table, and its picture.
#include <algorithm>
#include <map>
#include <sstream>
#include <vector>

#include "tools/filter_program.hpp"
#include "tools/topo_plan_request.hpp"
#include "topo/describe.hpp"

namespace xyl {
namespace {

constexpr std::uint64_t smallest = 1 << 10, greatest = 1 << 30;

struct row {
  std::uint64_t bytes;
  std::string winner;
  double us;
  double bus_bandwidth;
  std::map<std::string, double> by_algorithm;  // the best time of each
};

struct table {
  std::string title;
  std::vector<std::string> algorithms;  // in the order of the columns
  std::vector<row> rows;
};

result table_of_machine(const topo::graph& g, const topo_plan_options& options, table& out) {
  topo::plan p;
  XYL_TRY(plan_machine(g, options, false, p));
  const topo::collective_plan& c = p.collectives[0];
  const auto ranks = static_cast<unsigned>(p.places.size());
  out.title = std::string(name_of(options.what)) + ", " + std::to_string(ranks) + " ranks";
  for (int m = 0; m < topo::methods; ++m) out.algorithms.push_back(name_of(static_cast<topo::method>(m)));
  for (std::uint64_t bytes = smallest; bytes <= greatest; bytes *= 2) {
    const topo::candidate& winner = c.winner(bytes);
    row r{bytes, name_of(winner), winner.cost.us(bytes), 0, {}};
    r.bus_bandwidth = topo::bus_factor(options.what, ranks) * static_cast<double>(bytes) / r.us / 1000;
    for (const topo::candidate& x : c.candidates) {
      const auto at = r.by_algorithm.emplace(name_of(x.how), x.cost.us(bytes)).first;
      at->second = std::min(at->second, x.cost.us(bytes));
    }
    out.rows.push_back(std::move(r));
  }
  return {};
}

result table_of_cluster(const topo::graph& g, const topo_plan_options& options, table& out) {
  topo::cluster_plan p;
  XYL_TRY(plan_cluster(g, options, p));
  const unsigned ranks = p.nodes * p.ranks_per_node;
  out.title = std::string(name_of(options.what)) + ", " + std::to_string(p.nodes) + " nodes of " +
              std::to_string(p.ranks_per_node) + " ranks";
  // Variants of one way to cross the network differ after the second comma.
  const auto family = [](const std::string& name) {
    const std::size_t first = name.find(", ");
    return name.substr(0, first == name.npos ? first : name.find(", ", first + 2));
  };
  for (const topo::cluster_candidate& c : p.candidates)
    if (std::find(out.algorithms.begin(), out.algorithms.end(), family(c.name)) == out.algorithms.end())
      out.algorithms.push_back(family(c.name));
  for (std::uint64_t bytes = smallest; bytes <= greatest; bytes *= 2) {
    const topo::cluster_candidate& winner = p.winner(bytes);
    row r{bytes, winner.name, winner.cost.us(bytes), 0, {}};
    r.bus_bandwidth = topo::bus_factor(options.what, ranks) * static_cast<double>(bytes) / r.us / 1000;
    for (const topo::cluster_candidate& c : p.candidates) {
      const auto at = r.by_algorithm.emplace(family(c.name), c.cost.us(bytes)).first;
      at->second = std::min(at->second, c.cost.us(bytes));
    }
    out.rows.push_back(std::move(r));
  }
  return {};
}

result table_of(const topo::graph& g, const topo_plan_options& options, table& out) {
  return options.nodes > 1 ? table_of_cluster(g, options, out) : table_of_machine(g, options, out);
}

std::string quoted(const std::string& text) { return '"' + text + '"'; }

}  // namespace

result print_curve(const topo::graph& g, const topo_plan_options& options, std::ostream& out) {
  table t;
  XYL_TRY(table_of(g, options, t));
  out << "bytes,winner,us,busbw";
  for (const std::string& a : t.algorithms) out << "," << quoted(a + " us");
  out << "\n";
  for (const row& r : t.rows) {
    out << format_text("%llu,%s,%.3f,%.3f", static_cast<unsigned long long>(r.bytes), quoted(r.winner).c_str(),
                       r.us, r.bus_bandwidth);
    for (const std::string& a : t.algorithms) {
      const auto at = r.by_algorithm.find(a);
      out << (at == r.by_algorithm.end() ? std::string(",") : format_text(",%.3f", at->second));
    }
    out << "\n";
  }
  return {};
}

result plot_curve(const topo::graph& g, const topo_plan_options& options, std::ostream& svg) {
  table t;
  XYL_TRY(table_of(g, options, t));
  std::ostringstream script;
  script << "set terminal svg size 900,600 dynamic\nset logscale xy\nset logscale x 2\nset grid\n"
            "set xrange [1024:1073741824]\nset xtics 1024, 4\nset format x '%.0b %B'\n"
            "set key left top\nset xlabel 'bytes'\nset ylabel 'us'\nset y2label 'bus bandwidth, GB/s'\n"
            "set ytics nomirror\nset y2tics\nset title '"
         << t.title << "'\n$data << end_of_data\n";
  for (const row& r : t.rows) {
    script << r.bytes << " " << r.us << " " << r.bus_bandwidth;
    for (const std::string& a : t.algorithms) {
      const auto at = r.by_algorithm.find(a);
      script << " " << (at == r.by_algorithm.end() ? std::string("NaN") : format_text("%.4f", at->second));
    }
    script << "\n";
  }
  script << "end_of_data\nplot $data using 1:2 with lines linewidth 3 linecolor 'black' title 'chosen', "
            "$data using 1:3 axes x1y2 with lines dashtype 2 linecolor 'grey' title 'bus bandwidth'";
  for (std::size_t i = 0; i < t.algorithms.size(); ++i) {
    const bool any = std::any_of(t.rows.begin(), t.rows.end(),
                                 [&](const row& r) { return r.by_algorithm.contains(t.algorithms[i]); });
    if (any) script << ", $data using 1:" << i + 4 << " with lines title '" << t.algorithms[i] << "'";
  }
  script << "\n";
  std::string picture;
  XYL_TRY(filter_through({"gnuplot"}, script.str(), picture));
  svg << picture;
  return {};
}

}  // namespace xyl
