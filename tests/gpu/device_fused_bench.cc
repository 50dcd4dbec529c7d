// SPDX-License-Identifier: BSD-3-Clause
//
// Times of the fused kernels, for choosing shapes: bf16, residual + RMSNorm, in CUDA graphs of 50 calls, medians,
// in every form and number of blocks to a row, with clusters ("c") and with team lines ("l"); and the bare
// allreduce by packets beside it; forms that pull have registered inputs. Results are compared with those of the
// first shape. An MPI program; several ranks may share a GPU.
//
//   device_fused_bench [HIDDEN [MOST_TOKENS [PATTERN]]]    PATTERN: a number of xylFusedPattern_t
#include <cstdlib>

#include "tests/gpu/fused_device.hpp"
#include "tests/gpu/graph.hpp"

namespace xyl::gpu_test {
namespace {

constexpr int calls = 50, repetitions = 9;

int run(unsigned hidden, std::uint64_t most_tokens, fused_pattern pattern) {
  device_rank r;
  fused_device device(r);
  cudaStream_t stream;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  int wrong = 0;
  constexpr const char* names[] = {"packet", "2packet", "oneshot", "twoshot", "1pull"};
  if (r.rank() == 0)
    std::printf("# ranks %d, hidden %u, pattern %d, at most %u, %u, %u blocks, us per call\n", r.ranks(), hidden,
                static_cast<int>(pattern), device.limits().blocks[0], device.limits().blocks[1],
                device.limits().blocks[2]);
  for (std::uint64_t tokens = 1; tokens <= most_tokens; tokens *= 2) {
    test::fused_case f;
    f.pattern = pattern;
    f.hidden = hidden;
    f.tokens = tokens;
    test::fused_data<bfloat16> first(f, r.rank(), r.ranks());
    bool has_first = false;
    if (r.rank() == 0) std::printf("%llu tokens", static_cast<unsigned long long>(tokens));
    if (const std::uint64_t count = tokens * hidden; count * 2 <= r.capacity(algorithm::packet)) {
      test::fused_data<bfloat16> d(f, r.rank(), r.ranks());
      const device_copy at(d);
      const unsigned blocks =
          static_cast<unsigned>(std::min<std::uint64_t>(r.most_blocks(), (count * 2 + 1023) / 1024));
      const double us = time_in_graph(stream, calls, repetitions, [&] {
        r.all_reduce(algorithm::packet, blocks, at(d.input.raw()), at(d.output.raw()), count, 2, xylBfloat16,
                     xylSum, stream);
      });
      if (r.rank() == 0) std::printf("  bare %.2f", us);
    }
    for (const fused_form form : {fused_form::packet, fused_form::two_shot_packet, fused_form::one_shot,
                                  fused_form::two_shot_slices, fused_form::two_shot, fused_form::one_shot_pull}) {
      if (r.rank() == 0) std::printf("\n  %-8s", names[static_cast<int>(form)]);
      for (const bool clusters : {true, false}) {
        if (clusters && !device.limits().has_clusters()) continue;
        for (unsigned split = 0; split <= most_blocks_of_row; ++split) {
          test::fused_data<bfloat16> d(f, r.rank(), r.ranks());
          const device_copy at(d);
          const wished_shape wish{form, split, clusters};
          if (pulls(form) && device.can_pull() && d.input.size() <= fused_device::most_input)
            device.bring_input(d, at, stream);
          if ((split == 1 && !clusters && device.limits().has_clusters()) || !device(wish, d, at, stream)) continue;
          must(cudaStreamSynchronize(stream), "synchronise");
          const double us = time_in_graph(stream, calls, repetitions, [&] { (void)device(wish, d, at, stream); });
          at.copy_back();
          if (!has_first) first = d;
          has_first = true;
          wrong += !d.same_outputs(first) || r.poisoned() != 0;
          if (r.rank() == 0) {
            if (split == 0)
              std::printf(" %s %.2f", clusters ? "c:" : "l:", us);
            else
              std::printf("  %u%s %.2f", split, clusters ? "c" : "l", us);
            std::fflush(stdout);
          }
        }
      }
    }
    if (r.rank() == 0) std::printf("\n  two steps:");
    for (const algorithm how :
         {algorithm::packet, algorithm::two_shot_packet, algorithm::one_shot, algorithm::two_shot}) {
      test::fused_data<bfloat16> d(f, r.rank(), r.ranks());
      const device_copy at(d);
      if (!device(how, d, at, stream)) continue;
      must(cudaStreamSynchronize(stream), "synchronise");
      const double us = time_in_graph(stream, calls, repetitions, [&] { (void)device(how, d, at, stream); });
      at.copy_back();
      wrong += !d.same_outputs(first) || r.poisoned() != 0;
      if (r.rank() == 0) std::printf(" %s %.2f", name_of(how), us);
    }
    if (r.rank() == 0) std::printf("\n");
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (r.rank() == 0 && wrong) std::printf("%d results were wrong\n", wrong);
  return wrong ? 1 : 0;
}

}  // namespace
}  // namespace xyl::gpu_test

int main(int argc, char** argv) {
  using namespace xyl::gpu_test;
  const auto number = [&](int i, unsigned long long otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 0) : otherwise;
  };
  return mpi_program(argc, argv, [&] {
    const auto pattern = static_cast<xyl::fused_pattern>(number(3, xylFusedResidualRMSNorm));
    expect(run(static_cast<unsigned>(number(1, 7168)), number(2, 64), pattern) == 0, "wrong results");
  });
}
