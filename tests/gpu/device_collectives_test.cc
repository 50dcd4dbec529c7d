// SPDX-License-Identifier: BSD-3-Clause
//
// Every collective other than allreduce, and send and receive, on device memory through the ABI, checked on every
// byte: eager and in graphs, all roots, sizes from nothing to several megabytes, odd addresses, in place,
// alternating with allreduce. An MPI program (mpirun -np N tests/device_collectives_test [quick]); rank r uses
// device r % devices. Exit 77 without a GPU, 1 with a failure.

#include <cstring>
#include <functional>
#include <vector>

#include "proto/call.hpp"
#include "proto/reduction.hpp"
#include "tests/gpu/graph.hpp"
#include "tests/gpu/mpi_communicator.hpp"

namespace xyl::gpu_test {
namespace {

cudaStream_t streams[2];

// Device memory with a guard on both sides.
class memory {
 public:
  static constexpr std::size_t guard = 256;
  static constexpr int filling = 0xa5;

  explicit memory(std::size_t most) : most_(most) { must(cudaMalloc(&data_, most + 3 * guard), "cudaMalloc"); }
  ~memory() { (void)cudaFree(data_); }
  memory(const memory&) = delete;

  // `bytes` from so many bytes behind an aligned address on.
  char* place(std::size_t bytes, std::size_t shift, cudaStream_t stream) {
    bytes_ = bytes;
    shift_ = shift;
    if (bytes + shift > most_) MPI_Abort(MPI_COMM_WORLD, 1);
    must(cudaMemsetAsync(data_, filling, bytes + shift + 2 * guard, stream), "cudaMemsetAsync");
    return data() + guard + shift;
  }
  std::vector<unsigned char> content(cudaStream_t stream) const {
    std::vector<unsigned char> all(bytes_ + shift_ + 2 * guard);
    must(cudaMemcpyAsync(all.data(), data_, all.size(), cudaMemcpyDeviceToHost, stream), "copy out");
    must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return all;
  }
  std::size_t begin() const { return guard + shift_; }

 private:
  char* data() const { return static_cast<char*>(data_); }
  void* data_ = nullptr;
  std::size_t most_, bytes_ = 0, shift_ = 0;
};

unsigned char byte_of(int rank, std::size_t i, unsigned seed) {
  return static_cast<unsigned char>(mix64(seed * 64 + static_cast<unsigned>(rank) + 1) + i * 37 + (i >> 8) * 11);
}

struct plan {
  collective what;
  std::size_t count;  // elements of a piece
  xylDataType_t type = xylInt8;
  unsigned element = 1;
  int root = 0;
  bool in_place = false;
  std::size_t shift = 0;  // elements
  int stream = 0;
  unsigned seed = 0;
};

xylResult_t call(const plan& p, const void* in, void* out, cudaStream_t stream) {
  switch (p.what) {
    case collective::broadcast:
      return xylBroadcast(in, out, p.count, p.type, p.root, comm, stream);
    case collective::all_gather:
      return xylAllGather(in, out, p.count, p.type, comm, stream);
    case collective::all_to_all:
      return xylAlltoAll(in, out, p.count, p.type, comm, stream);
    case collective::gather:
      return xylGather(in, out, p.count, p.type, p.root, comm, stream);
    case collective::scatter:
      return xylScatter(in, out, p.count, p.type, p.root, comm, stream);
    case collective::send: {  // around the ring, one message after the other
      const int next = (rank_ + 1) % ranks_, previous = (rank_ + ranks_ - 1) % ranks_;
      for (int turn = 0; turn < 2; ++turn) {
        const bool sends = (rank_ == 0) == (turn == 0);
        const xylResult_t code = sends ? xylSend(in, p.count, p.type, next, comm, stream)
                                       : xylRecv(out, p.count, p.type, previous, comm, stream);
        if (code != xylSuccess) return code;
      }
      return xylSuccess;
    }
    default:
      return xylInternalError;
  }
}

bool has_many_in(collective w) { return w == collective::all_to_all || w == collective::scatter; }
bool has_many_out(collective w) {
  return w == collective::all_to_all || w == collective::all_gather || w == collective::gather;
}

memory *ins, *outs;
std::vector<unsigned char> staging;

// One call, eager, or captured and launched `replays` times.
void check_move(const plan& p, int replays = 0) {
  const bool from_root = p.what == collective::broadcast || p.what == collective::scatter;
  const bool to_root = p.what == collective::gather;
  const bool many_in = has_many_in(p.what), many_out = has_many_out(p.what);
  const bool has_in = !from_root || rank_ == p.root, has_out = !to_root || rank_ == p.root;
  const std::size_t piece = p.count * p.element, n = static_cast<std::size_t>(ranks_);
  const std::size_t in_bytes = has_in ? piece * (many_in ? n : 1) : 0;
  const std::size_t out_bytes = has_out ? piece * (many_out ? n : 1) : 0;
  cudaStream_t stream = streams[p.stream];
  char* in = ins->place(in_bytes, p.shift * p.element, stream);
  char* out = outs->place(out_bytes, p.shift * p.element, stream);
  const memory* result = outs;
  std::size_t at = outs->begin();
  if (p.in_place && has_in && has_out && p.what != collective::send) {
    const std::size_t own = static_cast<std::size_t>(rank_) * piece;
    if (in_bytes > out_bytes) {
      out = in + own;
      result = ins;
      at = ins->begin() + own;
    } else {
      in = out + (out_bytes > in_bytes ? own : 0);
    }
  }
  staging.resize(in_bytes);
  for (std::size_t i = 0; i < in_bytes; ++i) staging[i] = byte_of(rank_, i, p.seed);
  must(cudaMemcpyAsync(in, staging.data(), in_bytes, cudaMemcpyHostToDevice, stream), "copy in");
  must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  const void* const given = has_in ? in : nullptr;
  void* const taken = has_out ? out : nullptr;
  if (replays == 0) {
    must(call(p, given, taken, stream), "call");
  } else {
    replay(stream, replays, [&] { must(call(p, given, taken, stream), "captured call"); });
  }
  const auto got = result->content(stream);
  std::size_t wrong = 0, first = 0;
  const auto compare = [&](std::size_t where, unsigned char want) {
    if (got[where] != want && wrong++ == 0) first = where - at;
  };
  for (int q = 0; has_out && q < ranks_; ++q) {
    if (from_root && q != p.root) continue;
    if (p.what == collective::send && q != (rank_ + ranks_ - 1) % ranks_) continue;
    const std::size_t theirs = many_in ? piece * static_cast<unsigned>(rank_) : 0;
    const std::size_t mine = many_out ? piece * static_cast<unsigned>(q) : 0;
    // In place, an alltoall overwrites what later replays would send.
    if (p.in_place && p.what == collective::all_to_all && replays > 1) continue;
    for (std::size_t i = 0; i < piece; ++i) compare(at + mine + i, byte_of(q, theirs + i, p.seed));
  }
  for (std::size_t i = 0; i < memory::guard; ++i) {
    compare(result->begin() - 1 - i, memory::filling);
    compare(got.size() - 1 - i, memory::filling);
  }
  expect(
      wrong == 0,
      "collective %d, %zu elements of %u bytes, root %d, in place %d, shift %zu, replays %d: %zu wrong from %zd on",
      static_cast<int>(p.what), p.count, p.element, p.root, p.in_place, p.shift, replays, wrong,
      static_cast<ssize_t>(first));
}

float value_of(int rank, std::size_t i) {
  return static_cast<float>(1 + (i * 7 + static_cast<std::size_t>(rank) * 3) % 5);
}

// Floats, and bfloat16 whose sums are exact too. root -1: reduce-scatter. factor: of a premultiplied sum, by rank.
template <class T>
void check_reduce(xylDataType_t type, xylRedOp_t op, std::size_t count, int root, bool in_place, std::size_t shift,
                  int stream_number, const std::function<float(int)>& factor, bool captured) {
  using traits = element_traits<T>;
  const bool scatters = root < 0, has_out = scatters || root == rank_;
  const std::size_t in_count = scatters ? count * static_cast<unsigned>(ranks_) : count;
  const std::size_t own = scatters ? count * static_cast<unsigned>(rank_) : 0;
  cudaStream_t stream = streams[stream_number];
  T* const in = reinterpret_cast<T*>(ins->place(in_count * sizeof(T), shift * sizeof(T), stream));
  T* const apart = reinterpret_cast<T*>(outs->place(has_out ? count * sizeof(T) : 0, shift * sizeof(T), stream));
  T* const out = in_place ? in + own : apart;
  std::vector<T> values(in_count);
  for (std::size_t i = 0; i < in_count; ++i) values[i] = traits::encode(value_of(rank_, i));
  must(cudaMemcpyAsync(in, values.data(), in_count * sizeof(T), cudaMemcpyHostToDevice, stream), "copy in");
  must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  const auto reduce = [&] {
    return scatters ? xylReduceScatter(in, out, count, type, op, comm, stream)
                    : xylReduce(in, has_out ? out : nullptr, count, type, op, root, comm, stream);
  };
  if (captured) {
    replay(stream, in_place ? 1 : 3, [&] { must(reduce(), "captured reduce"); });
  } else {
    must(reduce(), "reduce");
  }
  const memory& result = in_place ? *ins : *outs;
  const auto got = result.content(stream);
  const std::size_t at = result.begin() + (in_place ? own * sizeof(T) : 0);
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = 0; has_out && i < count; ++i) {
    float want = 0;
    for (int r = 0; r < ranks_; ++r) {
      const float x = factor(r) * value_of(r, own + i);
      want = r == 0 ? x : op == xylMax ? std::max(want, x) : want + x;
    }
    if (op == xylAvg) want /= static_cast<float>(ranks_);
    const T encoded = traits::encode(want);
    if (std::memcmp(&got[at + i * sizeof(T)], &encoded, sizeof(T)) != 0 && wrong++ == 0) first = i;
  }
  for (std::size_t i = 0; i < memory::guard; ++i)
    wrong += (got[result.begin() - 1 - i] != memory::filling) + (got[got.size() - 1 - i] != memory::filling);
  expect(wrong == 0,
         "reduction of type %d, op %d, %zu elements, root %d, in place %d, shift %zu: %zu wrong from %zu",
         static_cast<int>(type), static_cast<int>(op), count, root, in_place, shift, wrong, first);
}

void check_all_reduce(std::size_t count, int stream_number) {
  cudaStream_t stream = streams[stream_number];
  auto* const data = reinterpret_cast<float*>(ins->place(count * sizeof(float), 0, stream));
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of(rank_, i);
  must(cudaMemcpyAsync(data, values.data(), count * sizeof(float), cudaMemcpyHostToDevice, stream), "copy in");
  must(xylAllReduce(data, data, count, xylFloat32, xylSum, comm, stream), "xylAllReduce");
  must(cudaMemcpyAsync(values.data(), data, count * sizeof(float), cudaMemcpyDeviceToHost, stream), "copy out");
  must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  for (std::size_t i = 0; i < count; ++i) {
    float want = 0;
    for (int r = 0; r < ranks_; ++r) want += value_of(r, i);
    if (!expect(values[i] == want, "allreduce of %zu: element %zu", count, i)) return;
  }
}

void run(bool quick) {
  const std::size_t most = std::size_t{40} << 20;
  memory in(most), out(most);
  ins = &in;
  outs = &out;
  constexpr collective moves[] = {collective::broadcast, collective::all_gather, collective::all_to_all,
                                  collective::gather,    collective::scatter,    collective::send};
  const auto progress = [](const char* what) {
    if (rank_ == 0) std::printf("%s: %d checks, %d failures\n", what, checks, failures);
    std::fflush(stdout);
  };
  unsigned seed = 0;
  for (const collective what : moves) {
    if (what == collective::send && ranks_ == 1) continue;
    for (const std::size_t bytes :
         {0, 1, 7, 16, 100, 1000, 4096, 14'336, 65'536, 65'537, 300'000, 1'048'576, 4'000'001}) {
      if (bytes * static_cast<unsigned>(ranks_) > most / 2) continue;
      const bool has_root =
          what == collective::broadcast || what == collective::gather || what == collective::scatter;
      const int roots = has_root ? (bytes > 70'000 || quick ? 2 : ranks_) : 1;
      for (int root = 0; root < roots && root < ranks_; ++root)
        for (const bool in_place : {false, true}) {
          ++seed;
          const unsigned element = 1u << seed % 4;
          const xylDataType_t type = element == 1   ? xylUint8
                                     : element == 2 ? xylBfloat16
                                     : element == 4 ? xylInt32
                                                    : xylFloat64;
          check_move({what, bytes / element, type, element, root, in_place, bytes < 100'000 ? seed / 4 % 4 : 0,
                      static_cast<int>(seed % 2), seed});
          if (seed % 3 == 0) check_all_reduce(1 + seed * 97 % 5000, static_cast<int>(seed % 2));
        }
    }
    for (const std::size_t bytes : {8, 5000, 200'000, 3'000'000}) {
      if (bytes * static_cast<unsigned>(ranks_) > most / 2) continue;
      ++seed;
      check_move(
          {what, bytes, xylUint8, 1, static_cast<int>(seed) % ranks_, false, 0, static_cast<int>(seed % 2), seed},
          5);
    }
    progress(what == collective::send ? "send and receive" : "movement");
  }
  const auto one = [](int) { return 1.f; };
  for (const std::size_t count : {0, 1, 3, 100, 2000, 16'384, 70'001, 500'000, 1'200'003}) {
    if (count * 4 * static_cast<unsigned>(ranks_) > most / 2) continue;
    for (int root = -1; root < (count > 20'000 || quick ? 1 : ranks_); ++root)
      for (const bool in_place : {false, true}) {
        ++seed;
        const int stream = static_cast<int>(seed % 2);
        check_reduce<float>(xylFloat32, xylSum, count, root, in_place, seed % 3, stream, one, false);
        check_reduce<bfloat16>(xylBfloat16, xylSum, count, root, in_place, 0, stream, one, false);
        check_reduce<float>(xylFloat32, xylMax, count, root, in_place, 0, stream, one, false);
        if ((ranks_ & (ranks_ - 1)) == 0)
          check_reduce<float>(xylFloat32, xylAvg, count, root, in_place, 1, stream, one, false);
        if (count > 0) check_reduce<float>(xylFloat32, xylSum, count, root, in_place, 0, stream, one, true);
      }
  }
  progress("reductions");

  // Each rank's own scalar, on the host and on the device; the latter is read when the graph runs.
  float mine = static_cast<float>(rank_) + 0.5f;
  float* on_device = nullptr;
  must(cudaMalloc(reinterpret_cast<void**>(&on_device), sizeof mine), "cudaMalloc");
  must(cudaMemcpy(on_device, &mine, sizeof mine, cudaMemcpyHostToDevice), "cudaMemcpy");
  xylRedOp_t by_host, by_device;
  must(xylRedOpCreatePreMulSum(&by_host, &mine, xylFloat32, xylScalarHostImmediate, comm), "create");
  must(xylRedOpCreatePreMulSum(&by_device, on_device, xylFloat32, xylScalarDevice, comm), "create");
  const auto factor = [](int r) { return static_cast<float>(r) + 0.5f; };
  for (const xylRedOp_t op : {by_host, by_device})
    for (const std::size_t count : {1, 1000, 300'000})
      for (int root = -1; root < ranks_; ++root) {
        check_reduce<float>(xylFloat32, op, count, root, false, 0, root & 1, factor, false);
        check_reduce<float>(xylFloat32, op, count, root, false, 0, root & 1, factor, true);
      }
  must(xylRedOpDestroy(by_host, comm), "destroy");
  must(xylRedOpDestroy(by_device, comm), "destroy");
  progress("premultiplied sums");
  for (int k = 0; k < 20; ++k) must(xylBarrier(comm, streams[k % 2]), "xylBarrier");
  must(cudaStreamSynchronize(streams[0]), "cudaStreamSynchronize");
  must(cudaStreamSynchronize(streams[1]), "cudaStreamSynchronize");
  must(cudaFree(on_device), "cudaFree");
  xylResult_t later = xylSuccess;
  must(xylCommGetAsyncError(comm, &later), "xylCommGetAsyncError");
  expect(later == xylSuccess, "the communicator is out of service: %d", later);
  progress("barriers");
}

}  // namespace
}  // namespace xyl::gpu_test

int main(int argc, char** argv) {
  using namespace xyl::gpu_test;
  const bool quick = argc > 1 && std::strcmp(argv[1], "quick") == 0;
  return mpi_program(argc, argv, [&] {
    for (cudaStream_t& s : streams) s = new_stream();
    if (make_communicator()) run(quick);
    destroy_communicator();
  });
}
