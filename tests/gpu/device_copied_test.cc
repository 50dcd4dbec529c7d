// SPDX-License-Identifier: BSD-3-Clause
//
// Allreduces moved by copy engines, on the device side alone: bytes, graphs, streams, mismatches, a missing rank;
// and, with `bench`, their times beside those of kernels. An MPI program of two ranks or more; several may share a
// GPU. To be run as it is and with XYLEM_P2P=0, where the ranks meet in host memory. Exits with 1 if anything was
// wrong, 77 without a GPU.
//
//   device_copied_test [bench]
#include <chrono>
#include <cstring>

#include "tests/gpu/checked_call.hpp"
#include "tests/gpu/graph.hpp"

namespace xyl::gpu_test {
namespace {

cudaStream_t streams[2];

// Slots so small that a few megabytes are many chunks.
settings small_slots() {
  settings s;
  s.copy_bytes = 2 << 20;
  return s;
}

class arrays {
 public:
  explicit arrays(std::size_t bytes) : bytes_(bytes) {
    for (char** memory : {&in_, &out_}) {
      void* allocated = nullptr;
      must(cudaMalloc(&allocated, bytes + 512), "cudaMalloc");
      *memory = static_cast<char*>(allocated);
    }
  }
  ~arrays() {
    (void)cudaFree(in_);
    (void)cudaFree(out_);
  }
  arrays(const arrays&) = delete;

  template <class T>
  T* input(unsigned shift = 0) const {
    return reinterpret_cast<T*>(in_ + 256) + shift;
  }
  template <class T>
  T* output(unsigned shift = 0) const {
    return reinterpret_cast<T*>(out_ + 256) + shift;
  }

  template <class T>
  void fill(device_rank& r, std::uint64_t count, std::uint64_t seed, T* to, cudaStream_t stream) {
    std::vector<T> in(count);
    for (std::uint64_t i = 0; i < count; ++i) in[i] = input_value<T>(seed, r.rank(), i);
    must(cudaMemsetAsync(out_, 0xa5, bytes_ + 512, stream), "memset");
    must(cudaMemcpyAsync(to, in.data(), count * sizeof(T), cudaMemcpyHostToDevice, stream), "copy in");
    must(cudaStreamSynchronize(stream), "synchronise");
  }

  template <class T>
  void compare(device_rank& r, xylRedOp_t op, std::uint64_t count, std::uint64_t seed, const T* at,
               const char* what, cudaStream_t stream) {
    std::vector<T> got(count);
    unsigned char behind[64], before[64];
    must(cudaMemcpyAsync(got.data(), at, count * sizeof(T), cudaMemcpyDeviceToHost, stream), "copy out");
    const char* const begin = reinterpret_cast<const char*>(at);
    const bool is_apart = begin >= out_ && begin < out_ + bytes_ + 512;
    must(cudaMemcpyAsync(before, begin - 64, 64, cudaMemcpyDeviceToHost, stream), "copy out");
    must(cudaMemcpyAsync(behind, begin + count * sizeof(T), 64, cudaMemcpyDeviceToHost, stream), "copy out");
    must(cudaStreamSynchronize(stream), "synchronise");
    const auto want = expected<T>(algorithm::two_shot, op, r.ranks(), count, seed, count);
    std::uint64_t wrong = 0, where = 0, touched = 0;
    for (std::uint64_t i = 0; i < count; ++i)
      if (!is_same(got[i], want[i]) && wrong++ == 0) where = i;
    for (int i = 0; i < 64 && is_apart; ++i) touched += (before[i] != 0xa5) + (behind[i] != 0xa5);
    expect(wrong == 0 && touched == 0 && r.poisoned() == 0,
           "rank %d: %s, %llu elements of %zu bytes, op %d: %llu wrong from %llu, %llu guard bytes touched, poison "
           "%llx",
           r.rank(), what, static_cast<unsigned long long>(count), sizeof(T), static_cast<int>(op),
           static_cast<unsigned long long>(wrong), static_cast<unsigned long long>(where),
           static_cast<unsigned long long>(touched), static_cast<unsigned long long>(r.poisoned()));
  }

 private:
  std::size_t bytes_;
  char *in_ = nullptr, *out_ = nullptr;
};

template <class T>
void one_type(device_rank& r, arrays& memory, xylDataType_t type, std::uint64_t& seed) {
  for (const xylRedOp_t op : {xylSum, xylMax, xylAvg})
    for (const std::uint64_t bytes : {8ull, 1000ull, 70'000ull, 1'100'008ull, 5'000'008ull}) {
      if (op != xylSum && bytes > 1'000'000) continue;
      ++seed;
      const std::uint64_t count = bytes / sizeof(T);
      const auto shift = static_cast<unsigned>(seed % 3);
      const bool in_place = seed % 2;
      T* const in = memory.input<T>(shift);
      T* const out = in_place ? in : memory.output<T>(shift);
      memory.fill(r, count, seed, in, streams[seed % 2]);
      r.all_reduce_by_copies(in, out, count, type, op, streams[seed % 2]);
      memory.compare(r, op, count, seed, out, in_place ? "eager, in place" : "eager", streams[seed % 2]);
    }
}

void types_sizes_and_alignments() {
  device_rank r(small_slots());
  arrays memory(6 << 20);
  std::uint64_t seed = 1;
  one_type<float>(r, memory, xylFloat32, seed);
  one_type<bfloat16>(r, memory, xylBfloat16, seed);
  one_type<float16>(r, memory, xylFloat16, seed);
  one_type<float8_e4m3>(r, memory, xylFloat8e4m3, seed);
  one_type<std::int64_t>(r, memory, xylInt64, seed);
  one_type<std::uint8_t>(r, memory, xylUint8, seed);
  one_type<double>(r, memory, xylFloat64, seed);
}

// Two graphs, each with kernels' calls between the copies', and eager calls of both kinds, in turns. Each call adds
// up the result of the one before.
void graphs_and_eager_calls_in_turns() {
  device_rank r(small_slots());
  const std::uint64_t counts[] = {300'001, 1'200'000};
  arrays memory(counts[1] * 4);
  auto *in = memory.input<float>(), *out = memory.output<float>();
  const auto copies = [&](std::uint64_t count, bool first, cudaStream_t stream) {
    r.all_reduce_by_copies(first ? in : out, out, count, xylFloat32, xylSum, stream);
  };
  const auto kernels = [&](std::uint64_t count, cudaStream_t stream) {
    r.all_reduce(algorithm::two_shot, std::min(8u, r.most_blocks()), out, out, count, 4, xylFloat32, xylSum,
                 stream);
  };
  cudaGraphExec_t graphs[2];
  for (int g : {0, 1})
    graphs[g] = capture(streams[0], [&] {
      copies(counts[g], true, streams[0]);
      kernels(counts[g], streams[0]);
      copies(counts[g], false, streams[0]);
    });
  std::vector<float> got(counts[1]);
  for (int round = 0; round < 9; ++round) {
    const std::vector<float> ones(counts[1], static_cast<float>(round + 1));
    must(cudaMemcpyAsync(in, ones.data(), counts[1] * 4, cudaMemcpyHostToDevice, streams[0]), "copy");
    const int kind = round % 3;
    if (kind < 2) {
      must(cudaGraphLaunch(graphs[kind], streams[0]), "launch");
    } else {
      copies(counts[1], true, streams[0]);
      must(cudaStreamSynchronize(streams[0]), "synchronise");
      copies(counts[1], false, streams[1]);
      must(cudaStreamSynchronize(streams[1]), "synchronise");
      kernels(counts[1], streams[0]);
    }
    must(cudaMemcpyAsync(got.data(), out, counts[1] * 4, cudaMemcpyDeviceToHost, streams[0]), "copy");
    must(cudaStreamSynchronize(streams[0]), "synchronise");
    const float ranks = static_cast<float>(r.ranks()), want = static_cast<float>(round + 1) * ranks * ranks * ranks;
    for (std::uint64_t i = 0; i < counts[kind == 0 ? 0 : 1]; ++i)
      if (!expect(got[i] == want, "rank %d, round %d, element %llu: %g, not %g", r.rank(), round,
                  static_cast<unsigned long long>(i), static_cast<double>(got[i]), static_cast<double>(want)))
        break;
    expect(r.poisoned() == 0, "rank %d, round %d: poison %llx", r.rank(), round,
           static_cast<unsigned long long>(r.poisoned()));
  }
  for (cudaGraphExec_t graph : graphs) (void)cudaGraphExecDestroy(graph);
}

// Ends the job if that takes longer than a generous limit.
void finish(cudaStream_t stream) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (cudaStreamQuery(stream) == cudaErrorNotReady)
    if (std::chrono::steady_clock::now() > limit) {
      std::fprintf(stderr, "copies do not end\n");
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

void a_call_that_differs_leaves_outputs_alone() {
  device_rank r(small_slots());
  arrays memory(4 << 20);
  const std::uint64_t count = 1'000'000;
  memory.fill<float>(r, count, 3, memory.input<float>(), streams[0]);
  MPI_Barrier(MPI_COMM_WORLD);
  const bool odd = r.rank() == r.ranks() - 1;
  r.all_reduce_by_copies(memory.input<float>(), memory.output<float>(), odd ? count / 2 : count, xylFloat32, xylSum,
                         streams[0]);
  finish(streams[0]);
  expect(poison::code(r.poisoned()) == xylInvalidUsage, "mismatch: rank %d has code %d", r.rank(),
         poison::code(r.poisoned()));
  std::vector<unsigned char> got(count * 4);
  must(cudaMemcpy(got.data(), memory.output<float>(), got.size(), cudaMemcpyDeviceToHost), "copy");
  expect(std::all_of(got.begin(), got.end(), [](unsigned char x) { return x == 0xa5; }),
         "mismatch: rank %d's output was touched", r.rank());
  MPI_Barrier(MPI_COMM_WORLD);
}

void a_missing_rank_is_named_and_a_graph_behind_it_ends() {
  settings s = small_slots();
  s.deadline_ns = 300'000'000;
  device_rank r(s);
  arrays memory(4 << 20);
  if (r.rank() != r.ranks() - 1) {
    const cudaGraphExec_t graph = capture(streams[0], [&] {
      for (int i = 0; i < 10; ++i)
        r.all_reduce_by_copies(memory.input<float>(), memory.output<float>(), 1'000'000, xylFloat32, xylSum,
                               streams[0]);
    });
    const auto begin = std::chrono::steady_clock::now();
    must(cudaGraphLaunch(graph, streams[0]), "launch");
    finish(streams[0]);
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    expect(poison::code(r.poisoned()) == xylTimeout && poison::culprit(r.poisoned()) == r.ranks() - 1,
           "deadline: rank %d has code %d, culprit %d", r.rank(), poison::code(r.poisoned()),
           poison::culprit(r.poisoned()));
    expect(took > 0.2 && took < 10, "deadline: a graph of 10 calls took %g s", took);
    (void)cudaGraphExecDestroy(graph);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

// Microseconds per call, the slowest rank's, median.
template <class F>
double timed(F call, bool captured) {
  const int calls = 5, repetitions = 7;
  cudaEvent_t begin, end;
  must(cudaEventCreate(&begin), "event");
  must(cudaEventCreate(&end), "event");
  call();
  must(cudaStreamSynchronize(streams[0]), "synchronise");
  cudaGraphExec_t graph = nullptr;
  const auto all = [&] {
    for (int i = 0; i < calls; ++i) call();
  };
  if (captured) graph = capture(streams[0], all);
  std::vector<double> times;
  for (int i = 0; i < repetitions + 1; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    must(cudaEventRecord(begin, streams[0]), "record");
    if (captured)
      must(cudaGraphLaunch(graph, streams[0]), "launch");
    else
      all();
    must(cudaEventRecord(end, streams[0]), "record");
    must(cudaStreamSynchronize(streams[0]), "synchronise");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    if (i > 0) times.push_back(ms * 1000 / calls);
  }
  if (graph) (void)cudaGraphExecDestroy(graph);
  (void)cudaEventDestroy(begin);
  (void)cudaEventDestroy(end);
  std::sort(times.begin(), times.end());
  double us = times[times.size() / 2];
  MPI_Allreduce(MPI_IN_PLACE, &us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return us;
}

// Beside each time of copies how much of it is the link's, in one direction: 2 (ranks - 1) / ranks of the bytes.
void times() {
  settings s;
  s.copy_bytes = 32 << 20;
  device_rank r(s);
  arrays memory(128 << 20);
  if (r.rank() == 0)
    std::printf("%10s %12s %12s %12s %12s   (us; GB/s of copies in a graph)\n", "bytes", "copies", "in a graph",
                "oneshot", "twoshot");
  for (std::uint64_t bytes = 1 << 20; bytes <= 128 << 20; bytes *= 2) {
    const auto copies = [&] {
      r.all_reduce_by_copies(memory.input<bfloat16>(), memory.output<bfloat16>(), bytes / 2, xylBfloat16, xylSum,
                             streams[0]);
    };
    const auto kernels = [&](algorithm how) {
      return timed(
          [&] {
            r.all_reduce(how, r.most_blocks(), memory.input<bfloat16>(), memory.output<bfloat16>(), bytes / 2, 2,
                         xylBfloat16, xylSum, streams[0], 8 << 20);
          },
          true);
    };
    const double eager = timed(copies, false), graph = timed(copies, true);
    const double one_shot = kernels(algorithm::one_shot), two_shot = kernels(algorithm::two_shot);
    const double carried = 2.0 * (r.ranks() - 1) / r.ranks() * static_cast<double>(bytes);
    if (r.rank() == 0)
      std::printf("%10llu %12.1f %12.1f %12.1f %12.1f   %6.1f\n", static_cast<unsigned long long>(bytes), eager,
                  graph, one_shot, two_shot, carried / graph / 1000);
    std::fflush(stdout);
    expect(r.poisoned() == 0, "times: poison %llx", static_cast<unsigned long long>(r.poisoned()));
  }
}

void run_all(bool bench) {
  step("types, sizes and alignments", types_sizes_and_alignments);
  step("graphs and eager calls in turns", graphs_and_eager_calls_in_turns);
  step("a call that differs leaves outputs alone", a_call_that_differs_leaves_outputs_alone);
  step("a missing rank is named, a graph behind it ends", a_missing_rank_is_named_and_a_graph_behind_it_ends);
  if (bench) step("times", times);
}

}  // namespace
}  // namespace xyl::gpu_test

int main(int argc, char** argv) {
  using namespace xyl::gpu_test;
  const bool bench = argc > 1 && std::strcmp(argv[1], "bench") == 0;
  constexpr int least_ranks = 2;
  return mpi_program(
      argc, argv,
      [&] {
        for (cudaStream_t& stream : streams) stream = new_stream();
        run_all(bench);
      },
      least_ranks);
}
