// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf_flags.hpp"

namespace xyl {

// CLI11 first asks the validator for a complaint ("" = none), then hands the text to the function, which has
// nothing left to do.
CLI::Option* add_flag(CLI::App& app, const char* flags, const char* help, std::string allowed, const char* shape,
                      flag_reader read) {
  return app
      .add_option_function<std::string>(
          flags, [](const std::string&) {}, help)
      ->type_name(shape)
      ->check(CLI::Validator(
          [read = std::move(read), allowed = std::move(allowed)](std::string& text) {
            return read(text) ? std::string() : "\"" + text + "\" is not " + allowed;
          },
          ""));
}

CLI::Option* add_count(CLI::App& app, const char* flags, const char* help, int least, int most, int& out) {
  return add_flag(
      app, flags, help, format_text("a whole number from %d to %d", least, most), "NUMBER",
      [=, &out](const std::string& text) {
        const std::optional<std::uint64_t> value = parse_count(text);
        if (!value || *value < static_cast<std::uint64_t>(least) || *value > static_cast<std::uint64_t>(most))
          return false;
        out = static_cast<int>(*value);
        return true;
      });
}

CLI::Option* add_size(CLI::App& app, const char* flags, const char* help, std::uint64_t& out) {
  return add_flag(app, flags, help, "a size from 1 to 1024G (bytes, with an optional suffix K, M or G)", "SIZE",
                  [&out](const std::string& text) {
                    const std::optional<std::uint64_t> value = parse_size(text);
                    if (!value || *value < 1 || *value > largest_message) return false;
                    out = *value;
                    return true;
                  });
}

void add_common_flags(CLI::App& app, perf_options& out) {
  add_count(app, "-n,--iters", "Calls between two clock readings (default: enough for the clock)", 1, 1'000'000,
            out.iterations);
  add_count(app, "-w,--warmup_iters", "Calls before the first clock reading (default 5)", 0, 1'000'000,
            out.warmup_iterations);
  add_count(app, "-t,--nthreads", "Threads of each process (default 1)", 1, 256, out.threads);
  add_count(app, "-g,--ngpus", "Ranks that each thread drives (default 1)", 1, 256, out.ranks_per_thread);
  add_count(app, "--repetitions", "Measurements per line, of which the median is shown (default 5)", 1, 10'000,
            out.repetitions);
  add_count(app, "-R,--local_register",
            "Register the buffers (of a layer: input and output), so that peers use them in place: 0 for no "
            "(default), 1 or 2 for yes",
            0, 2, out.registration);
  add_count(app, "-c,--check", "Checked calls per line and placement, 0 for none (default 1)", 0, 1000, out.checks);
  add_flag(app, "--memory", "Where the buffers are: device if every rank has one, else host (default auto)",
           "host, device or auto", "KIND", [&out](const std::string& text) {
             if (equal_ignoring_case(text, "host"))
               out.memory = memory_choice::host;
             else if (equal_ignoring_case(text, "device"))
               out.memory = memory_choice::device;
             else if (equal_ignoring_case(text, "auto"))
               out.memory = memory_choice::automatic;
             else
               return false;
             return true;
           });
  app.add_option("--json", out.json_file, "Write everything to this file as JSON")->type_name("FILE");
  app.add_option("--csv", out.csv_file, "Write the lines to this file as comma-separated values")
      ->type_name("FILE");
}

}  // namespace xyl
