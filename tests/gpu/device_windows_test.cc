// SPDX-License-Identifier: BSD-3-Clause
//
// Registered device buffers through the ABI, in every form (XYLEM_PULL), checked on every byte: eager and in
// graphs, in place and not, at odd offsets, over the same memory at once, with other calls and other memory
// between, and places that differ. An MPI program (mpirun -np N tests/device_windows_test [quick]); rank r uses
// device r % devices. Exit 77 without a GPU, 1 with a failure; it ends itself after five minutes.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "proto/reduction.hpp"
#include "tests/gpu/graph.hpp"
#include "tests/gpu/mpi_communicator.hpp"

namespace xyl::gpu_test {
namespace {

const char* form = "";
cudaStream_t stream;

void progress(const char* what) {
  if (rank_ == 0) std::printf("%-10s %s: %d checks, %d failures\n", form, what, checks, failures);
  std::fflush(stdout);
}

constexpr int filling = 0xa5;
constexpr std::size_t guard = 256, most_bytes = std::size_t{66} << 20;

// Registered memory; what is written beside what should be shows.
class window {
 public:
  explicit window(std::size_t bytes) : bytes_(bytes) {
    void* given = nullptr;
    must(xylMemAlloc(&given, bytes, xylMemDevice), "xylMemAlloc");
    data_ = static_cast<char*>(given);
    must(xylCommRegister(comm, data_, bytes, &handle_), "xylCommRegister");
  }
  ~window() {
    must(xylCommDeregister(comm, handle_), "xylCommDeregister");
    must(xylMemFree(data_), "xylMemFree");
  }
  window(const window&) = delete;
  char* place(std::size_t offset, std::size_t bytes) {
    if (guard + offset + bytes + guard > bytes_) MPI_Abort(MPI_COMM_WORLD, 1);
    must(cudaMemsetAsync(data_, filling, guard + offset + bytes + guard, stream), "cudaMemsetAsync");
    return data_ + guard + offset;
  }
  // How many bytes of the guards of what was placed there are not as they were.
  std::size_t spoiled(std::size_t offset, std::size_t bytes) const {
    std::vector<unsigned char> both(2 * guard + offset);
    must(cudaMemcpy(both.data(), data_, guard + offset, cudaMemcpyDeviceToHost), "cudaMemcpy");
    must(cudaMemcpy(both.data() + guard + offset, data_ + guard + offset + bytes, guard, cudaMemcpyDeviceToHost),
         "cudaMemcpy");
    std::size_t wrong = 0;
    for (const unsigned char b : both) wrong += b != filling;
    return wrong;
  }
  char* data() const { return data_; }

 private:
  std::size_t bytes_;
  char* data_ = nullptr;
  void* handle_ = nullptr;
};

// Small integers, exact in every type and sum.
int value_of(int rank, std::size_t i, unsigned round = 0) {
  return 1 + static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 3 + round * 11 + (i >> 10)) % 5);
}

template <class T>
T make(double v) {
  return element_traits<T>::encode(static_cast<typename element_traits<T>::accumulator>(v));
}

template <class T>
void put(char* to, std::size_t count, unsigned round = 0) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = make<T>(value_of(rank_, i, round));
  must(cudaMemcpyAsync(to, values.data(), count * sizeof(T), cudaMemcpyHostToDevice, stream), "copy in");
  must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

// want(i); says how many differ and where the first one is.
template <class T>
std::string differs(const char* at, std::size_t count, const std::function<double(std::size_t)>& want) {
  std::vector<T> got(count);
  must(cudaMemcpyAsync(got.data(), at, count * sizeof(T), cudaMemcpyDeviceToHost, stream), "copy out");
  must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const T w = make<T>(want(i));
    if (std::memcmp(&got[i], &w, sizeof w) != 0 && wrong++ == 0) first = i;
  }
  if (wrong == 0) return {};
  char text[160];
  std::snprintf(text, sizeof text, "%zu of %zu wrong, first %zu: %g, not %g", wrong, count, first,
                static_cast<double>(element_traits<T>::decode(got[first])), want(first));
  return text;
}

double reduced(xylRedOp_t op, std::size_t i, unsigned round = 0) {
  double a = value_of(0, i, round);
  for (int r = 1; r < ranks_; ++r)
    a = op == xylMax ? std::max<double>(a, value_of(r, i, round)) : a + value_of(r, i, round);
  return op == xylAvg ? a / ranks_ : a;
}

window *ins, *outs;
char* plain;  // not registered

enum class target { window, same, plain, neither };  // neither buffer is registered

// Captured calls are launched `replays` times; 0: eager.
void run(const std::function<void()>& calls, int replays) {
  if (replays == 0) return calls();
  replay(stream, replays, calls);
}

template <class T>
void check_all_reduce(xylDataType_t type, xylRedOp_t op, std::size_t count, std::size_t offset, target to,
                      int replays) {
  const std::size_t bytes = count * sizeof(T), at = offset * sizeof(T);
  char* const in = to == target::neither ? plain + most_bytes + at : ins->place(at, bytes);
  if (to == target::neither) (void)ins->place(at, bytes);
  char* const apart = outs->place(to == target::window ? at + 2 * sizeof(T) : 0, to == target::window ? bytes : 0);
  char* const out = to == target::same ? in : to == target::window ? apart : plain;
  put<T>(in, count);
  run([&] { must(xylAllReduce(in, out, count, type, op, comm, stream), "xylAllReduce"); },
      to == target::same && replays > 1 ? 1 : replays);
  const std::string wrong = differs<T>(out, count, [&](std::size_t i) { return reduced(op, i); });
  expect(wrong.empty(), "allreduce of %zu type %d, op %d, offset %zu, target %d, replays %d: %s", count,
         static_cast<int>(type), static_cast<int>(op), offset, static_cast<int>(to), replays, wrong.c_str());
  const std::size_t spoiled =
      ins->spoiled(at, bytes) +
      (to == target::window ? outs->spoiled(at + 2 * sizeof(T), bytes) : outs->spoiled(0, 0));
  expect(spoiled == 0, "allreduce of %zu type %d: %zu bytes beside the buffers were written", count,
         static_cast<int>(type), spoiled);
  if (to == target::same) return;
  const std::string changed = differs<T>(in, count, [&](std::size_t i) { return value_of(rank_, i); });
  expect(changed.empty(), "allreduce of %zu type %d changed its input: %s", count, static_cast<int>(type),
         changed.c_str());
}

void check_blocks(std::size_t n, std::size_t offset, bool in_place, int replays) {
  const auto all = static_cast<std::size_t>(ranks_), mine = static_cast<std::size_t>(rank_);
  const std::size_t piece = n * sizeof(int), at = offset * sizeof(int);
  // allgather
  char* out = outs->place(at, all * piece);
  char* own = in_place ? out + mine * piece : ins->place(at, piece);
  put<int>(own, n);
  run([&] { must(xylAllGather(own, out, n, xylInt32, comm, stream), "xylAllGather"); }, replays);
  std::string wrong =
      differs<int>(out, all * n, [&](std::size_t i) { return value_of(static_cast<int>(i / n), i % n); });
  expect(wrong.empty(), "allgather of %zu, offset %zu, in place %d: %s", n, offset, in_place, wrong.c_str());
  expect(outs->spoiled(at, all * piece) == 0, "allgather of %zu wrote beside its output", n);
  // alltoall; in place it is staged, and once only
  char* const given = in_place ? outs->place(at, all * piece) : ins->place(at, all * piece);
  out = in_place ? given : outs->place(at, all * piece);
  put<int>(given, all * n);
  run([&] { must(xylAlltoAll(given, out, n, xylInt32, comm, stream), "xylAlltoAll"); }, in_place ? 0 : replays);
  wrong = differs<int>(out, all * n,
                       [&](std::size_t i) { return value_of(static_cast<int>(i / n), mine * n + i % n); });
  expect(wrong.empty(), "alltoall of %zu, offset %zu, in place %d: %s", n, offset, in_place, wrong.c_str());
  expect(outs->spoiled(at, all * piece) == 0, "alltoall of %zu wrote beside its output", n);
  // reduce-scatter
  char* const from = ins->place(at, all * piece);
  char* const block = in_place ? from + mine * piece : outs->place(at, piece);
  put<int>(from, all * n);
  run([&] { must(xylReduceScatter(from, block, n, xylInt32, xylSum, comm, stream), "xylReduceScatter"); },
      in_place ? 0 : replays);
  wrong = differs<int>(block, n, [&](std::size_t i) { return reduced(xylSum, mine * n + i); });
  expect(wrong.empty(), "reducescatter of %zu, offset %zu, in place %d: %s", n, offset, in_place, wrong.c_str());
}

// Where only what is received is registered, or only what is sent; and the calls that never use both.
void check_one_side(std::size_t n, std::size_t offset, int replays) {
  const auto all = static_cast<std::size_t>(ranks_), mine = static_cast<std::size_t>(rank_);
  const std::size_t piece = n * sizeof(int), at = offset * sizeof(int);
  char* const from = plain + most_bytes;
  const auto checked = [&](const char* what, const char* got, std::size_t count, const auto& want) {
    const std::string wrong = differs<int>(got, count, want);
    expect(wrong.empty(), "%s of %zu, one side registered, offset %zu, replays %d: %s", what, n, offset, replays,
           wrong.c_str());
  };
  char* out = outs->place(at, all * piece);
  put<int>(from, all * n);
  run([&] { must(xylAllGather(from, out, n, xylInt32, comm, stream), "xylAllGather"); }, replays);
  checked("allgather", out, all * n, [&](std::size_t i) { return value_of(static_cast<int>(i / n), i % n); });
  out = outs->place(at, all * piece);
  run([&] { must(xylAlltoAll(from, out, n, xylInt32, comm, stream), "xylAlltoAll"); }, replays);
  checked("alltoall", out, all * n,
          [&](std::size_t i) { return value_of(static_cast<int>(i / n), mine * n + i % n); });
  expect(outs->spoiled(at, all * piece) == 0, "alltoall of %zu wrote beside its output", n);
  for (const int root : {0, ranks_ - 1})
    for (const bool in_place : {false, true}) {
      out = outs->place(at, piece);
      char* const given = in_place && rank_ == root ? out : from;
      put<int>(given, n);
      run([&] { must(xylBroadcast(given, out, n, xylInt32, root, comm, stream), "xylBroadcast"); }, replays);
      checked("broadcast", out, n, [&](std::size_t i) { return value_of(root, i); });
      expect(outs->spoiled(at, piece) == 0, "broadcast of %zu wrote beside its output", n);
      char* const sent = ins->place(at, piece);
      char* const to = in_place ? sent : plain;
      put<int>(sent, n);
      run([&] { must(xylReduce(sent, to, n, xylInt32, xylSum, root, comm, stream), "xylReduce"); },
          in_place ? 0 : replays);
      if (rank_ == root) checked("reduce", to, n, [&](std::size_t i) { return reduced(xylSum, i); });
      if (rank_ != root) checked("input of a reduce", sent, n, [&](std::size_t i) { return value_of(rank_, i); });
    }
}

// Nothing waits between the calls: each input is written over the last one's as soon as the stream is there.
void check_streams_of_calls(std::size_t count, bool captured) {
  constexpr unsigned rounds = 24;
  using T = float;
  const std::size_t bytes = count * sizeof(T);
  char *const in = ins->place(0, bytes), *const out = outs->place(0, bytes);
  char *staged = nullptr, *results = nullptr, *small = nullptr;
  must(cudaMalloc(reinterpret_cast<void**>(&staged), rounds * bytes), "cudaMalloc");
  must(cudaMalloc(reinterpret_cast<void**>(&results), rounds * bytes), "cudaMalloc");
  must(cudaMalloc(reinterpret_cast<void**>(&small), 4096), "cudaMalloc");
  must(cudaMemset(small, 0, 4096), "cudaMemset");
  for (unsigned k = 0; k < rounds; ++k) put<T>(staged + k * bytes, count, k);
  run(
      [&] {
        for (unsigned k = 0; k < rounds; ++k) {
          const bool in_place = k % 3 == 2;
          must(cudaMemcpyAsync(in, staged + k * bytes, bytes, cudaMemcpyDeviceToDevice, stream), "copy");
          must(xylAllReduce(in, in_place ? in : out, count, xylFloat32, xylSum, comm, stream), "xylAllReduce");
          if (k % 4 == 1)
            must(xylAllReduce(small, small, 256, xylInt32, xylSum, comm, stream), "small xylAllReduce");
          must(cudaMemcpyAsync(results + k * bytes, in_place ? in : out, bytes, cudaMemcpyDeviceToDevice, stream),
               "copy");
        }
      },
      captured ? 3 : 0);
  for (unsigned k = 0; k < rounds; ++k) {
    const std::string wrong =
        differs<T>(results + k * bytes, count, [&](std::size_t i) { return reduced(xylSum, i, k); });
    expect(wrong.empty(), "round %u of allreduces of %zu over the same memory, captured %d: %s", k, count, captured,
           wrong.c_str());
  }
  must(cudaFree(staged), "cudaFree");
  must(cudaFree(results), "cudaFree");
  must(cudaFree(small), "cudaFree");
}

std::string registered() {
  std::size_t length = 0;
  must(xylCommDescribe(comm, nullptr, &length), "xylCommDescribe");
  std::string text(length, 'x');
  must(xylCommDescribe(comm, text.data(), &length), "xylCommDescribe");
  const std::size_t at = text.find("\"registered\": [");
  return at == std::string::npos ? "" : text.substr(at, 1000);
}

// Part of what cudaMalloc gave is used in place; managed memory is staged.
void check_other_memory() {
  constexpr std::size_t n = 300'000, shift = 1 << 20;
  char *raw = nullptr, *managed = nullptr;
  must(cudaMalloc(reinterpret_cast<void**>(&raw), 8 << 20), "cudaMalloc");
  must(cudaMallocManaged(reinterpret_cast<void**>(&managed), 4 << 20), "cudaMallocManaged");
  for (char* const memory : {raw + shift, managed}) {
    void* handle = nullptr;
    must(xylCommRegister(comm, memory, 4 << 20, &handle), "xylCommRegister");
    const bool in_place = registered().find("\"in_place\": false") == std::string::npos;
    expect(in_place == (memory != managed || ranks_ == 1), "%s: %s",
           memory == managed ? "managed memory" : "part of an allocation", registered().c_str());
    put<float>(memory, n);
    must(xylAllReduce(memory, memory, n, xylFloat32, xylSum, comm, stream), "xylAllReduce");
    const std::string wrong = differs<float>(memory, n, [](std::size_t i) { return reduced(xylSum, i); });
    expect(wrong.empty(), "other memory: %s", wrong.c_str());
    must(xylCommDeregister(comm, handle), "xylCommDeregister");
  }
  std::size_t before = 0, after = 0, all = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  must(cudaMemGetInfo(&before, &all), "cudaMemGetInfo");
  for (int k = 0; k < 50; ++k) {
    const window one(8 << 20);
    put<float>(one.data(), n);
    must(xylAllReduce(one.data(), one.data(), n, xylFloat32, xylSum, comm, stream), "xylAllReduce");
    const std::string wrong = differs<float>(one.data(), n, [](std::size_t i) { return reduced(xylSum, i); });
    expect(wrong.empty(), "registration %d: %s", k, wrong.c_str());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  must(cudaMemGetInfo(&after, &all), "cudaMemGetInfo");
  expect(after + (64u << 20) >= before, "50 registrations took %zd bytes of device memory",
         static_cast<ssize_t>(before - after));
  must(cudaFree(raw), "cudaFree");
  must(cudaFree(managed), "cudaFree");
}

void check_all(bool quick) {
  window in(most_bytes), out(most_bytes);
  ins = &in;
  outs = &out;
  must(cudaMalloc(reinterpret_cast<void**>(&plain), 2 * most_bytes), "cudaMalloc");
  expect(registered().find("\"in_place\": false") == std::string::npos, "not in place: %s", registered().c_str());
  for (const std::size_t count : {0, 1, 7, 8, 1000, 16'384, 131'072, 131'073, 500'000, 2'000'003}) {
    for (const target to : {target::window, target::same, target::plain, target::neither}) {
      check_all_reduce<bfloat16>(xylBfloat16, xylSum, count, 0, to, 0);
      check_all_reduce<float>(xylFloat32, xylSum, count, 3, to, 0);
      check_all_reduce<bfloat16>(xylBfloat16, xylSum, count, 8, to, 3);
      if (quick) continue;
      check_all_reduce<float16>(xylFloat16, xylMax, count, 1, to, 0);
      check_all_reduce<double>(xylFloat64, xylSum, count, 1, to, 0);
      check_all_reduce<std::int8_t>(xylInt8, xylSum, count, 5, to, 0);
      check_all_reduce<std::int64_t>(xylInt64, xylMax, count, 0, to, 2);
      if ((ranks_ & (ranks_ - 1)) == 0) check_all_reduce<float>(xylFloat32, xylAvg, count, 0, to, 0);
    }
  }
  for (const target to : {target::window, target::plain, target::neither})
    check_all_reduce<bfloat16>(xylBfloat16, xylSum, std::size_t{quick ? 8u : 32u} << 20, 0, to, 0);
  progress("allreduce");
  for (const std::size_t n : {1, 1000, 65'536, 65'537, 500'001})
    for (const bool in_place : {false, true})
      for (const int replays : {0, 3})
        if (n * sizeof(int) * static_cast<unsigned>(ranks_) < most_bytes - 4096)
          check_blocks(n, n % 3, in_place, replays);
  progress("allgather, alltoall, reducescatter");
  for (const std::size_t n : {1, 1000, 65'537, 500'001, 1'500'000})
    for (const int replays : {0, 3})
      if (n * sizeof(int) * static_cast<unsigned>(ranks_) < most_bytes - 4096) check_one_side(n, n % 3, replays);
  progress("one side, broadcast, reduce");
  for (const std::size_t count : {1000, 100'000, 600'000})
    for (const bool captured : {false, true}) check_streams_of_calls(count, captured);
  progress("streams of calls");
  check_other_memory();
  progress("other memory");
  xylResult_t later = xylSuccess;
  must(xylCommGetAsyncError(comm, &later), "xylCommGetAsyncError");
  expect(later == xylSuccess, "out of service: %d", later);
  must(cudaFree(plain), "cudaFree");
}

// Ends the communicator.
void check_places_that_differ() {
  constexpr std::size_t n = 400'000;
  void *memory = nullptr, *handle = nullptr;
  must(xylMemAlloc(&memory, 4 * n * sizeof(float), xylMemDevice), "xylMemAlloc");
  must(xylCommRegister(comm, memory, 4 * n * sizeof(float), &handle), "xylCommRegister");
  char* const in = static_cast<char*>(memory) + (rank_ == ranks_ - 1 ? 64 : 0);
  char* const out = static_cast<char*>(memory) + 2 * n * sizeof(float);
  must(cudaMemset(memory, 0, 4 * n * sizeof(float)), "cudaMemset");
  (void)xylAllReduce(in, out, n, xylFloat32, xylSum, comm, stream);
  must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  xylResult_t code = xylSuccess;
  must(xylCommGetAsyncError(comm, &code), "xylCommGetAsyncError");
  expect(code == xylInvalidUsage, "places that differ: code %d", code);
  const std::string wrong = differs<float>(out, 2 * n, [](std::size_t) { return 0; });
  expect(wrong.empty(), "places that differ: %s", wrong.c_str());
  MPI_Barrier(MPI_COMM_WORLD);
  must(xylCommDestroy(comm), "xylCommDestroy");
  comm = nullptr;
  MPI_Barrier(MPI_COMM_WORLD);
  must(xylMemFree(memory), "xylMemFree");
}

}  // namespace
}  // namespace xyl::gpu_test

int main(int argc, char** argv) {
  using namespace xyl::gpu_test;
  const bool quick = argc > 1 && std::strcmp(argv[1], "quick") == 0;
  return mpi_program(argc, argv, [&] {
    ::alarm(300);
    ::setenv("XYLEM_TIMEOUT", "20", 0);
    stream = new_stream();
    for (const char* const one : {"auto", "twoshot", "oneshot", "staged"}) {
      form = one;
      scene = "rank " + std::to_string(rank_) + ", " + form;
      ::setenv("XYLEM_PULL", form, 1);
      if (make_communicator()) {
        check_all(quick);
        if (ranks_ > 1) check_places_that_differ();
        progress("places that differ");
      }
      if (comm != nullptr) destroy_communicator();
    }
  });
}
