// SPDX-License-Identifier: BSD-3-Clause
//
// Sentences for people: what a call was, and why a communicator is out of service.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "proto/call.hpp"

namespace xyl {

// "allreduce of 57344 bfloat16 (sum, device memory)"
std::string describe_call(const call_record& record);

const char* describe_phase(phase p);

// What a poison word means to this rank: whoever is late itself has not met a timeout; the others have left it.
xylResult_t code_for(std::uint64_t poison_word, int rank);

// What happened, from the poison word of this rank and the give-up records of all. `name` describes a rank ("rank 5
// (process 4711 is gone)"); call_number counts this communicator's calls from 1.
result explain_poison(std::uint64_t poison_word, std::span<const control_block* const> controls, int rank,
                      const call_record& mine, std::uint64_t call_number,
                      const std::function<std::string(int)>& name);

}  // namespace xyl
