// SPDX-License-Identifier: BSD-3-Clause
//
// `decode` and `fused`. A step of decode is the chain of a model's allreduces, two for each layer, which update the
// residual in place; a step of fused is one call. On device memory a step is a CUDA graph. Every step that is
// checked is the one that is timed.
#include <algorithm>

#include "tools/perf_layer.hpp"
#include "tools/perf_layer_report.hpp"
#include "tools/perf_table.hpp"
#include "tools/perf_task.hpp"
#include "tools/perf_timing.hpp"
#include "tools/perf_types.hpp"

namespace xyl {
namespace {

// The residual grows from step to step, and must stay a number: its data are renewed for every repetition.
constexpr int most_steps = 200;
constexpr int calls_in_graph = 50;

class layer_task final : public perf_task {
 public:
  run_facts& facts() override { return report_; }
  std::string objection(int) const override { return ""; }
  result run(perf_team& team, std::ofstream& csv) override;
  std::string json() const override { return json_text(report_); }
  std::int64_t wrong() const override { return wrong_elements(report_); }

 private:
  layer_report report_;
};

std::vector<layer_call> plan(const perf_options& options) {
  const bool is_chain = options.collective == "decode";
  std::vector<layer_call> out;
  for (xylFusedPattern_t pattern : options.model.patterns)
    for (int tokens : options.model.tokens)
      for (bool fused : {true, false})
        if (fused ? options.model.fused : options.model.unfused)
          out.push_back({pattern, options.types.front(), static_cast<std::size_t>(tokens), fused, true, !is_chain});
  return out;
}

class layer_measurement {
 public:
  layer_measurement(perf_team& team, fused_layer& layer, int calls) : team_(team), layer_(layer), calls_(calls) {}
  result measure(const layer_call& what, layer_row& out);

 private:
  result check(const layer_call& what, const work& step, std::int64_t& wrong);
  result check_quantised_alone(layer_call what, std::int64_t& wrong);
  result wait() { return wait_for_work(team_, "xylAllReduceRMSNorm"); }

  perf_team& team_;
  fused_layer& layer_;
  int calls_;
};

result layer_measurement::check(const layer_call& what, const work& step, std::int64_t& wrong) {
  XYL_TRY(layer_.prepare(what));
  XYL_TRY(step());
  XYL_TRY(wait());
  fault_count faults;
  XYL_TRY(layer_.check(what, calls_, faults));
  team_.count_wrong(layer_.describe(what), faults, wrong);
  return {};
}

// After check(): the same data, and the norm is not written.
result layer_measurement::check_quantised_alone(layer_call what, std::int64_t& wrong) {
  what.writes_norm = false;
  XYL_TRY(layer_.clear_quantised(what));
  XYL_TRY(layer_.run(what));
  XYL_TRY(wait());
  fault_count faults;
  XYL_TRY(layer_.check(what, 1, faults));
  team_.count_wrong(layer_.describe(what), faults, wrong);
  return {};
}

result layer_measurement::measure(const layer_call& what, layer_row& out) {
  const perf_options& options = team_.options;
  const std::size_t hidden = static_cast<std::size_t>(options.model.hidden);
  out = {what.pattern, what.fused, what.tokens, what.tokens * hidden * info_of(what.type).size, calls_, 0, -1};
  const work calls = [&]() -> result {
    for (int i = 0; i < calls_; ++i) XYL_TRY(layer_.run(what));
    return {};
  };
  XYL_TRY(layer_.prepare(what));
  work step = calls;
  if (team_.own.front().memory->stream()) XYL_TRY(record_graph(team_, calls, step));
  if (options.checks > 0) out.wrong = 0;
  for (int i = 0; i < options.checks; ++i) {
    XYL_TRY(check(what, step, out.wrong));
    if (quantises(what.pattern) && what.keeps_residual) XYL_TRY(check_quantised_alone(what, out.wrong));
  }
  const auto steps = [&](int times) -> result {
    for (int i = 0; i < times; ++i) XYL_TRY(step());
    return {};
  };
  XYL_TRY(steps(options.warmup_iterations));
  XYL_TRY(wait());
  int iterations = options.iterations;
  if (iterations == 0)
    XYL_TRY(choose_repeats(team_, steps, what.keeps_residual ? 20'000 / calls_ : most_steps, iterations));
  std::vector<double> times;
  for (int i = 0; i < options.repetitions; ++i) {
    double seconds = 0;
    XYL_TRY(layer_.prepare(what));
    XYL_TRY(time_once(
        team_, [&] { return steps(iterations); }, seconds));
    XYL_TRY(wait());
    times.push_back(seconds / iterations);
  }
  out.seconds = median(std::move(times));
  return {};
}

result layer_task::run(perf_team& team, std::ofstream& csv) {
  const model_options& model = team.options.model;
  fused_layer layer(team, static_cast<std::size_t>(model.hidden), model.gemma_style, model.fp32_weight);
  XYL_TRY(layer.allocate(team.options.types.front(),
                         static_cast<std::size_t>(*std::max_element(model.tokens.begin(), model.tokens.end()))));
  const int calls = team.options.collective == "decode" ? 2 * model.layers
                    : team.own.front().memory->stream() ? calls_in_graph
                                                        : 1;
  layer_measurement measuring(team, layer, calls);
  XYL_TRY(fill_table(
      team, report_, report_.rows, plan(team.options), csv,
      [&](const layer_call& what, layer_row& row) { return measuring.measure(what, row); },
      [&](const layer_call& what) { return layer.describe(what); }));
  return team.release();
}

}  // namespace

std::unique_ptr<perf_task> make_layer_task() { return std::make_unique<layer_task>(); }

}  // namespace xyl
