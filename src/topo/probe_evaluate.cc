// SPDX-License-Identifier: BSD-3-Clause
// From the answers of all ranks to what is true of pairs of GPUs. A pair of GPUs is proven only if every pair of
// ranks on them that took part is, and is as bad as the worst of them.
#include <algorithm>
#include <cmath>
#include <set>

#include "topo/probe_report.hpp"

namespace xyl::topo {
namespace {

using answers_of_step = std::vector<probe_answer>;

bool is_done(const probe_answer& a) { return a.state == static_cast<std::uint32_t>(probe_state::done); }

// A number from another process.
double sane(double value) { return std::isfinite(value) && value > 0 && value < 1e7 ? value : 0; }

probe_verdict verdict_in(const probe_answer& a, std::size_t rank) {
  if (!is_done(a) || a.verdict[rank] > static_cast<std::uint8_t>(probe_verdict::unseen))
    return probe_verdict::untested;
  return static_cast<probe_verdict>(a.verdict[rank]);
}

// Worse wins; what was not tested outweighs what is good.
probe_verdict worse(probe_verdict a, probe_verdict b) {
  if (is_veto(a)) return a;
  if (is_veto(b)) return b;
  return std::min(a, b);
}

class evaluation {
 public:
  evaluation(std::span<const std::uint32_t> gpu_of_rank, probe_report& out) : gpu_of_rank_(gpu_of_rank), out_(out) {
    for (std::size_t a = 0; a < gpu_of_rank.size(); ++a)
      for (std::size_t b = 0; b < gpu_of_rank.size(); ++b)
        if (a != b && find(gpu_of_rank[a], gpu_of_rank[b]) == nullptr)
          out_.pairs.push_back({.from = gpu_of_rank[a], .to = gpu_of_rank[b]});
  }

  // What the writer says of itself comes first: what never ended cannot have arrived.
  void proof(const probe_order& order, const answers_of_step& wrote, const answers_of_step& verified,
             const answers_of_step& have_read) {
    std::set<const probed_pair*> seen;
    for (std::size_t a = 0; a < gpu_of_rank_.size(); ++a)
      for (std::size_t b = 0; b < gpu_of_rank_.size(); ++b) {
        if (a == b || order.acts[a] == 0 || order.acts[b] == 0) continue;
        probed_pair& p = *find(gpu_of_rank_[a], gpu_of_rank_[b]);
        const probe_verdict written = worse(verdict_in(wrote[a], b), verdict_in(verified[b], a));
        const probe_verdict read = verdict_in(have_read[b], a);
        const bool is_first = seen.insert(&p).second;
        p.writes = is_first ? written : worse(p.writes, written);
        p.reads = is_first ? read : worse(p.reads, read);
      }
  }

  void rates(const probe_step& step, const answers_of_step& answers) {
    if (step.kind == probe_kind::flags) unseen(step.active.front(), answers);
    for (const probe_pair& active : step.active) {
      const double value = is_done(answers[active.from]) ? sane(answers[active.from].value) : 0;
      if (value == 0) continue;
      const bool pulls = step.kind == probe_kind::pull || step.kind == probe_kind::take_over;
      // Who pulls is who gets the data.
      const std::uint32_t here = gpu_of_rank_[active.from], there = gpu_of_rank_[active.to];
      probed_pair* const p = pulls ? find(there, here) : find(here, there);
      if (p == nullptr) continue;
      if (step.kind == probe_kind::flags) {
        p->flag_us = value;
        if (probed_pair* const back = find(there, here)) back->flag_us = value;
      } else if (step.purpose == probe_purpose::alone) {
        (pulls ? p->pull : p->push) = value;
      } else if (step.purpose == probe_purpose::together) {
        (pulls ? p->pull_together : p->push_together) = value;
      } else if (step.purpose == probe_purpose::across) {
        (pulls ? p->pull_across : p->push_across) = value;
      } else if (step.purpose == probe_purpose::both_ways && out_.both_ways == 0 && p->push > 0) {
        out_.both_ways = std::min(1.0, value / p->push);
      }
    }
  }

  // Both took part, and one waited in vain. Ranks of one GPU may only have waited for their turn on it.
  void unseen(const probe_pair& p, const answers_of_step& answers) {
    const std::uint32_t here = gpu_of_rank_[p.from], there = gpu_of_rank_[p.to];
    const auto failed = [&](std::uint8_t r) {
      return answers[r].state == static_cast<std::uint32_t>(probe_state::failed);
    };
    const bool both = (failed(p.from) || is_done(answers[p.from])) && (failed(p.to) || is_done(answers[p.to]));
    if (here == there || !both || !(failed(p.from) || failed(p.to))) return;
    for (probed_pair* pair : {find(here, there), find(there, here)})
      if (pair->writes == probe_verdict::good) pair->writes = probe_verdict::unseen;
  }

  void staging(const probe_step& step, const answers_of_step& answers) {
    const std::uint8_t rank = step.active.front().from;
    const double value = is_done(answers[rank]) ? sane(answers[rank].value) : 0;
    if (value == 0) return;
    const std::uint32_t gpu = gpu_of_rank_[rank];
    const auto node = static_cast<std::int32_t>(step.node);
    auto at = std::find_if(out_.staging.begin(), out_.staging.end(),
                           [&](const probed_staging& s) { return s.gpu == gpu && s.node == node; });
    if (at == out_.staging.end()) at = out_.staging.insert(at, {.gpu = gpu, .node = node});
    (step.kind == probe_kind::host_write ? at->write : at->read) = value;
  }

 private:
  probed_pair* find(std::uint32_t from, std::uint32_t to) { return const_cast<probed_pair*>(out_.find(from, to)); }

  std::span<const std::uint32_t> gpu_of_rank_;
  probe_report& out_;
};

// Of all that act in a step; 0 if not all have a number.
double sum_of(const probe_step& step, const answers_of_step& answers) {
  double sum = 0;
  for (const probe_pair& p : step.active) {
    const double value = is_done(answers[p.from]) ? sane(answers[p.from].value) : 0;
    if (value == 0) return 0;
    sum += value;
  }
  return sum;
}

}  // namespace

const probed_pair* probe_report::find(std::uint32_t from, std::uint32_t to) const {
  for (const probed_pair& p : pairs)
    if (p.from == from && p.to == to) return &p;
  return nullptr;
}

bool probe_report::proves(std::span<const std::string> names) const {
  const auto index = [&](const std::string& name) {
    return static_cast<std::uint32_t>(std::find(gpus.begin(), gpus.end(), name) - gpus.begin());
  };
  for (const std::string& from : names)
    for (const std::string& to : names) {
      if (from == to) continue;
      const probed_pair* const p = find(index(from), index(to));
      if (p == nullptr || p->writes != probe_verdict::good || p->reads != probe_verdict::good) return false;
    }
  return true;
}

std::string probe_report::veto() const {
  const auto name = [&](std::uint32_t gpu) { return gpus[gpu] + (on_host ? "" : "'s memory"); };
  for (const probed_pair& p : pairs) {
    if (is_veto(p.writes))
      return format_text("the probe of the links found that %s cannot be written from %s (%s)", name(p.to).c_str(),
                         gpus[p.from].c_str(), name_of(p.writes));
    if (is_veto(p.reads))
      return format_text("the probe of the links found that %s cannot be read from %s (%s)", name(p.from).c_str(),
                         gpus[p.to].c_str(), name_of(p.reads));
  }
  for (const probed_pair& p : pairs)
    if (p.writes == probe_verdict::untested || p.reads == probe_verdict::untested)
      return format_text("the link from %s to %s could not be proven%s%s", gpus[p.from].c_str(), gpus[p.to].c_str(),
                         problems.empty() ? "" : ": ", problems.empty() ? "" : problems.front().c_str());
  return {};
}

probe_report evaluate(const probe_order& order, std::span<const std::uint32_t> gpu_of_rank,
                      std::vector<std::string> gpus, const std::vector<std::vector<probe_answer>>& answers) {
  probe_report out;
  out.on_host = order.on_host != 0;
  out.gpus = std::move(gpus);
  evaluation e(gpu_of_rank, out);
  const std::vector<probe_step> steps = steps_of(order);
  if (answers.size() != steps.size()) return out;
  double one_target[2] = {}, two_targets[2] = {};
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const bool pulls = steps[s].kind == probe_kind::pull;
    switch (steps[s].purpose) {
      case probe_purpose::proof:
        if (steps[s].kind == probe_kind::write) e.proof(order, answers[s], answers[s + 1], answers[s + 2]);
        break;
      case probe_purpose::warm_up:
        break;
      case probe_purpose::one_target:
        one_target[pulls] = sum_of(steps[s], answers[s]);
        break;
      case probe_purpose::two_targets:
        two_targets[pulls] = sum_of(steps[s], answers[s]);
        break;
      case probe_purpose::staging:
        e.staging(steps[s], answers[s]);
        break;
      default:
        e.rates(steps[s], answers[s]);
    }
  }
  if (one_target[0] > 0) out.write_collapse = std::min(1.0, two_targets[0] / one_target[0]);
  if (one_target[1] > 0) out.read_collapse = std::min(1.0, two_targets[1] / one_target[1]);
  for (std::size_t rank = 0; rank < gpu_of_rank.size(); ++rank)
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const probe_answer& a = answers[s][rank];
      // A flag that does not come is of the pair, and memory of a node that cannot be had is the node's.
      const bool is_helpers = steps[s].kind != probe_kind::flags && steps[s].purpose != probe_purpose::staging;
      if (a.state == static_cast<std::uint32_t>(probe_state::gone) ||
          (a.state == static_cast<std::uint32_t>(probe_state::failed) && is_helpers)) {
        out.problems.push_back(format_text("rank %zu: %s", rank, text_in(a.text).c_str()));
        break;
      }
    }
  return out;
}

const char* name_of(probe_verdict verdict) {
  switch (verdict) {
    case probe_verdict::untested:
      return "untested";
    case probe_verdict::good:
      return "good";
    case probe_verdict::unreachable:
      return "cannot be mapped";
    case probe_verdict::dropped:
      return "what is written does not arrive";
    case probe_verdict::wrong:
      return "wrong data";
    case probe_verdict::silent:
      return "accesses never end";
    case probe_verdict::unseen:
      return "what is written is not seen while kernels run";
  }
  return "?";
}

}  // namespace xyl::topo
