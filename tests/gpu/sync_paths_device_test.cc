// SPDX-License-Identifier: BSD-3-Clause
//
// How communicators on GPUs choose their sync path: with nothing planted, with paths that never complete, are slow
// or lose bits, and with every path forced by XYLEM_SYNC; each followed by allreduces whose every element is
// checked. An MPI program; several ranks may share a GPU. Exits with 1 if anything was wrong, 77 without a GPU.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "tests/gpu/mpi_program.hpp"
#include "tests/gpu/planted_trial.hpp"

namespace {
bool uses_planted = false;
}

// See the linker's --wrap: the library's call of trial_kernel() comes here.
extern "C" xyl::kernel __real__ZN3xyl12trial_kernelEv();
extern "C" xyl::kernel __wrap__ZN3xyl12trial_kernelEv();
xyl::kernel __wrap__ZN3xyl12trial_kernelEv() {
  return uses_planted ? xyl::gpu_test::planted_trial_kernel() : __real__ZN3xyl12trial_kernelEv();
}

namespace xyl::gpu_test {
namespace {

using nlohmann::json;

cudaStream_t stream;

struct made {
  std::unique_ptr<communicator> comm;
  result why;
  json sync;  // what the description says of devices
  std::string notes;
  double seconds = 0;
};

made make() {
  made m;
  const auto gather = [](const void* mine, void* all, std::size_t bytes) {
    return MPI_Allgather(mine, static_cast<int>(bytes), MPI_BYTE, all, static_cast<int>(bytes), MPI_BYTE,
                         MPI_COMM_WORLD);
  };
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = std::chrono::steady_clock::now();
  m.why = communicator::create(ranks_, rank_, gather, m.comm);
  m.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::string text;
  if (m.comm) {
    must(m.comm->describe(text).ok(), "describe");
    const json whole = json::parse(text, nullptr, false);
    m.sync = whole["synchronisation"]["device_memory"];
    m.notes = whole["notes"].dump();
  }
  return m;
}

const json& row(const made& m, const std::string& name) {
  static const json none = json::object();
  if (!m.sync.is_object()) return none;
  for (const json& one : m.sync["paths"])
    if (one.value("path", "") == name) return one;
  return none;
}

// Small integers, whose sums are exact in fp32, on all forms of an allreduce that the sizes lead to.
void all_reduce(communicator& comm, bool on_device, const char* what) {
  for (const std::size_t count : {1u, 1000u, 5000u, 20'000u, 150'000u, 400'000u})
    for (int times = 0; times < 3; ++times) {
      std::vector<float> values(count), got(count);
      for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<float>((i * 7 + static_cast<unsigned>(rank_ * 3 + times)) % 11);
      float *in = values.data(), *out = got.data();
      if (on_device) {
        must(cudaMalloc(reinterpret_cast<void**>(&in), count * 4), "cudaMalloc");
        must(cudaMalloc(reinterpret_cast<void**>(&out), count * 4), "cudaMalloc");
        must(cudaMemcpyAsync(in, values.data(), count * 4, cudaMemcpyHostToDevice, stream), "copy in");
      }
      request r;
      r.what = collective::all_reduce;
      r.send = in;
      r.recv = out;
      r.count = count;
      r.type = xylFloat32;
      r.op = xylSum;
      r.stream = stream;
      const result called = comm.collect(r);
      expect(called.ok(), "%s: allreduce of %zu: %s", what, count, called.text().c_str());
      if (on_device) {
        must(cudaMemcpyAsync(got.data(), out, count * 4, cudaMemcpyDeviceToHost, stream), "copy out");
        must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        must(cudaFree(in), "cudaFree");
        must(cudaFree(out), "cudaFree");
      }
      std::size_t wrong = 0, first = 0;
      for (std::size_t i = 0; i < count; ++i) {
        float want = 0;
        for (int p = 0; p < ranks_; ++p)
          want += static_cast<float>((i * 7 + static_cast<unsigned>(p * 3 + times)) % 11);
        if (got[i] != want && wrong++ == 0) first = i;
      }
      expect(wrong == 0, "%s: allreduce of %zu: %zu wrong from element %zu", what, count, wrong, first);
      if (!called.ok()) return;
    }
}

std::string text_of(const json& sync) {
  if (!sync.is_object()) return "no device\n";
  std::string text = "  packets " + sync["packets"].dump() + " (overlap " + sync["overlap_of_packets"].dump() +
                     "), flags " + sync["flags"].dump() + " (overlap " + sync["overlap_of_flags"].dump() + ")\n";
  for (const json& one : sync["paths"])
    text += "  " + one["path"].dump() + " trip " + one["trip_us"].dump() + " launch " + one["launch_us"].dump() +
            " allowed " + one["allowed"].dump() + " test " + one["self_test"].dump() + " why " + one["why"].dump() +
            "\n";
  return text;
}

struct scenario {
  const char* name;
  planted faults[sync_paths];  // ll, ll128, ll16, flag, flag-gpu, fence
  // What must come of it.
  bool has_device;
  bool has_packets;
  const char* bad_row;   // whose self-test must have failed, or which must not be chosen
  const char* says;      // its reason, or the note without a device
  bool is_good = false;  // the row is: its reason says what it is for
};

void run_planted(const scenario& s) {
  plant(s.faults);
  uses_planted = true;
  made m = make();
  uses_planted = false;
  must(m.comm != nullptr, s.name, m.why.text().c_str());
  if (rank_ == 0) std::printf("%s: %.0f ms\n%s", s.name, m.seconds * 1e3, text_of(m.sync).c_str());
  expect(m.seconds < 20, "%s: took %.1f s", s.name, m.seconds);
  expect((m.comm->device() >= 0) == s.has_device, "%s: device %d; %s", s.name, m.comm->device(), m.notes.c_str());
  if (s.has_device && m.sync.is_object()) {
    const json& bad = row(m, s.bad_row);
    const std::string all = bad.dump();
    expect(bad.value("chosen", !s.is_good) == s.is_good, "%s: %s is%s chosen: %s", s.name, s.bad_row,
           s.is_good ? " not" : "", all.c_str());
    const bool is_allowed = bad.value("allowed", "") == "yes";
    expect(!is_allowed || all.find(s.says) != std::string::npos, "%s: not said why: %s", s.name, all.c_str());
    if (!s.has_packets) expect(!m.sync["packets"].get<bool>(), "%s: packets are used", s.name);
  } else {
    expect(m.notes.find(s.says) != std::string::npos, "%s: not said why: %s", s.name, m.notes.c_str());
  }
  all_reduce(*m.comm, s.has_device, s.name);
  all_reduce(*m.comm, false, s.name);
}

void force(const std::string& name, bool fits) {
  // Only rank 0's environment counts.
  if (rank_ == 0) ::setenv("XYLEM_SYNC", name.c_str(), 1);
  made m = make();
  ::unsetenv("XYLEM_SYNC");
  if (!fits) {
    expect(m.why.code() == xylInvalidUsage && m.why.text().find("XYLEM_SYNC") != std::string::npos,
           "XYLEM_SYNC=%s: code %d: %s", name.c_str(), m.why.code(), m.why.text().c_str());
    return;
  }
  must(m.comm != nullptr, name.c_str(), m.why.text().c_str());
  expect(row(m, name).value("chosen", false), "XYLEM_SYNC=%s: %s", name.c_str(), row(m, name).dump().c_str());
  const std::string what = "XYLEM_SYNC=" + name;
  if (m.comm->device() >= 0) all_reduce(*m.comm, true, what.c_str());
}

// Workspaces in host memory: other paths are allowed, and none needs the peers' device memory.
void meet_in_host_memory() {
  if (rank_ == 0) ::setenv("XYLEM_P2P", "0", 1);
  made m = make();
  ::unsetenv("XYLEM_P2P");
  must(m.comm != nullptr, "XYLEM_P2P=0", m.why.text().c_str());
  if (rank_ == 0) std::printf("in host memory: %.0f ms\n%s", m.seconds * 1e3, text_of(m.sync).c_str());
  expect(m.comm->device() >= 0, "XYLEM_P2P=0: no device: %s", m.notes.c_str());
  for (const char* path : {"flag-gpu", "ll128"})
    expect(row(m, path).value("allowed", "yes") != "yes", "XYLEM_P2P=0: %s is allowed", path);
  const json& lines = row(m, "ll16");
  if (lines.value("allowed", "") == "yes")
    expect(lines.value("self_test", "") == "passed" && lines.value("chosen", false), "XYLEM_P2P=0: %s",
           lines.dump().c_str());
  if (m.comm->device() >= 0) all_reduce(*m.comm, true, "XYLEM_P2P=0");
}

void run() {
  constexpr planted no = planted::none;
  made first = make();
  must(first.comm != nullptr, "the first communicator", first.why.text().c_str());
  must(first.comm->device() >= 0, "no device:", first.notes.c_str());
  if (rank_ == 0) std::printf("nothing planted: %.0f ms\n%s", first.seconds * 1e3, text_of(first.sync).c_str());
  for (const json& one : first.sync["paths"])
    if (one.value("allowed", "") == "yes") expect(one.value("self_test", "") == "passed", "%s", one.dump().c_str());
  all_reduce(*first.comm, true, "nothing planted");
  const bool is_one_gpu = row(first, "flag-gpu").value("allowed", "") == "yes";
  const bool overlaps = row(first, "ll+pdl").value("allowed", "") == "yes";
  const bool has_lines = row(first, "ll128").value("allowed", "") == "yes";
  const bool has_short_lines = row(first, "ll16").value("allowed", "") == "yes";
  first = {};

  const scenario all[] = {
      {"the planted kernel without a fault",
       {no, no, no, no, no, no},
       true,
       true,
       "ll128",
       "some allreduces",
       has_lines},
      {"ll128 never completes", {no, planted::never, no, no, no, no}, true, true, "ll128", "had nothing of rank"},
      {"ll16 never completes", {no, no, planted::never, no, no, no}, true, true, "ll16", "had nothing of rank"},
      {"ll16 loses bits", {no, no, planted::corrupt, no, no, no}, true, true, "ll16", "where it had put"},
      {"flag never completes", {no, no, no, planted::never, no, no}, true, true, "flag", "had nothing of rank"},
      {"fence never completes", {no, no, no, no, no, planted::never}, true, true, "fence", "had nothing of rank"},
      {"fence loses bits", {no, no, no, no, no, planted::corrupt}, true, true, "fence", "where it had put"},
      {"flag is slow", {no, no, no, planted::slow, no, no}, true, true, "flag", "not so much faster"},
      {"ll is slow", {planted::slow, no, no, no, no, no}, true, false, "ll", "slower than plain flags"},
      {"no flag completes",
       {no, no, no, planted::never, planted::never, planted::never},
       false,
       true,
       "",
       "no way to post"},
      {"ll loses bits", {planted::corrupt, no, no, no, no, no}, false, true, "", "every call begins with"},
  };
  for (const scenario& s : all) run_planted(s);
  meet_in_host_memory();

  for (const char* path : {"ll", "flag", "flag-gpu", "fence"})
    for (const bool pdl : {false, true})
      force(std::string(path) + (pdl ? "+pdl" : ""),
            (is_one_gpu || std::strcmp(path, "flag-gpu") != 0) && (overlaps || !pdl));
  force("ll128", has_lines);
  force("ll16", has_short_lines);
  if (rank_ == 0) ::setenv("XYLEM_SYNC", "list", 1);
  made listed = make();
  ::unsetenv("XYLEM_SYNC");
  must(listed.comm != nullptr, "XYLEM_SYNC=list", listed.why.text().c_str());
}

}  // namespace
}  // namespace xyl::gpu_test

int main(int argc, char** argv) {
  using namespace xyl::gpu_test;
  constexpr int least_ranks = 2;
  return mpi_program(
      argc, argv,
      [] {
        stream = new_stream();
        run();
      },
      least_ranks);
}
