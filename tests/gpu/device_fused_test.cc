// SPDX-License-Identifier: BSD-3-Clause
//
// The fused allreduce on GPUs, bit for bit against the same call on host memory, which has tests of its own: every
// pattern, type, form, number of blocks to a row, with clusters and without; then through the ABI, eagerly and in a
// graph. An MPI program of two ranks or more; several may share a GPU. Exits with 1 if anything was wrong, 77
// without a GPU.
#include "tests/gpu/checked_call.hpp"
#include "tests/gpu/fused_device.hpp"
#include "tests/gpu/graph.hpp"
#include "tests/gpu/mpi_communicator.hpp"

namespace xyl::gpu_test {
namespace {

using test::fused_case;
using test::fused_data;

cudaStream_t stream;

std::string describe(const fused_case& f, const wished_shape& s) {
  return "pattern " + std::to_string(static_cast<int>(f.pattern)) + ", " + std::to_string(f.tokens) + " x " +
         std::to_string(f.hidden) + ", form " + std::to_string(static_cast<int>(s.form)) + ", blocks of a row " +
         std::to_string(s.split) + (s.clusters ? ", clusters" : ", lines") + (f.in_place ? ", in place" : "") +
         (f.residual_sharded ? ", sharded" : "") + (f.experts ? ", experts" : "") + (f.gemma ? ", gemma" : "");
}

// This rank's buffers after the call on host memory.
template <class T>
fused_data<T> host_result(const fused_case& f, int rank, int ranks) {
  fused_data<T> d(f, rank, ranks);
  must(test::fused_call(d)(comm), "the call on host memory");
  return d;
}

template <class T>
void compare(const fused_data<T>& got, const fused_data<T>& host, const std::string& what) {
  expect(got.same_outputs(host), "rank %d, type %d: %s: not the host's bits", got.rank, test::code_of<T>(),
         what.c_str());
  // The same rank's: also where residuals are its own rows alone.
  expect(got.residual_out.size() == 0 || got.residual_rows() == host.residual_rows(),
         "rank %d, type %d: %s: not the host's residual", got.rank, test::code_of<T>(), what.c_str());
  const std::string touched = got.check_untouched();
  expect(touched.empty(), "rank %d: %s: %s", got.rank, what.c_str(), touched.c_str());
}

int launched = 0;

constexpr algorithm first_steps[] = {algorithm::two_shot_packet, algorithm::one_shot, algorithm::two_shot};

template <class T>
void in_two_steps(device_rank& r, fused_device& device, const fused_case& f, const fused_data<T>& host) {
  for (const algorithm first : first_steps) {
    fused_data<T> d(f, r.rank(), r.ranks());
    const device_copy at(d);
    if (!device(first, d, at, stream)) continue;
    ++launched;
    const std::string what = describe(f, {}) + ", in two steps, " + name_of(first);
    must(cudaStreamSynchronize(stream), what.c_str());
    at.copy_back();
    compare(d, host, what);
    expect(r.poisoned() == 0, "%s: poisoned", what.c_str());
  }
}

template <class T>
void every_shape(device_rank& r, const fused_case& f, std::initializer_list<unsigned> splits) {
  fused_device device(r);
  const fused_data<T> host = host_result<T>(f, r.rank(), r.ranks());
  if (f.hidden <= 512 && r.rank() == 0) {
    const std::string wrong = host.check();
    expect(wrong.empty(), "host: %s", wrong.c_str());
  }
  in_two_steps(r, device, f, host);
  for (const fused_form form : {fused_form::packet, fused_form::two_shot_packet, fused_form::one_shot,
                                fused_form::two_shot_slices, fused_form::two_shot, fused_form::one_shot_pull}) {
    if (f.residual_sharded && !uses_shares(form)) continue;
    for (const bool clusters : {true, false}) {
      if (clusters && !device.limits().has_clusters()) continue;
      for (const unsigned split : splits) {
        const wished_shape wish{form, split, clusters};
        fused_data<T> d(f, r.rank(), r.ranks());
        const device_copy at(d);
        // What the last call left there is overwritten at once: its readers must have been waited for.
        if (pulls(form) && device.can_pull() && d.input.size() <= fused_device::most_input)
          device.bring_input(d, at, stream);
        if (!device(wish, d, at, stream)) continue;
        ++launched;
        if (pulls(form) && f.in_place) device.bring_input(d, at, stream, true);
        must(cudaStreamSynchronize(stream), describe(f, wish).c_str());
        at.copy_back();
        compare(d, host, describe(f, wish));
        expect(r.poisoned() == 0, "%s: poisoned", describe(f, wish).c_str());
      }
    }
  }
}

void every_pattern(device_rank& r) {
  std::uint64_t seed = 1;
  for (int pattern = xylFusedAllReduce; pattern <= xylFusedNvfp4Swizzled128x4; ++pattern)
    for (const unsigned hidden : {128u, 2880u, 7168u, 16384u}) {
      fused_case f;
      f.pattern = static_cast<fused_pattern>(pattern);
      if (f.pattern == fused_pattern::fp8_per_group && hidden % 128 != 0) continue;
      f.hidden = hidden;
      f.tokens = hidden == 16384 ? 2 : 5;
      f.seed = ++seed;
      f.gemma = seed % 2;
      f.weight_is_float = seed % 3 == 0;
      f.in_place = seed % 4 == 0;
      f.with_residual = seed % 5 != 0;
      every_shape<bfloat16>(r, f, {0, 1, 2, 3, 7, 8});
      every_shape<float16>(r, f, {0, 4});
      if (!is_nvfp4(f.pattern)) every_shape<float>(r, f, {0, 2, 8});
      if (pattern == xylFusedAllReduce) continue;
      f.residual_sharded = true;
      every_shape<bfloat16>(r, f, {0, 2});
      f.with_output = !quantises(f.pattern);
      every_shape<bfloat16>(r, f, {0, 2});
    }
}

void odd_shapes(device_rank& r) {
  for (const unsigned hidden : {8u, 16u, 24u, 120u, 1032u, 6144u})
    for (const std::uint64_t tokens : {0ull, 1ull, 3ull, 33ull}) {
      fused_case f;
      f.hidden = hidden;
      f.tokens = tokens;
      f.seed = hidden + tokens;
      every_shape<bfloat16>(r, f, {0, 1, 2});
      f.pattern = fused_pattern::fp8_per_token;
      every_shape<float16>(r, f, {0, 2});
    }
}

void many_rows(device_rank& r) {
  fused_case f;
  f.hidden = 1024;
  f.tokens = 1500;
  f.pattern = fused_pattern::fp8_per_token;
  every_shape<bfloat16>(r, f, {0, 1, 2});
}

void mixtures(device_rank& r) {
  for (const bool table : {true, false}) {
    fused_case f;
    f.hidden = 2880;
    f.tokens = 4;
    f.experts = 8;
    f.expert_table = table;
    f.pattern = fused_pattern::nvfp4_linear;
    every_shape<bfloat16>(r, f, {0, 1, 2});
  }
}

// The library's own choices, one call after the other, then the same ones in a graph that is launched three times.
void through_the_abi(int rank, int ranks) {
  std::vector<fused_case> cases;
  for (const std::uint64_t tokens : {1ull, 8ull, 40ull, 300ull})
    for (const fused_pattern pattern :
         {fused_pattern::all_reduce, fused_pattern::norm, fused_pattern::fp8_per_token}) {
      fused_case f;
      f.hidden = 7168;
      f.tokens = tokens;
      f.pattern = pattern;
      f.seed = tokens;
      cases.push_back(f);
    }
  std::vector<fused_data<bfloat16>> host, data;
  for (const fused_case& f : cases) host.push_back(host_result<bfloat16>(f, rank, ranks));
  for (const fused_case& f : cases) data.emplace_back(f, rank, ranks);
  std::vector<std::unique_ptr<device_copy>> at;
  for (auto& d : data) at.push_back(std::make_unique<device_copy>(d));
  const auto call_all = [&] {
    for (std::size_t i = 0; i < data.size(); ++i)
      must(test::fused_call(data[i], [&](std::byte* p) { return (*at[i])(p); })(comm, stream),
           "the call on device memory");
  };
  const auto check_all = [&](const char* how) {
    must(cudaStreamSynchronize(stream), how);
    xylResult_t state = xylSuccess;
    must(xylCommGetAsyncError(comm, &state), "xylCommGetAsyncError");
    expect(state == xylSuccess, "rank %d, %s: %s", rank, how, xylGetErrorString(state));
    for (std::size_t i = 0; i < data.size(); ++i) {
      at[i]->copy_back();
      compare(data[i], host[i], describe(cases[i], {}) + ", " + how);
    }
  };
  call_all();
  check_all("through the ABI");
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = fused_data<bfloat16>(cases[i], rank, ranks);
  at.clear();
  for (auto& d : data) at.push_back(std::make_unique<device_copy>(d));
  replay(stream, 3, call_all);
  check_all("in a graph");
}

void run_all() {
  must(xylCommInitMPI(&comm, MPI_COMM_WORLD), "xylCommInitMPI");
  {
    device_rank r;
    step("every pattern", [&] { every_pattern(r); });
    step("odd shapes", [&] { odd_shapes(r); });
    step("many rows", [&] { many_rows(r); });
    step("mixtures of experts", [&] { mixtures(r); });
  }
  step("through the ABI", [&] { through_the_abi(rank_, ranks_); });
  expect(launched > 200, "only %d shapes could be launched", launched);
  destroy_communicator();
  if (rank_ == 0) std::printf("%d shapes\n", launched);
}

}  // namespace
}  // namespace xyl::gpu_test

int main(int argc, char** argv) {
  using namespace xyl::gpu_test;
  return mpi_program(argc, argv, [] {
    stream = new_stream();
    run_all();
  });
}
