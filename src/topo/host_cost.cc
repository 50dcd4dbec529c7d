// SPDX-License-Identifier: BSD-3-Clause
#include "topo/host_cost.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace xyl::topo {
namespace {

const probed_pair* pair_in(const host_ranks& of, std::size_t from, std::size_t to) {
  if (of.probe == nullptr || !of.probe->on_host) return nullptr;
  return of.probe->find(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to));
}

// A pair that was not measured gets the worst of what was.
figure worst_measured(const host_ranks& of, double probed_pair::*what, bool large_is_bad) {
  double worst = 0;
  if (of.probe != nullptr && of.probe->on_host)
    for (const probed_pair& p : of.probe->pairs)
      if (p.*what > 0 && (worst == 0 || (p.*what > worst) == large_is_bad)) worst = p.*what;
  return worst > 0 ? figure{worst, source::measured, confidence::medium} : figure{};
}

figure figure_of(const host_ranks& of, std::size_t from, std::size_t to, double probed_pair::*what,
                 bool large_is_bad, double otherwise) {
  if (const probed_pair* const p = pair_in(of, from, to); p != nullptr && p->*what > 0)
    return {p->*what, source::measured, confidence::high};
  const figure worst = worst_measured(of, what, large_is_bad);
  return worst.known() ? worst : figure{otherwise, source::nominal, confidence::low};
}

const char* origin_of(const figure& f) {
  if (f.from != source::measured) return "not measured";
  return f.trust == confidence::high ? "measured" : "the worst that was measured";
}

class pricing {
 public:
  pricing(const host_ranks& of, std::span<const int> ring) : of_(of), c_(of.constants), ring_(ring) {
    ranks_ = ring.size();
    share_ = static_cast<double>(ranks_ - 1) / static_cast<double>(ranks_);
    turns_ = of.processors == 0 ? 1 : std::max(1.0, static_cast<double>(ranks_) / of.processors);
    for (std::size_t a = 0; a < ranks_; ++a)
      for (std::size_t b = 0; b < ranks_; ++b)
        if (a != b) all_.look(of, a, b);
    for (std::size_t i = 0; i < ranks_; ++i)
      around_.look(of, static_cast<std::size_t>(ring[i]), static_cast<std::size_t>(ring[(i + 1) % ranks_]));
  }

  void begin(method how, direction d = direction::push) {
    made_.push_back({.how = how, .inside = d, .across = d, .cost = {c_.call_us, 0}, .phases = {}});
    edges_ = how == method::ring ? &around_ : &all_;
  }
  // `bytes` of every byte of the message, per rank that acts.
  void store(const char* name, double bytes, unsigned meetings) {
    add(name, direction::push, bytes * edges_->write.ns, meetings, edges_->write.text("stores"));
  }
  void load(const char* name, double bytes, unsigned meetings) {
    add(name, direction::pull, bytes * edges_->read.ns, meetings, edges_->read.text("loads"));
  }
  // Store and load of packets of so many bytes, which are their own flags.
  void packets(const char* name, double bytes) {
    const double lines = c_.packet_bytes_per_byte * bytes * (edges_->write.ns + edges_->read.ns);
    add(name, direction::push, lines + 2 * bytes * c_.packet_word_ns / 8, 1, edges_->write.text("stores"));
  }
  void load_through_kernel(const char* name, double bytes, double calls) {
    add(name, direction::pull, bytes * (edges_->read.ns + c_.kernel_page_ns / 4096), 0, edges_->read.text("loads"));
    phase_cost& p = made_.back().phases.back();
    p.cost.fixed_us += calls * c_.kernel_us * turns_;
    made_.back().cost.fixed_us += calls * c_.kernel_us * turns_;
  }
  // Meetings of every further chunk.
  void in_chunks(std::uint64_t of_message, unsigned meetings) {
    const double ns = 1000 * meetings * meeting_us() / static_cast<double>(of_message);
    made_.back().cost.ns_per_byte += ns;
    made_.back().phases.front().cost.ns_per_byte += ns;
  }

  [[nodiscard]] double share() const { return share_; }
  [[nodiscard]] double peers() const { return static_cast<double>(ranks_ - 1); }
  [[nodiscard]] std::size_t ranks() const { return ranks_; }
  [[nodiscard]] const host_constants& constants() const { return c_; }
  [[nodiscard]] std::vector<candidate> take() { return std::move(made_); }

 private:
  struct slowest {
    double ns = 0;  // per byte
    std::size_t from = 0, to = 0;
    figure rate;
    void look(const figure& f, std::size_t a, std::size_t b) {
      if (1 / f.value <= ns) return;
      ns = 1 / f.value;
      from = a;
      to = b;
      rate = f;
    }
    [[nodiscard]] std::string text(const char* what) const {
      return format_text("%s, rank %zu -> rank %zu, %.1f GB/s (%s)", what, from, to, rate.value, origin_of(rate));
    }
  };
  struct edges {
    slowest write, read;
    double flag_us = 0;
    void look(const host_ranks& of, std::size_t a, std::size_t b) {
      const host_route r = route_between(of, a, b);
      write.look(r.write, a, b);
      read.look(r.read, a, b);
      flag_us = std::max(flag_us, r.flag_us.value);
    }
  };

  [[nodiscard]] double meeting_us() const { return edges_->flag_us + (std::ceil(turns_) - 1) * c_.switch_us; }

  void add(const char* name, direction d, double ns_per_byte, unsigned meetings, std::string slowest) {
    candidate& c = made_.back();
    const line cost{meetings * meeting_us(), ns_per_byte * turns_};
    c.cost.fixed_us += cost.fixed_us;
    c.cost.ns_per_byte += cost.ns_per_byte;
    c.phases.push_back({name, d, meetings, cost, std::move(slowest), 0, {}});
  }

  const host_ranks& of_;
  const host_constants& c_;
  std::span<const int> ring_;
  std::size_t ranks_;
  double share_, turns_;
  edges all_, around_;
  const edges* edges_ = &all_;
  std::vector<candidate> made_;
};

void all_reduce(pricing& p) {
  const std::uint64_t chunk = p.constants().reduced_chunk_bytes;
  const auto steps = static_cast<unsigned>(p.ranks() - 1);
  p.begin(method::packet);
  p.packets("exchange", p.peers());
  p.in_chunks(chunk, 1);
  p.begin(method::one_shot);
  p.store("exchange", p.peers(), 1);
  p.load("reduce", p.peers(), 0);
  p.in_chunks(chunk, 1);
  p.begin(method::two_shot);
  p.store("scatter", p.share(), 1);
  p.load("reduce", p.share(), 0);
  p.store("gather", p.share(), 1);
  p.load("deliver", p.share(), 0);
  p.in_chunks(chunk, 2);
  p.begin(method::ring);
  for (const char* name : {"reduce around the ring", "gather around the ring"}) {
    p.store(name, p.share(), steps);
    p.load(name, p.share(), 0);
  }
  p.in_chunks(chunk, 2 * steps);
  p.begin(method::two_shot_packet);
  p.packets("scatter", p.share());
  p.packets("gather", p.share());
  p.in_chunks(chunk, 2);
  // Of registered buffers.
  p.begin(method::one_shot, direction::pull);
  p.load("reduce", p.peers(), 2);
  p.begin(method::two_shot, direction::pull);
  p.load("reduce", p.share(), 1);
  p.store("gather", p.share(), 1);
}

void move(pricing& p, double stored, double loaded, double pieces, bool has_single_copy) {
  const std::uint64_t of_piece = pieces > 1 ? p.constants().moved_chunk_bytes : p.constants().rooted_chunk_bytes;
  const double chunk = static_cast<double>(of_piece) * pieces;
  p.begin(method::one_shot);
  p.store("send", stored, 1);
  p.load("deliver", loaded, 0);
  p.in_chunks(static_cast<std::uint64_t>(chunk), 1);
  if (!has_single_copy) return;
  p.begin(method::one_shot, direction::pull);
  p.load("read registered buffers", loaded, 2);
  p.begin(method::single_copy, direction::pull);
  p.load("meet", 0, 2);
  p.load_through_kernel("read", loaded, loaded < 1 ? p.peers() : 1);
}

}  // namespace

host_route route_between(const host_ranks& of, std::size_t from, std::size_t to) {
  const host_constants& c = of.constants;
  const int a = of.numa_of_rank[from], b = of.numa_of_rank[to];
  const double line = a >= 0 && b >= 0 && a != b ? c.line_across_ns : c.line_ns;
  const double rate = c.lines_in_flight * host_constants::line_bytes / line;
  return {.write = figure_of(of, from, to, &probed_pair::push, false, rate),
          .read = figure_of(of, from, to, &probed_pair::pull, false, rate),
          .flag_us = figure_of(of, from, to, &probed_pair::flag_us, true, c.flag_lines * line / 1000)};
}

std::vector<candidate> host_candidates(const host_ranks& of, pattern what, std::span<const int> ring) {
  if (ring.size() < 2) return {};
  pricing p(of, ring);
  // Sizes are those of the larger buffer of a rank.
  const double pieces = static_cast<double>(p.ranks());
  switch (what) {
    case pattern::all_reduce:
      all_reduce(p);
      break;
    case pattern::all_gather:
    case pattern::all_to_all:
      move(p, p.share(), p.share(), pieces, true);
      break;
    case pattern::reduce_scatter:
      move(p, p.share(), p.share(), pieces, false);
      p.begin(method::one_shot, direction::pull);
      p.load("reduce registered buffers", p.share(), 2);
      break;
    case pattern::broadcast:
      // The root stores to one peer after the other.
      move(p, p.peers(), 1, 1, true);
      break;
  }
  return p.take();
}

}  // namespace xyl::topo
