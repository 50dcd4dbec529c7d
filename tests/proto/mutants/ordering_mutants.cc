// SPDX-License-Identifier: BSD-3-Clause
//
// Runs one protocol with one planted fault: ordering_mutants FAULT PROTOCOL SEED. Built with ThreadSanitizer, whose
// report (and exit code) is the outcome; wrong results are of no interest here, except without a fault. The script
// catch_mutants.sh runs all of them.
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <type_traits>

#include "exec/trial_machine.hpp"
#include "proto/collective_machine.hpp"
#include "proto/copied_machine.hpp"
#include "proto/fused_machine.hpp"
#include "proto/mutants/faulty_space.hpp"
#include "proto/pull_machine.hpp"

namespace xyl::test {
namespace {

// Bulk calls of different sizes, some with a call without data between them and the next user of their slot, which
// is then larger: it writes where the earlier one may still be read.
std::vector<call_plan> calls_for(protocol how, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<call_plan> calls;
  for (int i = 0; i < 16; ++i) {
    call_plan call;
    call.how = i % 4 == 3 ? protocol::barrier : how;
    call.count = call.how == protocol::barrier ? 0 : i % 8 >= 4 ? 300 + random() % 300 : 1 + random() % 60;
    calls.push_back(call);
  }
  return calls;
}

template <ordering_fault Fault>
int run(protocol how, std::uint64_t seed) {
  machine_plan plan;
  plan.ranks = 2 + static_cast<int>(seed % 2);
  plan.lanes = 2;
  plan.seed = seed;
  plan.deadline = std::chrono::seconds(10);
  plan.wide_bytes_per_rank = 4096;  // for the longest of three ranks
  thread_machine<faulty_space<Fault>, faulty_call<Fault>, float_sum_only> machine(plan);
  const bool good = machine.run(calls_for(how, seed));
  if constexpr (Fault == ordering_fault::none) {
    const std::string wrong = good ? machine.check() : "a rank gave up";
    if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
    return !wrong.empty();
  }
  return 0;
}

bool is_shift(form how) { return how == form::shift || how == form::long_shift; }

// The same for a collective, beside which shifts stand for transfers.
std::vector<collective_plan> calls_for(form how, int ranks, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<collective_plan> calls;
  for (int i = 0; i < 16; ++i) {
    collective_plan call;
    call.how = how;
    call.what = is_shift(how)            ? collective::send
                : how == form::swap      ? std::array{collective::all_gather, collective::reduce_scatter}[i % 2]
                : how == form::two_phase ? collective::reduce
                : how == form::spread    ? collective::broadcast
                : how == form::one_way   ? collective::broadcast
                                         : collective::all_gather;
    // One-way messages that follow each other in one ring.
    call.root = how == form::one_way ? 0 : static_cast<int>(random() % static_cast<unsigned>(ranks));
    call.blocks = is_shift(how) ? 2 : 1;
    call.count = i % 8 >= 4 ? 300 + random() % 300 : 1 + random() % 60;
    if (i % 4 == 3 && how == form::swap) {
      // What lies where messages will.
      call.how = form::direct;
      call.what = collective::all_gather;
    } else if (i % 4 == 3 && !is_shift(how) && how != form::one_way) {
      // No data between: packets that carry nothing.
      call.how = form::packet;
      call.what = collective::all_gather;
      call.count = 0;
    }
    calls.push_back(call);
  }
  return calls;
}

template <ordering_fault Fault>
int run(form how, std::uint64_t seed) {
  machine_plan plan;
  plan.ranks = how == form::swap ? 2 : 2 + static_cast<int>(seed % 2);
  plan.blocks = is_shift(how) ? 2 : 1;
  plan.lanes = 2;
  plan.seed = seed;
  plan.deadline = std::chrono::seconds(10);
  collective_machine<faulty_space<Fault>, faulty_call<Fault>, float_sum_only> machine(plan);
  const bool good = machine.run(calls_for(how, plan.ranks, seed));
  if constexpr (Fault == ordering_fault::none) {
    const std::string wrong = good ? machine.check() : "a rank gave up";
    if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
    return !wrong.empty();
  }
  return 0;
}

// The fused allreduce, a launch for each row (of a share): they follow each other without the ranks meeting. Who lets
// others read its input writes it right before its call, and changes it as soon as that has ended.
struct mutated_rows {
  std::string_view name;
  fused_form how;
};
constexpr mutated_rows mutated_fused[] = {{"fused_two_shot", fused_form::two_shot},
                                          {"fused_one_shot_pull", fused_form::one_shot_pull},
                                          {"fused_slices", fused_form::two_shot_slices}};

template <ordering_fault Fault>
int run(fused_form how, std::uint64_t seed) {
  fused_case f;
  f.pattern = pulls(how) && seed % 2 ? fused_pattern::all_reduce : fused_pattern::fp8_per_token;
  f.hidden = how == fused_form::two_shot_slices ? 512 : 128;  // slices for all ranks
  f.tokens = 11;
  f.with_output = seed % 2;
  f.with_residual_out = false;
  f.seed = seed;
  fused_grid g;
  g.ranks = 2 + static_cast<int>(seed % 2);
  g.blocks = pulls(how) ? 2 : 1;
  g.lanes = 2;
  g.seed = seed;
  std::vector<fused_data<bfloat16>> data;
  for (int r = 0; r < g.ranks; ++r) data.emplace_back(f, r, g.ranks);
  fused_machine_of<faulty_space<Fault>, faulty_call<Fault>> machine(g, 4096, 4096);
  const bool good = machine.run(how, data);
  if constexpr (Fault == ordering_fault::none) {
    const std::string wrong = good ? data[0].check() : "a rank gave up";
    if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
    return !wrong.empty();
  }
  return 0;
}

// Registered buffers, over the same memory again and again.
template <ordering_fault Fault>
int run(pull_way how, std::uint64_t seed) {
  machine_plan plan;
  plan.ranks = 2 + static_cast<int>(seed % 2);
  plan.blocks = 2;
  plan.lanes = 2;
  plan.seed = seed;
  plan.deadline = std::chrono::seconds(10);
  std::mt19937_64 random(seed);
  std::vector<pull_plan> calls(16);
  for (pull_plan& call : calls) {
    call.how = how;
    call.count = 100 + random() % 300;
    call.blocks = 2;
    call.in_place = goes_in_place(how) && random() % 2;
  }
  pull_machine<faulty_space<Fault>, faulty_pull_call<Fault>, float_sum_only> machine(plan, 8192);
  const bool good = machine.run(calls);
  if constexpr (Fault == ordering_fault::none) {
    const std::string wrong = good ? machine.check() : "a rank gave up";
    if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
    return wrong.empty() ? 0 : 1;
  }
  return 0;
}

// What copy engines move, in as many chunks as it takes for slots to be used again.
struct copied_calls {};
constexpr std::string_view copied_name = "copied";

template <ordering_fault Fault>
int run(copied_calls, std::uint64_t seed) {
  copied_case p;
  p.ranks = 2 + static_cast<int>(seed % 2);
  p.staged = seed % 4 < 2;
  p.seed = seed;
  p.deadline = std::chrono::seconds(10);
  copied_machine<faulty_space<Fault>, float_sum_only> machine(p);
  const bool good = machine.run({{0, 2000}, {0, 0}, {0, 700, true}, {0, 1500, false, 0, collective::all_gather}});
  if constexpr (Fault == ordering_fault::none) {
    const std::string wrong = good ? machine.check() : "a rank gave up";
    if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
    return !wrong.empty();
  }
  return 0;
}

constexpr form mutated_forms[] = {form::direct, form::pull,       form::spread, form::single_copy, form::two_phase,
                                  form::shift,  form::long_shift, form::swap,   form::one_way};
constexpr pull_way mutated_pulls[] = {pull_way::one_shot,   pull_way::two_shot,          pull_way::gathered,
                                      pull_way::all_gather, pull_way::all_gather_pushed, pull_way::broadcast};

// What can go wrong in a protocol. Slots and departures are those of calls, credits those of pairs.
bool applies(std::string_view fault, std::string_view how) {
  if (how == mutated_fused[0].name)
    return fault == "none" || fault == "relaxed_post" || fault == "relaxed_await" || fault == "no_sync_before_post";
  // The lanes of a block meet at each row's end, whether or not they make a norm.
  if (how == mutated_fused[1].name)
    return fault != "early_step" && fault != "early_reuse" && fault != "no_credit" && fault != "line_in_pieces" &&
           fault != "no_sync_before_post";
  if (how == mutated_fused[2].name)
    return fault == "none" || fault == "relaxed_post" || fault == "relaxed_await" ||
           fault == "no_sync_before_post" || fault == "no_sync_after_await";
  if (fault == "early_step") return how == name_of(protocol::two_shot);
  const bool has_lines = how == name_of(protocol::wide_packet) || how == name_of(protocol::line_packet);
  if (fault == "line_in_pieces") return has_lines;
  const auto is_pull = [&] {
    for (const pull_way p : mutated_pulls)
      if (how == pull_names[static_cast<int>(p)]) return true;
    return false;
  };
  if (is_pull()) {
    // In the gathered form flags of every block say what the others are told at the end.
    const bool departs = how != pull_names[static_cast<int>(pull_way::gathered)];
    if (fault == "not_taken") return departs;
    // The flags of a root say what headers would.
    const bool has_root = how == pull_names[static_cast<int>(pull_way::broadcast)];
    if (has_root && fault == "no_departure") return false;
    return fault != "no_credit" && fault != "early_reuse";
  }
  if (has_lines) return fault == "none" || fault == "no_departure" || fault == "early_reuse";
  if (how == copied_name) return fault == "none" || fault == "relaxed_post" || fault == "relaxed_await";
  // One-way calls are as those of pairs.
  const bool is_pair =
      how == form_names[static_cast<int>(form::shift)] || how == form_names[static_cast<int>(form::long_shift)] ||
      how == form_names[static_cast<int>(form::swap)] || how == form_names[static_cast<int>(form::one_way)];
  const bool is_single_copy = how == form_names[static_cast<int>(form::single_copy)];
  if (fault == "no_credit") return is_pair;
  if (fault == "not_taken") return is_single_copy;
  // Nobody gets so far ahead of who takes its data; in a ring nobody sends before it has everybody's header, so that
  // one slot would do.
  if (fault == "early_reuse" && (is_single_copy || how == name_of(protocol::ring))) return false;
  return !is_pair || (fault != "no_departure" && fault != "early_reuse");
}

template <class How>
int run_fault(std::string_view fault, How how, std::uint64_t seed) {
  using enum ordering_fault;
  if (fault == "none") return run<none>(how, seed);
  if (fault == "relaxed_post") return run<relaxed_post>(how, seed);
  if (fault == "relaxed_await") return run<relaxed_await>(how, seed);
  if (fault == "no_sync_before_post") return run<no_sync_before_post>(how, seed);
  if (fault == "no_sync_after_await") return run<no_sync_after_await>(how, seed);
  if (fault == "no_departure") return run<no_departure>(how, seed);
  if (fault == "early_reuse") return run<early_reuse>(how, seed);
  if constexpr (std::is_same_v<How, protocol>) {
    if (fault == "line_in_pieces") return run<line_in_pieces>(how, seed);
    if (fault == "early_step") return run<early_step>(how, seed);
  }
  if constexpr (std::is_same_v<How, pull_way> || std::is_same_v<How, fused_form>) {
    if (fault == "not_taken") return run<not_taken>(how, seed);
  }
  if constexpr (std::is_same_v<How, form>) {
    if (fault == "no_credit") return run<no_credit>(how, seed);
    if (fault == "not_taken") return run<not_taken>(how, seed);
  }
  return 2;
}

// The self-test of a sync path: flags that say nothing about the data.
constexpr std::string_view trial_name = "trial";
int run_trial(std::string_view fault, std::uint64_t seed) {
  path_faults faults;
  if (fault == "relaxed_post") faults.of[static_cast<int>(sync_path::flag)] = path_fault::no_ordering;
  trial_machine machine(2, 2, faults);
  trial_plan plan;
  plan.begin = static_cast<std::uint32_t>(1 + seed * 1000);
  plan.what.rounds = 8;
  plan.what.launches = 4;
  plan.what.limit_ns = plan.meeting_ns = 60'000'000'000;
  std::atomic<bool> good{true};
  machine.on_all_ranks([&](int rank) {
    if (machine.attempt(rank, plan).verdict != trial_verdict::passed) good.store(false, std::memory_order_relaxed);
  });
  return good.load(std::memory_order_relaxed) ? 0 : 3;
}

int run_named(std::string_view fault, std::string_view how_name, std::uint64_t seed) {
  for (const protocol p : all_reduces)
    if (how_name == name_of(p)) return run_fault(fault, p, seed);
  for (const form f : mutated_forms)
    if (how_name == form_names[static_cast<int>(f)]) return run_fault(fault, f, seed);
  for (const pull_way p : mutated_pulls)
    if (how_name == pull_names[static_cast<int>(p)]) return run_fault(fault, p, seed);
  if (how_name == copied_name && applies(fault, how_name)) return run_fault(fault, copied_calls(), seed);
  for (const mutated_rows& m : mutated_fused)
    if (how_name == m.name && applies(fault, how_name)) return run_fault(fault, m.how, seed);
  if (how_name == trial_name && (fault == "none" || fault == "relaxed_post")) return run_trial(fault, seed);
  return 2;
}

// FAULT PROTOCOL, a pair on each line.
void list() {
  for (const std::string_view fault : fault_names) {
    for (const std::string_view how : {"one_shot", "two_shot", "ring", "wide_packet", "line_packet"})
      if (applies(fault, how)) std::printf("%s %s\n", fault.data(), how.data());
    for (const form f : mutated_forms)
      if (const std::string_view how = form_names[static_cast<int>(f)]; applies(fault, how))
        std::printf("%s %s\n", fault.data(), how.data());
    if (fault == "none" || fault == "relaxed_post") std::printf("%s %s\n", fault.data(), trial_name.data());
    for (const pull_way p : mutated_pulls)
      if (const std::string_view how = pull_names[static_cast<int>(p)]; applies(fault, how))
        std::printf("%s %s\n", fault.data(), how.data());
    if (applies(fault, copied_name)) std::printf("%s %s\n", fault.data(), copied_name.data());
    for (const mutated_rows& m : mutated_fused)
      if (applies(fault, m.name)) std::printf("%s %s\n", fault.data(), m.name.data());
  }
}

}  // namespace
}  // namespace xyl::test

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "list") {
    xyl::test::list();
    return 0;
  }
  const int code = argc == 4 ? xyl::test::run_named(argv[1], argv[2], std::strtoull(argv[3], nullptr, 10)) : 2;
  if (code == 2) std::fprintf(stderr, "usage: ordering_mutants FAULT PROTOCOL SEED\n");
  return code;
}
