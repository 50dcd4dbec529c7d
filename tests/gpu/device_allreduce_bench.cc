// SPDX-License-Identifier: BSD-3-Clause
//
// Times of the device side alone, for choosing thresholds: bf16 sum in CUDA graphs of 50 calls, medians, results
// checked on every element. An MPI program; several ranks may share a GPU.
//
//   device_allreduce_bench [LARGEST_BYTES [SMALLEST_BYTES]]
#include <cstdlib>
#include <cstring>

#include "proto/small_float.hpp"
#include "tests/gpu/device_rank.hpp"
#include "tests/gpu/graph.hpp"

namespace xyl::gpu_test {
namespace {

class bench {
 public:
  bench(device_rank& r, std::uint64_t largest) : r_(r) {
    must(cudaMalloc(&in_, largest), "cudaMalloc");
    must(cudaMalloc(&out_, largest), "cudaMalloc");
    must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    std::vector<std::uint16_t> host(largest / 2);
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = value(r.rank(), i);
    must(cudaMemcpy(in_, host.data(), largest, cudaMemcpyHostToDevice), "copy");
  }

  // Microseconds per call; negative if a result was wrong.
  double time(algorithm how, unsigned blocks, std::uint64_t bytes, std::uint64_t chunk) {
    const int calls = bytes > (1 << 20) ? 10 : 50, repetitions = bytes > (8 << 20) ? 5 : 9;
    const auto call = [&] {
      r_.all_reduce(how, blocks, in_, out_, bytes / 2, 2, xylBfloat16, xylSum, stream_, chunk);
    };
    must(cudaMemsetAsync(out_, 0, bytes, stream_), "memset");
    call();
    must(cudaStreamSynchronize(stream_), "synchronise");
    const double us = time_in_graph(stream_, calls, repetitions, call);
    int wrong = r_.poisoned() != 0 || !is_right(bytes);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return wrong ? -1 : us;
  }

 private:
  // Small integers: their sums are exact in bf16.
  static std::uint16_t value(int rank, std::size_t i) {
    return static_cast<std::uint16_t>(
        bfloat16_format::encode(static_cast<float>((static_cast<std::size_t>(rank) * 5 + i) % 7)));
  }
  bool is_right(std::uint64_t bytes) const {
    std::vector<std::uint16_t> host(bytes / 2);
    must(cudaMemcpy(host.data(), out_, bytes, cudaMemcpyDeviceToHost), "copy");
    std::uint16_t want[7];
    for (std::size_t i = 0; i < 7; ++i) {
      float sum = 0;
      for (int p = 0; p < r_.ranks(); ++p) sum += bfloat16_format::decode(value(p, i));
      want[i] = static_cast<std::uint16_t>(bfloat16_format::encode(sum));
    }
    for (std::size_t i = 0; i < host.size(); ++i)
      if (host[i] != want[i % 7]) return false;
    return true;
  }

  device_rank& r_;
  void *in_ = nullptr, *out_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

int run(std::uint64_t largest, std::uint64_t smallest) {
  device_rank r;
  bench b(r, largest);
  if (r.rank() == 0)
    std::printf("# ranks %d, at most %u blocks, workspace %.1f MB, us per call\n%10s %-8s %9s", r.ranks(),
                r.most_blocks(), static_cast<double>(r.map().bytes) / 1e6, "bytes", "how", "chunk");
  std::vector<unsigned> grids;
  for (unsigned blocks : {1u, 2u, 4u, 7u, 8u, 14u, 16u, 24u, 32u, 48u, 64u})
    if (blocks <= r.most_blocks()) grids.push_back(blocks);
  if (grids.back() != r.most_blocks()) grids.push_back(r.most_blocks());
  if (r.rank() == 0)
    for (unsigned blocks : grids) std::printf(" %8u", blocks);
  bool good = true;
  const std::uint64_t sizes[] = {1 << 10,   4 << 10,   14 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10,
                                 256 << 10, 512 << 10, 1 << 20,  2 << 20,  4 << 20,  16 << 20, 64 << 20};
  for (std::uint64_t bytes : sizes) {
    if (bytes < smallest || bytes > largest) continue;
    for (algorithm how : {algorithm::packet, algorithm::one_shot, algorithm::two_shot, algorithm::ring,
                          algorithm::two_shot_packet, algorithm::wide_packet, algorithm::line_packet}) {
      if (!r.can(how, xylBfloat16, xylSum)) continue;
      if (needs_no_flag(how) && bytes > r.capacity(how)) continue;
      if (how == algorithm::ring && bytes < (256 << 10)) continue;
      std::vector<std::uint64_t> chunks{std::min(r.capacity(how), bytes)};
      if (bytes > (1 << 20))
        for (std::uint64_t chunk : {4u << 20, 8u << 20})
          if (chunk < chunks[0]) chunks.push_back(chunk);
      for (std::uint64_t chunk : chunks) {
        if (r.rank() == 0)
          std::printf("\n%10llu %-8s %9llu", static_cast<unsigned long long>(bytes), name_of(how),
                      static_cast<unsigned long long>(chunk));
        for (unsigned blocks : grids) {
          // Grids that cannot be good for this size are left out.
          const std::uint64_t of_block = bytes / blocks;
          const bool is_too_wide = of_block < 512 && blocks > 1;
          const bool is_too_narrow = bytes < (1 << 20) ? of_block > (uses_packets(how) ? 16u << 10 : 256u << 10)
                                                       : blocks * 2 < r.most_blocks();
          if (is_too_wide || is_too_narrow) {
            if (r.rank() == 0) std::printf(" %8s", "-");
            continue;
          }
          const double us = b.time(how, blocks, bytes, chunk);
          good = good && us >= 0;
          if (r.rank() == 0) std::printf(" %8.2f", us), std::fflush(stdout);
        }
      }
    }
  }
  if (r.rank() == 0) std::printf("\n");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace xyl::gpu_test

int main(int argc, char** argv) {
  using namespace xyl::gpu_test;
  const auto number = [&](int i, unsigned long long otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 0) : otherwise;
  };
  return mpi_program(argc, argv,
                     [&] { expect(run(number(1, 64 << 20), number(2, 1 << 10)) == 0, "wrong results"); });
}
