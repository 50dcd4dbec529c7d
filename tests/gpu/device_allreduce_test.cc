// SPDX-License-Identifier: BSD-3-Clause
//
// Allreduce on GPUs through the device side alone: every type, operation and algorithm against the CPU, graphs,
// streams, and what happens when a rank is late, calls something else, aborts, or overlaps with itself. An MPI
// program of two ranks or more; several may share a GPU. Exits with 1 if anything was wrong, 77 without a GPU.
#include <chrono>

#include "proto/turn.hpp"
#include "tests/gpu/checked_call.hpp"
#include "tests/gpu/graph.hpp"

namespace xyl::gpu_test {
namespace {

cudaStream_t streams[2];

// The last is what kind of lines there is, if any.
std::vector<algorithm> algorithms_here(const device_rank& r) {
  std::vector<algorithm> all = {algorithm::packet, algorithm::one_shot, algorithm::two_shot, algorithm::ring,
                                algorithm::two_shot_packet};
  if (const std::optional<algorithm> lines = r.lines()) all.push_back(*lines);
  return all;
}
constexpr xylRedOp_t all_operations[] = {xylSum, xylProd, xylMax, xylMin, xylAvg, xylBitAnd, xylBitOr, xylBitXor};

template <class F>
void for_each_type(F f) {
  f.template operator()<std::int8_t>(xylInt8);
  f.template operator()<std::uint8_t>(xylUint8);
  f.template operator()<std::int16_t>(xylInt16);
  f.template operator()<std::uint16_t>(xylUint16);
  f.template operator()<std::int32_t>(xylInt32);
  f.template operator()<std::uint32_t>(xylUint32);
  f.template operator()<std::int64_t>(xylInt64);
  f.template operator()<std::uint64_t>(xylUint64);
  f.template operator()<float16>(xylFloat16);
  f.template operator()<bfloat16>(xylBfloat16);
  f.template operator()<float>(xylFloat32);
  f.template operator()<double>(xylFloat64);
  f.template operator()<float8_e4m3>(xylFloat8e4m3);
  f.template operator()<float8_e5m2>(xylFloat8e5m2);
}

void every_type_operation_algorithm(device_rank& r) {
  buffers memory(1 << 20);
  const std::uint64_t counts[] = {1, 3, 65, 1000, 4099, 16384};
  std::uint64_t seed = 1;
  for_each_type([&]<class T>(xylDataType_t type) {
    for (xylRedOp_t op : all_operations) {
      if (op >= xylBitAnd && !element_traits<T>::is_integer) continue;
      for (algorithm how : algorithms_here(r)) {
        if (!r.can(how, type, op)) continue;
        for (std::uint64_t count : counts) {
          ++seed;
          const unsigned blocks = seed % 3 == 0   ? 1
                                  : seed % 3 == 1 ? std::min(3u, r.most_blocks())
                                                  : r.most_blocks();
          memory.run<T>(r, how, blocks, op, type, count, seed, seed % 5 == 0 ? 1 : 0, seed % 2 == 0, streams[0]);
        }
      }
    }
  });
}

void chunks_of_long_messages(device_rank& r) {
  buffers memory(48 << 20);
  for (algorithm how : algorithms_here(r)) {
    const xylRedOp_t op = r.can(how, xylFloat32, xylMax) ? xylMax : xylSum;
    const std::uint64_t count = r.capacity(how) / 2 * 2 + 12345;  // more than two chunks and a tail, in bf16
    memory.run<bfloat16>(r, how, r.most_blocks(), xylSum, xylBfloat16, count, 7, 0, false, streams[0]);
    memory.run<float>(r, how, r.most_blocks(), op, xylFloat32, count / 2, 8, 1, true, streams[0], 100'000);
  }
}

void eager_calls_on_two_streams(device_rank& r) {
  buffers memory(1 << 20);
  float *in = reinterpret_cast<float*>(memory.in()), *out = reinterpret_cast<float*>(memory.out());
  const std::vector<float> one(1000, 1.f);
  must(cudaMemcpy(in, one.data(), 4000, cudaMemcpyHostToDevice), "copy");
  const std::vector<algorithm> all = algorithms_here(r);
  // Each call adds up the last one's result, so any overlap or reordering shows.
  const int calls = 6;
  for (int i = 0; i < calls; ++i)
    r.all_reduce(all[static_cast<std::size_t>(i) % all.size()], 1 + i % 3, i == 0 ? in : out, out, 1000, 4,
                 xylFloat32, xylSum, streams[i % 2]);
  must(cudaDeviceSynchronize(), "synchronise");
  std::vector<float> got(1000);
  must(cudaMemcpy(got.data(), out, 4000, cudaMemcpyDeviceToHost), "copy");
  for (float x : got)
    if (!expect(x == std::pow(static_cast<float>(r.ranks()), calls), "two streams: %g", x)) break;
}

// Two graphs of different sizes, algorithms and grids, the second over two streams, and eager calls, in turns;
// across the place where the low half of the epoch wraps.
void graphs_and_eager_calls_in_turns(device_rank& r) {
  const std::uint64_t word = turn::before(0xfffffffdull - 30);
  must(cudaMemcpy(reinterpret_cast<char*>(r.side().handle().address) + offsetof(control_block, call.turn), &word, 8,
                  cudaMemcpyHostToDevice),
       "set the turn");
  MPI_Barrier(MPI_COMM_WORLD);
  const std::uint64_t small = 700, big = 70'001;
  const std::vector<algorithm> all = algorithms_here(r);
  buffers memory(big * 4);
  float *in = reinterpret_cast<float*>(memory.in()), *out = reinterpret_cast<float*>(memory.out());
  cudaEvent_t fork, join;
  must(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming), "event");
  must(cudaEventCreateWithFlags(&join, cudaEventDisableTiming), "event");
  const cudaGraphExec_t first = capture(streams[0], [&] {
    for (int i = 0; i < 5; ++i)
      r.all_reduce(all[(static_cast<std::size_t>(i) + 1) % all.size()], 2, i ? out : in, out, small, 4, xylFloat32,
                   xylSum, streams[0]);
  });
  const cudaGraphExec_t second = capture(streams[0], [&] {
    must(cudaEventRecord(fork, streams[0]), "record");
    must(cudaStreamWaitEvent(streams[1], fork, 0), "wait");
    for (int i = 0; i < 4; ++i)
      r.all_reduce(all[all.size() - 1 - static_cast<std::size_t>(i)], r.most_blocks(), i ? out : in, out, big, 4,
                   xylFloat32, xylSum, streams[i % 2]);
    must(cudaEventRecord(join, streams[1]), "record");
    must(cudaStreamWaitEvent(streams[0], join, 0), "wait");
  });
  std::vector<float> got(big);
  for (int round = 0; round < 12; ++round) {
    const std::vector<float> ones(big, static_cast<float>(round + 1));
    must(cudaMemcpyAsync(in, ones.data(), big * 4, cudaMemcpyHostToDevice, streams[0]), "copy");
    const int kind = round % 3;
    const int calls = kind == 0 ? 5 : kind == 1 ? 4 : 1;
    if (kind == 2)
      r.all_reduce(all[static_cast<std::size_t>(round) % all.size()], 3, in, out, big, 4, xylFloat32, xylSum,
                   streams[0]);
    else
      must(cudaGraphLaunch(kind == 0 ? first : second, streams[0]), "launch");
    must(cudaMemcpyAsync(got.data(), out, big * 4, cudaMemcpyDeviceToHost, streams[0]), "copy");
    must(cudaStreamSynchronize(streams[0]), "synchronise");
    const float want = static_cast<float>(round + 1) * std::pow(static_cast<float>(r.ranks()), calls);
    for (std::uint64_t i = 0; i < (kind == 0 ? small : big); ++i)
      if (!expect(got[i] == want, "graphs, round %d element %llu: %g, not %g", round,
                  static_cast<unsigned long long>(i), got[i], want))
        break;
  }
  (void)cudaGraphExecDestroy(first);
  (void)cudaGraphExecDestroy(second);
  (void)cudaEventDestroy(fork);
  (void)cudaEventDestroy(join);
}

// Waits for the stream; false if that takes longer than a generous limit.
bool finishes(cudaStream_t stream, double seconds) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (cudaStreamQuery(stream) == cudaErrorNotReady)
    if (std::chrono::steady_clock::now() > limit) {
      std::fprintf(stderr, "a kernel does not end\n");
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  return true;
}

void a_mismatched_count_is_refused_by_all(algorithm how, algorithm other) {
  device_rank r;
  buffers memory(1 << 20);
  must(cudaMemset(memory.in(), 0x11, 1 << 20), "memset");
  must(cudaMemset(memory.out(), 0xa5, 1 << 20), "memset");
  must(cudaDeviceSynchronize(), "synchronise");
  MPI_Barrier(MPI_COMM_WORLD);
  const bool odd = r.rank() == r.ranks() - 1;
  r.all_reduce(odd ? other : how, odd ? 3 : 2, memory.in(), memory.out(), odd ? 20'000 : 10'000, 4, xylFloat32,
               xylSum, streams[0]);
  finishes(streams[0], 20);
  expect(poison::code(r.poisoned()) == xylInvalidUsage, "mismatch: rank %d has code %d", r.rank(),
         poison::code(r.poisoned()));
  int recorded = r.has_record();
  if (recorded) {
    const give_up_record& g = r.control().gave_up.record;
    expect(g.code == xylInvalidUsage && g.waited_in == phase::header && g.wanted != g.seen,
           "mismatch: a wrong record");
  }
  MPI_Allreduce(MPI_IN_PLACE, &recorded, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect(recorded > 0, "mismatch: nobody recorded it");
  std::vector<unsigned char> got(1 << 20);
  must(cudaMemcpy(got.data(), memory.out(), got.size(), cudaMemcpyDeviceToHost), "copy");
  expect(std::all_of(got.begin(), got.end(), [](unsigned char x) { return x == 0xa5; }),
         "mismatch: rank %d's output was touched", r.rank());
}

void a_missing_rank_is_named_at_the_deadline(algorithm how) {
  settings s;
  s.deadline_ns = 300'000'000;
  device_rank r(s);
  buffers memory(1 << 20);
  const bool late = r.rank() == r.ranks() - 1;
  const auto call = [&] {
    r.all_reduce(how, 2, memory.in(), memory.out(), 5000, 4, xylFloat32, xylSum, streams[0]);
  };
  const auto begin = std::chrono::steady_clock::now();
  if (!late) {
    call();
    finishes(streams[0], 20);
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    expect(took > 0.2, "deadline: gave up after %g s", took);
    expect(poison::code(r.poisoned()) == xylTimeout && poison::culprit(r.poisoned()) == r.ranks() - 1,
           "deadline: rank %d has code %d culprit %d", r.rank(), poison::code(r.poisoned()),
           poison::culprit(r.poisoned()));
    if (r.has_record()) {
      const give_up_record& g = r.control().gave_up.record;
      call_record of;
      std::memcpy(&of, g.call, sizeof of);
      expect(
          g.code == xylTimeout && g.peer == r.ranks() - 1 && g.wanted > g.seen && g.epoch == 2 && of.count == 5000,
          "deadline: a wrong record");
    }
    const cudaGraphExec_t graph = capture(streams[0], [&] {
      for (int i = 0; i < 100; ++i) call();
    });
    const auto again = std::chrono::steady_clock::now();
    must(cudaGraphLaunch(graph, streams[0]), "launch");
    finishes(streams[0], 20);
    const double graph_took = std::chrono::duration<double>(std::chrono::steady_clock::now() - again).count();
    expect(graph_took < 5, "deadline: a graph of 100 calls behind it took %g s", graph_took);
    (void)cudaGraphExecDestroy(graph);
  }
  int recorded = r.has_record();
  MPI_Allreduce(MPI_IN_PLACE, &recorded, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect(recorded > 0, "deadline: nobody recorded it");
  if (late) {
    // Where the poison lies in host memory a call that finds everything there does not look at it, and ends well:
    // the peers gave up later than they sent. The next one lacks something.
    call();
    call();
    finishes(streams[0], 20);
    expect(poison::code(r.poisoned()) == xylTimeout, "deadline: the late rank has code %d",
           poison::code(r.poisoned()));
  }
}

void the_host_can_end_a_wait() {
  device_rank r;
  buffers memory(1 << 20);
  if (r.rank() != r.ranks() - 1) {
    r.all_reduce(algorithm::one_shot, 2, memory.in(), memory.out(), 5000, 4, xylFloat32, xylSum, streams[0]);
    std::atomic_ref<std::uint64_t>(r.control().poisoned.word)
        .store(poison::pack(xylRemoteError, r.ranks() - 1), std::memory_order_release);
    finishes(streams[0], 20);
    expect(poison::code(r.poisoned()) == xylRemoteError && !r.has_record(), "abort: code %d",
           poison::code(r.poisoned()));
  }
}

void overlapping_launches_are_reported() {
  device_rank r;
  buffers memory(1 << 20);
  const auto graph_on = [&](int i) {
    return capture(streams[i], [&] {
      r.all_reduce(algorithm::packet, 2, memory.in(), memory.out(), 1000, 4, xylFloat32, xylSum, streams[i]);
    });
  };
  if (r.rank() == 0) {
    const cudaGraphExec_t graphs[] = {graph_on(0), graph_on(1)};
    for (int i : {0, 1}) must(cudaGraphLaunch(graphs[i], streams[i]), "launch");
    for (int i : {0, 1}) finishes(streams[i], 20);
    const give_up_record& g = r.control().gave_up.record;
    expect(poison::code(r.poisoned()) == xylInvalidUsage && r.has_record() && g.waited_in == phase::none &&
               g.peer == 0,
           "overlap: code %d", poison::code(r.poisoned()));
    for (const cudaGraphExec_t graph : graphs) (void)cudaGraphExecDestroy(graph);
  }
}

void memory_is_told_apart() {
  device_rank r;
  buffers memory(4096);
  std::vector<char> pageable(4096);
  void *pinned = nullptr, *managed = nullptr;
  must(cudaMallocHost(&pinned, 4096), "cudaMallocHost");
  must(cudaMallocManaged(&managed, 4096), "cudaMallocManaged");
  expect(r.side().classify(memory.in() + 100) == memory_kind::device, "device memory");
  expect(r.side().classify(pinned) == memory_kind::device, "pinned memory");
  expect(r.side().classify(managed) == memory_kind::device, "managed memory");
  expect(r.side().classify(pageable.data()) == memory_kind::host, "pageable memory");
  must(cudaFreeHost(pinned), "cudaFreeHost");
  must(cudaFree(managed), "cudaFree");
}

void run_all() {
  step("memory is told apart", memory_is_told_apart);
  step("long messages in chunks", [] {
    device_rank r;
    chunks_of_long_messages(r);
  });
  step("graphs and eager calls in turns", [] {
    device_rank r;
    graphs_and_eager_calls_in_turns(r);
  });
  step("eager calls on two streams", [] {
    device_rank r;
    eager_calls_on_two_streams(r);
  });
  step("every type, operation and algorithm", [] {
    device_rank r;
    every_type_operation_algorithm(r);
  });
  if (ranks_ > 1) {
    std::vector<algorithm> usable;
    {
      device_rank r;
      usable = algorithms_here(r);
    }
    for (algorithm how : usable)
      step("a mismatched count is refused by all",
           [&] { a_mismatched_count_is_refused_by_all(how, algorithm::two_shot); });
    for (algorithm how : usable)
      step("a missing rank is named at the deadline", [&] { a_missing_rank_is_named_at_the_deadline(how); });
    step("the host can end a wait", the_host_can_end_a_wait);
    step("overlapping launches are reported", overlapping_launches_are_reported);
  }
}

}  // namespace
}  // namespace xyl::gpu_test

int main(int argc, char** argv) {
  using namespace xyl::gpu_test;
  return mpi_program(argc, argv, [] {
    for (cudaStream_t& stream : streams) stream = new_stream();
    run_all();
  });
}
