// SPDX-License-Identifier: BSD-3-Clause
//
// The CUDA space with lines of 16 bytes that are seen whole (proto/line_packet.hpp): a lane stores and loads each in
// one access. A sheet is a warp's, so that the lines of an instruction follow each other. Each lane waits for its
// own lines alone, and does not look again when all of them have come.
#pragma once

#include "kernels/cuda_space.cuh"

namespace xyl {

template <int Capacity>
class cuda_line_space : public cuda_space<Capacity> {
  using base = cuda_space<Capacity>;

 public:
  explicit __device__ __forceinline__ cuda_line_space(const kernel_arguments<Capacity>& given) : base(given) {}

  static constexpr unsigned sheet_lanes = 32;
  static constexpr bool bundles_bring_headers = true;

  // Relaxed: data and epoch are one scalar.
  __device__ __forceinline__ void put_line(unit16* to, const unit16& whole) { machine::store_whole(to, whole); }

  // What is nobody's is loaded too, as in cuda_space::poll(). A header may have come for another call, whose peers
  // send no lines: that is found at once.
  template <int N>
  __device__ __forceinline__ bool get_lines_and_header(const unit16* const (&lines)[N], std::uint32_t packet,
                                                       unit16 (&got)[N], waiting w, const line* header, int source,
                                                       std::uint64_t fingerprint) {
    const void* const anywhere = &this->own();
    typename base::patience p;
    for (;;) {
      std::uint64_t of_header[2];
#pragma unroll
      for (int i = 0; i < N; ++i)
        got[i] = machine::load_whole(lines[i] != nullptr ? lines[i] : static_cast<const unit16*>(anywhere));
      machine::load_line(header != nullptr ? header : static_cast<const line*>(anywhere), of_header);
      std::uint32_t different = 0;
#pragma unroll
      for (int i = 0; i < N; ++i)
        if (lines[i] != nullptr) different |= got[i].word[3] ^ packet;
      std::uint32_t other_header = 0;
      if (header != nullptr) {
        other_header = base::is_other(of_header, packet);
        const std::uint64_t seen = (of_header[0] & 0xffffffffu) | of_header[1] << 32;
        if (other_header == 0 && seen != fingerprint) {
          this->refuse({source, phase::header}, fingerprint, seen);
          return false;
        }
      }
      if ((different | other_header) == 0) [[likely]]
        return true;
      int lacks = -1;
      std::uint32_t seen = 0;
#pragma unroll
      for (int i = N - 1; i >= 0; --i)
        if (lines[i] != nullptr && got[i].word[3] != packet) {
          lacks = i;
          seen = got[i].word[3];
        }
      const bool lacks_header = lacks < 0;
      if (this->is_over(p, lacks_header ? waiting{source, phase::header} : w.of_line(lacks), packet,
                        lacks_header ? of_header[1] >> 32 : seen))
        return false;
    }
  }
};

template <int Capacity>
cuda_line_space(const kernel_arguments<Capacity>&) -> cuda_line_space<Capacity>;

}  // namespace xyl
