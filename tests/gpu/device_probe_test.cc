// SPDX-License-Identifier: BSD-3-Clause
//
// The probe and the measured thresholds on GPUs, through the ABI: what is measured and how long it takes, what is
// kept, and that faults planted in a helper keep communicators off device memory, with the reason. An MPI program
// (mpirun -np N tests/device_probe_test [FOLDER], at the top of a build, or with the FOLDER of xylem-probe); rank r
// uses device r % devices. Exit 77 without a GPU, 1 with a failure.
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/gpu/mpi_program.hpp"
#include "xylem/xylem_mpi.h"

namespace xyl::gpu_test {
namespace {

using nlohmann::json;

std::string folder;

// A communicator made in an environment, what it says of itself, and whether its sums are right.
class trial {
 public:
  trial(const char* name, const std::vector<std::pair<const char*, std::string>>& environment) : name_(name) {
    for (const auto& [variable, value] : environment) ::setenv(variable, value.c_str(), 1);
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    const xylResult_t code = xylCommInitMPI(&comm_, MPI_COMM_WORLD);
    seconds_ = MPI_Wtime() - began;
    for (const auto& [variable, value] : environment) ::unsetenv(variable);
    if (code != xylSuccess) {
      std::fprintf(stderr, "rank %d: %s: %s\n", rank_, name, xylGetLastError(nullptr));
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    std::size_t length = 0;
    xylCommDescribe(comm_, nullptr, &length);
    std::string text(length, '\0');
    xylCommDescribe(comm_, text.data(), &length);
    description = json::parse(text.c_str(), nullptr, false);
    expect(description.is_object(), "%s: the description is no JSON", name);
    int device = -1;
    xylCommDevice(comm_, &device);
    on_device = device >= 0;
    check_sum(false);
    if (on_device) check_sum(true);
    expect(cudaGetLastError() == cudaSuccess, "%s: an error of CUDA is left", name);
    if (rank_ == 0)
      std::printf("%-28s made in %.2f s, %s device memory\n", name, seconds_, on_device ? "with" : "without");
  }
  ~trial() {
    xylCommDestroy(comm_);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  trial(const trial&) = delete;

  const json& probe() const { return description["probe"]; }
  std::string notes() const { return description["notes"].dump(); }
  json description;
  bool on_device = false;

 private:
  void check_sum(bool on_gpu) {
    for (const std::size_t count : {std::size_t{1000}, std::size_t{300'000}}) {
      std::vector<float> host(count, static_cast<float>(rank_ + 1));
      void* data = host.data();
      if (on_gpu) {
        must(cudaMalloc(&data, count * sizeof(float)), "cudaMalloc");
        must(cudaMemcpy(data, host.data(), count * sizeof(float), cudaMemcpyHostToDevice), "copy in");
      }
      const xylResult_t code = xylAllReduce(data, data, count, xylFloat32, xylSum, comm_, nullptr);
      expect(code == xylSuccess, "%s: allreduce: %s", name_, xylGetLastError(comm_));
      if (on_gpu) {
        must(cudaMemcpy(host.data(), data, count * sizeof(float), cudaMemcpyDeviceToHost), "copy out");
        must(cudaFree(data), "cudaFree");
      }
      std::size_t wrong = 0;
      for (float x : host) wrong += x != static_cast<float>(ranks_ * (ranks_ + 1)) / 2;
      expect(wrong == 0, "%s: %zu of %zu sums in %s memory are wrong", name_, wrong, count,
             on_gpu ? "device" : "host");
    }
  }

  const char* name_;
  xylComm_t comm_ = nullptr;
  double seconds_ = 0;
};

std::string helper(const char* name) { return folder + "/" + name; }

void print_probe(const json& p) {
  if (rank_ != 0) return;
  std::printf("  probe: %.3f s; GPUs %s\n", p.value("seconds", 0.0), p["gpus"].dump().c_str());
  for (const json& one : p["pairs"])
    std::printf(
        "  %2d -> %2d  %s/%s  push %7.1f  pull %7.1f GB/s  flag %6.2f us  together %7.1f/%7.1f  across "
        "%7.1f/%7.1f\n",
        one["from"].get<int>(), one["to"].get<int>(), one["writes"].get<std::string>().c_str(),
        one["reads"].get<std::string>().c_str(), one.value("push", 0.0), one.value("pull", 0.0),
        one.value("flag_us", 0.0), one.value("push_together", 0.0), one.value("pull_together", 0.0),
        one.value("push_across", 0.0), one.value("pull_across", 0.0));
  for (const json& one : p["staging"]) std::printf("  host memory: %s\n", one.dump().c_str());
  for (const char* key : {"write_collapse", "read_collapse", "both_ways"})
    if (p.contains(key)) std::printf("  %s: %.3f\n", key, p[key].get<double>());
  for (const json& problem : p["problems"]) std::printf("  problem: %s\n", problem.dump().c_str());
  for (const json& finding : p["findings"]) std::printf("  finding: %s\n", finding.dump().c_str());
}

void measures() {
  const trial t("XYLEM_PROBE=always", {{"XYLEM_PROBE", "always"}, {"XYLEM_PROBE_HELPER", helper("xylem-probe")}});
  const json& p = t.probe();
  expect(p.is_object(), "there is no probe");
  if (!p.is_object()) return;
  print_probe(p);
  expect(t.on_device, "no device memory after a good probe: %s", t.notes().c_str());
  expect(t.description["device_paths"]["workspaces"] == "device memory", "staged after a good probe: %s",
         t.description["device_paths"].dump().c_str());
  expect(p["problems"].empty(), "problems");
  const std::size_t gpus = p["gpus"].size();
  expect(gpus == static_cast<std::size_t>(std::min(devices_, ranks_)), "%zu GPUs", gpus);
  std::size_t between = 0;
  for (const json& one : p["pairs"]) {
    between += one["from"] != one["to"];
    expect(one["writes"] == "good" && one["reads"] == "good", "pair %s", one.dump().c_str());
    expect(one.value("push", 0.0) > 0.1 && one.value("push", 0.0) < 20'000, "push of %s", one.dump().c_str());
    expect(one.value("pull", 0.0) > 0.1 && one.value("pull", 0.0) < 20'000, "pull of %s", one.dump().c_str());
    // Ranks that share a GPU without MPS wait for their turn, and may have waited too long.
    if (one["from"] != one["to"])
      expect(one.value("flag_us", 0.0) > 0.05 && one.value("flag_us", 0.0) < 100, "flag of %s", one.dump().c_str());
  }
  expect(between == gpus * (gpus - 1), "%zu pairs of %zu GPUs", between, gpus);
  expect(p.value("seconds", 99.0) < 5, "the probe took %.2f s", p.value("seconds", 99.0));
}

// auto: where there are two GPUs, and only once.
void keeps() {
  const std::string cache =
      (std::filesystem::temp_directory_path() / "device_probe_test").string() + "." + std::to_string(::getuid());
  if (rank_ == 0) std::filesystem::remove_all(cache);
  MPI_Barrier(MPI_COMM_WORLD);
  const std::vector<std::pair<const char*, std::string>> environment = {
      {"XDG_CACHE_HOME", cache}, {"XYLEM_PROBE_HELPER", helper("xylem-probe")}};
  const bool several = std::min(devices_, ranks_) > 1;
  {
    const trial t("auto, nothing kept", environment);
    expect(t.probe().is_object() == several, "a probe with %d GPUs", devices_);
    if (several && t.probe().is_object()) expect(!t.probe()["kept_from_earlier"], "kept from nowhere");
    expect(t.on_device, "no device memory: %s", t.notes().c_str());
  }
  {
    const trial t("auto, kept", environment);
    expect(t.probe().is_object() == several, "a probe with %d GPUs", devices_);
    if (several && t.probe().is_object()) expect(t.probe()["kept_from_earlier"], "not kept: %s", t.notes().c_str());
    expect(t.on_device, "no device memory: %s", t.notes().c_str());
  }
  auto tuning = environment;
  tuning.push_back({"XYLEM_TUNE", "missing"});
  for (const char* name : {"XYLEM_TUNE=missing", "XYLEM_TUNE=missing, again"}) {
    const trial t(name, tuning);
    const json& times = t.description["measured_times"]["allreduce"];
    expect(times.is_array() == (ranks_ > 1), "measured times: %s", times.dump().c_str());
    if (!times.is_array() || ranks_ == 1) continue;
    expect(t.description["device_memory"]["from"] == "measured on this machine", "thresholds are from %s",
           t.description["device_memory"]["from"].dump().c_str());
    if (rank_ != 0) continue;
    std::printf("  thresholds %s\n", t.description["device_memory"]["allreduce"].dump().c_str());
    if (name != std::string("XYLEM_TUNE=missing")) continue;
    for (const json& one : times)
      std::printf("  %-14s %9lld bytes: measured %9.2f us, predicted %9.2f us\n",
                  one["algorithm"].get<std::string>().c_str(), one["bytes"].get<long long>(),
                  one["measured_us"].get<double>(), one.value("predicted_us", 0.0));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) std::filesystem::remove_all(cache);
}

void refuses() {
  const auto with_fault = [](const char* name, const char* program, const char* fault, const char* says) {
    const trial t(name,
                  {{"XYLEM_PROBE", "always"}, {"XYLEM_PROBE_HELPER", helper(program)}, {"FAULTY_PROBE", fault}});
    // Over host memory, if that works, and never straight.
    const json& paths = t.description["device_paths"];
    const std::string why = t.on_device ? paths["because"].dump() : t.notes();
    expect(!t.on_device || paths["workspaces"] == "host memory", "%s: device memory is used straight", name);
    expect(why.find(says) != std::string::npos, "%s: it is not said that \"%s\": %s", name, says, why.c_str());
    if (rank_ == 0 && t.probe().is_object()) std::printf("  findings: %s\n", t.probe()["findings"].dump().c_str());
  };
  with_fault("no helper", "no-such-program", "slow:99:99", "no-such-program");
  with_fault("writes dropped", "tests/faulty_probe", "dropped:0:1", "does not arrive");
  with_fault("wrong data", "tests/faulty_probe", "wrong:1:0", "wrong data");
  with_fault("an access never ends", "tests/faulty_probe", "silent:1:0", "never end");
  with_fault("a helper hangs", "tests/faulty_probe", "stuck:1:0", "could not be proven");
  with_fault("a helper dies", "tests/faulty_probe", "dies:0:1", "could not be proven");
  with_fault("exclusive compute mode", "tests/faulty_probe", "refused:0:0", "exclusive compute mode");
  const trial t("XYLEM_PROBE=never", {{"XYLEM_PROBE", "never"}, {"XYLEM_PROBE_HELPER", "/no/such/program"}});
  expect(t.on_device, "no device memory: %s", t.notes().c_str());
  expect(t.description["device_paths"]["workspaces"] == "device memory", "staged without a probe: %s",
         t.description["device_paths"].dump().c_str());
  expect(t.probe().is_null(), "a probe");
}

}  // namespace
}  // namespace xyl::gpu_test

int main(int argc, char** argv) {
  using namespace xyl::gpu_test;
  constexpr int least_ranks = 2;
  folder = argc > 1 ? argv[1] : std::filesystem::current_path().string();
  return mpi_program(
      argc, argv,
      [] {
        measures();
        keeps();
        refuses();
      },
      least_ranks);
}
