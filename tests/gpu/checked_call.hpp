// SPDX-License-Identifier: BSD-3-Clause
//
// One allreduce in device memory, compared with the CPU on every element, and guard bytes around the result.
#pragma once

#include "tests/gpu/device_rank.hpp"
#include "tests/gpu/reference.hpp"

namespace xyl::gpu_test {

// Device memory with a guard of 0xa5 on both sides of every result.
class buffers {
 public:
  explicit buffers(std::size_t bytes) : bytes_(bytes) {
    for (char** memory : {&in_, &out_}) {
      void* allocated = nullptr;
      must(cudaMalloc(&allocated, bytes + 512), "cudaMalloc");
      *memory = static_cast<char*>(allocated);
    }
  }
  ~buffers() {
    (void)cudaFree(in_);
    (void)cudaFree(out_);
  }

  // Runs one call; `shift`: elements by which both buffers are off their alignment.
  template <class T>
  void run(device_rank& r, algorithm how, unsigned blocks, xylRedOp_t op, xylDataType_t type, std::uint64_t count,
           std::uint64_t seed, unsigned shift, bool in_place, cudaStream_t stream, std::uint64_t chunk_bytes = 0) {
    std::vector<T> in(count);
    for (std::uint64_t i = 0; i < count; ++i) in[i] = input_value<T>(seed, r.rank(), i);
    T* const from = reinterpret_cast<T*>(in_ + 256) + shift;
    T* const to = in_place ? from : reinterpret_cast<T*>(out_ + 256) + shift;
    char* const guarded = in_place ? in_ : out_;
    must(cudaMemsetAsync(guarded, 0xa5, bytes_ + 512, stream), "memset");
    must(cudaMemcpyAsync(from, in.data(), count * sizeof(T), cudaMemcpyHostToDevice, stream), "copy in");
    r.all_reduce(how, blocks, from, to, count, sizeof(T), type, op, stream, chunk_bytes);
    std::vector<unsigned char> got(count * sizeof(T) + 512);
    const char* const begin = reinterpret_cast<char*>(to) - 256;
    const std::size_t behind = std::min<std::size_t>(
        256, bytes_ + 512 - static_cast<std::size_t>(begin - guarded) - 256 - count * sizeof(T));
    must(cudaMemcpyAsync(got.data(), begin, 256 + count * sizeof(T) + behind, cudaMemcpyDeviceToHost, stream),
         "copy out");
    must(cudaStreamSynchronize(stream), "synchronise");
    const std::uint64_t bytes = std::min(chunk_bytes ? chunk_bytes : UINT64_MAX, r.capacity(how));
    const auto want = expected<T>(how, op, r.ranks(), count, seed, bytes / sizeof(T) / 16 * 16);
    std::vector<T> have(count);
    std::memcpy(have.data(), got.data() + 256, count * sizeof(T));
    std::uint64_t wrong = 0, where = 0;
    for (std::uint64_t i = 0; i < count; ++i)
      if (!is_same(have[i], want[i]) && wrong++ == 0) where = i;
    std::uint64_t touched = 0;
    for (std::size_t i = 0; i < 256; ++i) touched += got[i] != 0xa5;
    for (std::size_t i = 0; i < behind; ++i) touched += got[256 + count * sizeof(T) + i] != 0xa5;
    expect(wrong == 0 && touched == 0 && r.poisoned() == 0,
           "rank %d: %s type %d op %d count %llu blocks %u shift %u in_place %d: %llu wrong from element %llu, "
           "%llu guard "
           "bytes touched, poison %llx",
           r.rank(), name_of(how), type, op, static_cast<unsigned long long>(count), blocks, shift, in_place,
           static_cast<unsigned long long>(wrong), static_cast<unsigned long long>(where),
           static_cast<unsigned long long>(touched), static_cast<unsigned long long>(r.poisoned()));
  }
  char* in() { return in_ + 256; }
  char* out() { return out_ + 256; }

 private:
  std::size_t bytes_;
  char *in_ = nullptr, *out_ = nullptr;
};

}  // namespace xyl::gpu_test
