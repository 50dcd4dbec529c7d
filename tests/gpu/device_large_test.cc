// SPDX-License-Identifier: BSD-3-Clause
//
// Large calls on device memory through the ABI, one behind the other: reductions whose pieces fill the workspace
// between allreduces that do, and sends and receives of all sizes, of some ranks and of all, between other calls.
// An MPI program (mpirun -np N tests/device_large_test); rank r uses device r % devices. Exit 77 without a GPU, 1
// with a failure.

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "proto/call.hpp"
#include "tests/gpu/graph.hpp"
#include "tests/gpu/mpi_communicator.hpp"

namespace xyl::gpu_test {
namespace {

float value_of(int rank, std::size_t i) {
  return static_cast<float>(1 + (i * 7 + static_cast<std::size_t>(rank) * 3) % 5);
}
unsigned char byte_of(int rank, std::size_t i) {
  return static_cast<unsigned char>(mix64(static_cast<unsigned>(rank) + 1) + i * 37 + (i >> 8) * 11);
}

// Device memory for so many elements.
template <class T>
class array {
 public:
  explicit array(std::size_t count) { must(cudaMalloc(&data_, count * sizeof(T)), "cudaMalloc"); }
  ~array() { (void)cudaFree(data_); }
  array(array&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  T* get() const { return static_cast<T*>(data_); }

 private:
  void* data_ = nullptr;
};

void copy_in(void* to, const void* from, std::size_t bytes) {
  must(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copy in");
}
void copy_out(void* to, const void* from, std::size_t bytes) {
  must(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "copy out");
}
void clear(void* memory, std::size_t bytes) {
  must(cudaMemset(memory, 0xa5, bytes), "cudaMemset");
  must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

// Reductions whose pieces are as large as what the workspace holds, one behind the other with allreduces of 16 MB
// between them and nobody waiting: what one leaves in the workspace is not the next one's, nor a peer's.
void large_reductions(cudaStream_t stream) {
  const std::size_t piece = (std::size_t{13} << 20) / sizeof(float) + 5;
  const std::size_t whole = (std::size_t{16} << 20) / sizeof(float), n = static_cast<std::size_t>(ranks_);
  std::vector<float> values(std::max(whole, piece * n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(rank_, i);
  const array<float> in(values.size());
  copy_in(in.get(), values.data(), values.size() * sizeof(float));
  struct result {
    const char* name;
    std::size_t first, count;
    array<float> out;
  };
  const auto result_of = [](const char* name, std::size_t first, std::size_t count) {
    return result{name, first, count, array<float>(count + 1)};
  };
  const result results[] = {result_of("allreduce before", 0, whole),
                            result_of("reduce-scatter", piece * static_cast<unsigned>(rank_), piece),
                            result_of("allreduce between", 0, whole),
                            result_of("reduce", 0, rank_ == 0 ? piece : 0),
                            result_of("allreduce behind", 0, whole)};
  const auto all_reduce = [&](const result& r) {
    must(xylAllReduce(in.get(), r.out.get(), whole, xylFloat32, xylSum, comm, stream), r.name);
  };
  for (int round = 0; round < 3; ++round) {
    for (const result& r : results) clear(r.out.get(), (r.count + 1) * sizeof(float));
    all_reduce(results[0]);
    must(xylReduceScatter(in.get(), results[1].out.get(), piece, xylFloat32, xylSum, comm, stream),
         "xylReduceScatter");
    all_reduce(results[2]);
    must(xylReduce(in.get(), rank_ == 0 ? results[3].out.get() : nullptr, piece, xylFloat32, xylSum, 0, comm,
                   stream),
         "xylReduce");
    all_reduce(results[4]);
    must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    for (const result& r : results) {
      std::vector<float> got(r.count + 1);
      copy_out(got.data(), r.out.get(), got.size() * sizeof(float));
      std::size_t wrong = 0, where = 0;
      for (std::size_t i = 0; i < r.count; ++i) {
        float want = 0;
        for (int p = 0; p < ranks_; ++p) want += value_of(p, r.first + i);
        if (got[i] != want && wrong++ == 0) where = i;
      }
      std::uint32_t behind = 0;
      std::memcpy(&behind, &got[r.count], sizeof behind);
      expect(wrong == 0 && behind == 0xa5a5a5a5u, "%s in round %d: %zu wrong from %zu on, behind it %x", r.name,
             round, wrong, where, behind);
    }
  }
}

class transfers {
 public:
  explicit transfers(cudaStream_t stream)
      : stream_(stream), out_(most), in_(most * static_cast<unsigned>(ranks_)), sum_(most_of_sum), got_(most) {
    std::vector<unsigned char> values(most);
    for (std::size_t i = 0; i < most; ++i) values[i] = byte_of(rank_, i);
    copy_in(out_.get(), values.data(), most);
  }

  void run() {
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{9000}, std::size_t{70'001}, std::size_t{300'000},
                                    std::size_t{1'000'003}, std::size_t{1} << 21, most}) {
      for (int distance = 1; distance < ranks_; ++distance) {
        shifts(bytes, distance);
        pair(bytes, distance);
      }
      everybody(bytes);
    }
  }

 private:
  static constexpr std::size_t most = std::size_t{9} << 20, most_of_sum = 4096;

  unsigned char* place(int p) const { return in_.get() + static_cast<unsigned>(p) * most; }
  void check(int from, const unsigned char* at, std::size_t bytes, const char* what) {
    copy_out(got_.data(), at, bytes);
    std::size_t wrong = 0, where = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      if (got_[i] != byte_of(from, i) && wrong++ == 0) where = i;
    expect(wrong == 0, "%s of %zu bytes from rank %d: %zu wrong from %zu on", what, bytes, from, wrong, where);
  }
  // Uses the other half of what messages lie in, and is a call in which some are ahead of others.
  void all_reduce(std::size_t count) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = value_of(rank_, i);
    copy_in(sum_.get(), values.data(), count * sizeof(float));
    must(xylAllReduce(sum_.get(), sum_.get(), count, xylFloat32, xylSum, comm, stream_), "xylAllReduce");
    must(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    copy_out(values.data(), sum_.get(), count * sizeof(float));
    for (std::size_t i = 0; i < count; ++i) {
      float want = 0;
      for (int p = 0; p < ranks_; ++p) want += value_of(p, i);
      if (!expect(values[i] == want, "allreduce of %zu: element %zu", count, i)) return;
    }
  }

  // Everybody sends to the rank that comes `distance` later, eager and in a graph.
  void shifts(std::size_t bytes, int distance) {
    const int next = (rank_ + distance) % ranks_, previous = (rank_ + ranks_ - distance) % ranks_;
    const auto shift = [&] {
      must(xylGroupStart(), "xylGroupStart");
      must(xylRecv(place(0), bytes, xylUint8, previous, comm, stream_), "xylRecv");
      must(xylSend(out_.get(), bytes, xylUint8, next, comm, stream_), "xylSend");
      must(xylGroupEnd(), "xylGroupEnd");
    };
    clear(place(0), bytes);
    shift();
    all_reduce(1 + bytes % 3000);
    shift();
    must(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    check(previous, place(0), bytes, "a shift");
    clear(place(0), bytes);
    replay(stream_, 3, shift);
    check(previous, place(0), bytes, "a shift in a graph");
  }

  // From rank 0 to one other; the rest goes on.
  void pair(std::size_t bytes, int to) {
    clear(place(0), bytes);
    if (rank_ == 0) must(xylSend(out_.get(), bytes, xylUint8, to, comm, stream_), "xylSend");
    if (rank_ == to) must(xylRecv(place(0), bytes, xylUint8, 0, comm, stream_), "xylRecv");
    all_reduce(2000);
    if (rank_ == to) check(0, place(0), bytes, "a message");
  }

  // Of sizes that differ by sender.
  void everybody(std::size_t bytes) {
    const auto size_of = [&](int p) {
      return bytes / 2 + bytes / 2 / static_cast<unsigned>(ranks_) * static_cast<unsigned>(p);
    };
    clear(in_.get(), most * static_cast<unsigned>(ranks_));
    must(xylGroupStart(), "xylGroupStart");
    for (int p = 0; p < ranks_; ++p) {
      if (p == rank_) continue;
      must(xylSend(out_.get(), size_of(rank_), xylUint8, p, comm, stream_), "xylSend");
      must(xylRecv(place(p), size_of(p), xylUint8, p, comm, stream_), "xylRecv");
    }
    must(xylGroupEnd(), "xylGroupEnd");
    must(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    for (int p = 0; p < ranks_; ++p)
      if (p != rank_) check(p, place(p), size_of(p), "everybody's message");
  }

  const cudaStream_t stream_;
  const array<unsigned char> out_, in_;
  const array<float> sum_;
  std::vector<unsigned char> got_;
};

}  // namespace
}  // namespace xyl::gpu_test

int main(int argc, char** argv) {
  using namespace xyl::gpu_test;
  return mpi_program(
      argc, argv,
      [] {
        const cudaStream_t stream = new_stream();
        if (make_communicator()) {
          step("large reductions between allreduces", [&] { large_reductions(stream); });
          step("messages of all sizes", [&] { transfers(stream).run(); });
          xylResult_t later = xylSuccess;
          must(xylCommGetAsyncError(comm, &later), "xylCommGetAsyncError");
          expect(later == xylSuccess, "the communicator is out of service: %d", later);
        }
        destroy_communicator();
      },
      2);
}
