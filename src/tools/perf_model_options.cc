// SPDX-License-Identifier: BSD-3-Clause
//
// The options of `decode` and `fused`.
#include <algorithm>

#include "tools/perf_flags.hpp"
#include "tools/perf_types.hpp"

namespace xyl {
namespace {

constexpr int most_hidden = 16384;
constexpr int most_tokens = 65536;

struct seen_flags {
  CLI::Option *layers, *hidden, *type, *pattern, *fused, *unfused;
};

// Numbers with commas between them.
bool read_tokens(const std::string& text, std::vector<int>& out) {
  std::vector<int> read;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::optional<std::uint64_t> value = parse_count(std::string_view(text).substr(begin, end - begin));
    if (!value || *value < 1 || *value > most_tokens) return false;
    read.push_back(static_cast<int>(*value));
    if (end == text.size()) break;
    begin = end + 1;
  }
  out = std::move(read);
  return true;
}

std::string preset_list() {
  std::string text;
  for (const model_preset& p : model_presets())
    text += format_text("%s%s (%d layers, hidden %d)", text.empty() ? "" : " or ", p.name, p.layers, p.hidden);
  return text;
}

seen_flags add_flags(CLI::App& app, perf_options& out, bool has_layers) {
  seen_flags seen{};
  model_options& model = out.model;
  const static std::string presets = preset_list();
  add_flag(app, "--preset", "Layers and hidden size of a model", presets, "MODEL",
           [&model](const std::string& text) {
             for (const model_preset& p : model_presets())
               if (equal_ignoring_case(text, p.name)) return model.preset = p.name, true;
             return false;
           });
  if (has_layers)
    seen.layers =
        add_count(app, "--layers", "Layers, of two allreduces each (default 61)", 1, 10'000, model.layers);
  seen.hidden = add_count(app, "--hidden", "Elements of a token's row, a multiple of 8 (default 7168)", 8,
                          most_hidden, model.hidden);
  add_flag(app, "--tokens", "Numbers of tokens, a line each (default 1,2,4,8,16,32)",
           format_text("numbers from 1 to %d with commas between them", most_tokens), "LIST",
           [&model](const std::string& text) { return read_tokens(text, model.tokens); });
  seen.type = add_flag(app, "-d,--datatype,--type", "half, bfloat16 (default) or float", "half, bfloat16 or float",
                       "TYPE", [&out](const std::string& text) {
                         const std::optional<xylDataType_t> type = type_named(text);
                         if (type != xylFloat16 && type != xylBfloat16 && type != xylFloat32) return false;
                         out.types = {*type};
                         return true;
                       });
  seen.pattern =
      add_names(app, "--pattern",
                has_layers ? "What follows the sum (default rmsnorm)" : "What follows the sum, or all (default)",
                pattern_list(), "PATTERN", &pattern_info::pattern, all_patterns(), pattern_named, model.patterns);
  seen.fused = app.add_flag("--fused")->description("Measure xylAllReduceRMSNorm");
  seen.unfused =
      app.add_flag("--unfused")->description("Measure xylAllReduce and a separate kernel for residual and norm");
  app.add_flag("--gemma", model.gemma_style, "The norm's weight is 1 + weight");
  app.add_flag("--fp32-weight", model.fp32_weight, "The norm's weight is fp32, whatever the type");
  add_common_flags(app, out);
  return seen;
}

// Why a pattern does not go with hidden size or type; "" if it does.
std::string objection(xylFusedPattern_t pattern, const perf_options& options) {
  const pattern_info& info = info_of(pattern);
  if (options.model.hidden % static_cast<int>(info.hidden_multiple) != 0)
    return format_text("--hidden %d is no multiple of %zu, as pattern %s needs it", options.model.hidden,
                       info.hidden_multiple, info.name);
  if (is_nvfp4(pattern) && options.types.front() == xylFloat32) return "NVFP4 is made of half and bfloat16 only";
  return "";
}

std::string find_contradiction(const seen_flags& seen, perf_options& out, bool is_fused_by_default) {
  model_options& model = out.model;
  for (const model_preset& p : model_presets()) {
    if (model.preset != p.name) continue;
    if (!seen.layers || !seen.layers->count()) model.layers = p.layers;
    if (!seen.hidden->count()) model.hidden = p.hidden;
  }
  if (!seen.type->count()) out.types = {xylBfloat16};
  if (is_fused_by_default && !seen.pattern->count()) {
    model.patterns.clear();
    for (const pattern_info& p : all_patterns()) model.patterns.push_back(p.pattern);
  }
  const bool wants_fused = seen.fused->count() > 0;
  const bool wants_unfused = seen.unfused->count() > 0;
  const bool quantised =
      std::any_of(model.patterns.begin(), model.patterns.end(), [](xylFusedPattern_t p) { return quantises(p); });
  const bool has_unfused = !is_fused_by_default && !quantised;
  model.fused = wants_fused || !wants_unfused;
  model.unfused = wants_unfused || (!wants_fused && has_unfused);
  if (wants_unfused && quantised)
    return "--unfused has no separate kernel that quantises; give --pattern rmsnorm or allreduce";
  if (model.hidden % 8 != 0) return format_text("--hidden %d is no multiple of 8", model.hidden);
  // One pattern has to suit; of all of them those that do are measured.
  if (model.patterns.size() == 1) return objection(model.patterns.front(), out);
  std::erase_if(model.patterns, [&](xylFusedPattern_t p) { return !objection(p, out).empty(); });
  return "";
}

}  // namespace

contradiction add_decode_flags(CLI::App& app, perf_options& out) {
  const seen_flags seen = add_flags(app, out, true);
  return [seen, &out] { return find_contradiction(seen, out, false); };
}

contradiction add_fused_flags(CLI::App& app, perf_options& out) {
  const seen_flags seen = add_flags(app, out, false);
  return [seen, &out] {
    out.model.layers = 1;
    return find_contradiction(seen, out, true);
  };
}

}  // namespace xyl
