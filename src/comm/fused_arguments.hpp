// SPDX-License-Identifier: BSD-3-Clause
//
// Reads the structures of xylem_fused.h: every wrong combination is refused here, with a sentence, before anything
// is sent; what comes out needs no more checks but which memory the buffers are in.
#pragma once

#include <array>

#include "base/result.hpp"
#include "proto/call.hpp"
#include "proto/fused_work.hpp"
#include "xylem/xylem_fused.h"

namespace xyl {

struct fused_request {
  // A buffer that the call reads or writes, by the name it has in the structure.
  struct buffer {
    const char* name;
    const void* begin;
    std::uint64_t bytes;
    unsigned alignment;
    bool is_output;
    bool may_be_in_place;  // output: may equal an input that may be
  };

  fused_work work;  // but for what depends on the communicator: share, spreading, launches
  int type = xylBfloat16;
  unsigned element_bytes = 2;
  std::array<buffer, 11> buffers{};
  unsigned count_of_buffers = 0;

  // Fills in what must be equal on all ranks; the rest of the record is the communicator's.
  void describe(call_record& record) const;
};

// moe: null for xylAllReduceRMSNorm.
result read_fused_arguments(const xylAllReduceRMSNormArgs_t* args, const xylMoeReduceArgs_t* moe, bool is_moe,
                            fused_request& out);

}  // namespace xyl
