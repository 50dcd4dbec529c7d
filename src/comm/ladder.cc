// SPDX-License-Identifier: BSD-3-Clause
#include "comm/ladder.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace xyl {
namespace {

// So many times the best at one size.
constexpr double far_behind = 2.5;
// A change of the algorithm has to pay by more than measurements scatter.
constexpr double worth_while = 0.97;

// Per byte they move more than the others do, so they do not come back.
bool sends_everything(algorithm how) {
  return how == algorithm::packet || how == algorithm::one_shot || how == algorithm::wide_packet ||
         how == algorithm::line_packet;
}

// Where the lines through two sizes' times cross; between the two.
std::uint64_t crossing(std::uint64_t low, double a_low, double b_low, std::uint64_t high, double a_high,
                       double b_high) {
  const double gap_low = b_low - a_low, gap_high = a_high - b_high;
  const double share = gap_low + gap_high > 0 ? gap_low / (gap_low + gap_high) : 0.5;
  const double at = static_cast<double>(low) + std::clamp(share, 0.0, 1.0) * static_cast<double>(high - low);
  return std::clamp(static_cast<std::uint64_t>(at), low, high - 1);
}

}  // namespace

ladder::ladder(bool deterministic, bool packets, bool wide_packets, bool line_packets) {
  for (int a = 0; a < algorithms; ++a) {
    const auto how = static_cast<algorithm>(a);
    if ((!packets && uses_packets(how)) || (!wide_packets && uses_wide_packets(how)) ||
        (!line_packets && uses_line_packets(how)))
      continue;
    if (!deterministic || topo::in_rank_order(*topo::method_of(how))) contenders_.push_back(how);
  }
  left_ = contenders_;
}

std::optional<ladder::rung> ladder::next() const {
  if (over_ || left_.empty()) return std::nullopt;
  return rung{left_.front(), bytes_};
}

void ladder::timed(double us) {
  if (!next()) return;
  times_.push_back({*next(), us});
  left_.erase(left_.begin());
  if (left_.empty()) next_size();
}

void ladder::next_size() {
  const double best = least_at(bytes_);
  for (const time& t : times_)
    if (t.at.bytes == bytes_ && t.us > far_behind * best && sends_everything(t.at.how))
      std::erase(contenders_, t.at.how);
  over_ = bytes_ >= largest;
  if (over_) return;
  bytes_ *= factor;
  left_ = contenders_;
}

void ladder::stop() {
  if (over_) return;
  std::erase_if(times_, [&](const time& t) { return t.at.bytes == bytes_; });
  over_ = true;
}

double ladder::least_at(std::uint64_t bytes) const {
  double least = std::numeric_limits<double>::infinity();
  for (const time& t : times_)
    if (t.at.bytes == bytes) least = std::min(least, t.us);
  return least;
}

topo::tuning ladder::thresholds() const {
  topo::tuning out;
  const auto time_of = [&](algorithm how, std::uint64_t bytes) -> std::optional<double> {
    for (const time& t : times_)
      if (t.at.how == how && t.at.bytes == bytes) return t.us;
    return std::nullopt;
  };
  std::vector<topo::plan_override::range> ranges;
  std::optional<algorithm> now;
  std::uint64_t last = 0;
  for (std::uint64_t bytes = smallest; bytes <= largest; bytes *= factor) {
    const double least = least_at(bytes);
    if (!std::isfinite(least)) break;
    algorithm best = algorithm::two_shot;
    for (const time& t : times_)
      if (t.at.bytes == bytes && t.us == least) best = t.at.how;
    const std::optional<double> kept = now ? time_of(*now, bytes) : std::nullopt;
    if (!now || !kept || least < worth_while * *kept) {
      if (now && best != *now) {
        const std::optional<double> before = time_of(best, last), own = time_of(*now, last);
        const std::uint64_t end =
            before && own && kept
                ? crossing(last, *own, *before, bytes, *kept, least)
                : static_cast<std::uint64_t>(std::sqrt(static_cast<double>(last) * static_cast<double>(bytes)));
        ranges.push_back({end, *topo::method_of(*now)});
      }
      now = best;
    }
    last = bytes;
  }
  if (!now) return out;
  ranges.push_back({std::numeric_limits<std::uint64_t>::max(), *topo::method_of(*now)});
  out.thresholds = {{topo::pattern::all_reduce, std::move(ranges)}};
  for (const time& t : times_)
    out.measured.push_back({topo::pattern::all_reduce, *topo::method_of(t.at.how), t.at.bytes, t.us});
  return out;
}

}  // namespace xyl
