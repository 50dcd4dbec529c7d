// SPDX-License-Identifier: BSD-3-Clause
#include "peer/rendezvous_channel.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "os/machine.hpp"
#include "os/tcp_socket.hpp"

namespace xyl {
namespace {

// "xylgreet", "xylhello" and "xylanswr" in memory order.
constexpr std::uint64_t greeting_magic = 0x74656572676c7978;
constexpr std::uint64_t hello_magic = 0x6f6c6c65686c7978;
constexpr std::uint64_t answer_magic = 0x7277736e616c7978;

// Every use of the secret begins what it hashes with a number of its own, so that no hash answers for another.
enum use : std::uint8_t { hello_proof = 1, answer_proof = 2, tag_key = 3, mask_key = 5 };  // keys: two halves each

template <class... Parts>
std::uint64_t hash_of(const hash_key& key, const Parts&... parts) {
  std::array<std::uint8_t, (sizeof(Parts) + ...)> bytes;
  std::size_t at = 0;
  ((std::memcpy(&bytes[at], &parts, sizeof parts), at += sizeof parts), ...);
  return keyed_hash(key, bytes);
}

hash_key derived(const hash_key& secret, use first, const handshake_nonce& host, const handshake_nonce& guest) {
  const std::uint64_t halves[] = {hash_of(secret, first, host, guest),
                                  hash_of(secret, static_cast<use>(first + 1), host, guest)};
  hash_key key;
  std::memcpy(key.data(), halves, sizeof halves);
  return key;
}

std::uint64_t proof_of(const hash_key& secret, const rendezvous_greeting& greeting, rendezvous_hello hello) {
  hello.proof = 0;
  return hash_of(secret, hello_proof, greeting.nonce, hello);
}

std::uint64_t proof_of_answer(const hash_key& secret, const rendezvous_greeting& greeting,
                              const rendezvous_hello& hello) {
  return hash_of(secret, answer_proof, greeting.nonce, hello);
}

struct frame_header {
  std::uint64_t tag;  // of all that follows
  std::uint64_t number;
  std::uint32_t bytes;
  std::uint8_t direction;  // the sender's side
  std::uint8_t kind;
  std::uint16_t unused;
};
static_assert(sizeof(frame_header) == 24);

}  // namespace

result rendezvous_greeting::make(rendezvous_greeting& out) {
  out = {greeting_magic, rendezvous_version, 0, {}};
  return fill_random(out.nonce.data(), out.nonce.size());
}

bool rendezvous_greeting::plausible() const { return magic == greeting_magic; }

result rendezvous_hello::make(const hash_key& secret, const rendezvous_greeting& greeting, int rank, int ranks,
                              std::int64_t timeout_ns, rendezvous_hello& out) {
  out = {hello_magic, rank, ranks, ::getpid(), timeout_ns, {}, 0};
  XYL_TRY(fill_random(out.nonce.data(), out.nonce.size()));
  out.proof = proof_of(secret, greeting, out);
  return {};
}

bool rendezvous_hello::plausible() const { return magic == hello_magic; }

// One comparison of whole words: how long it takes says nothing about how much was right.
bool rendezvous_hello::proven(const hash_key& secret, const rendezvous_greeting& greeting) const {
  return plausible() && proof == proof_of(secret, greeting, *this);
}

rendezvous_answer rendezvous_answer::make(const hash_key& secret, const rendezvous_greeting& greeting,
                                          const rendezvous_hello& hello) {
  return {answer_magic, welcome, 0, proof_of_answer(secret, greeting, hello)};
}

rendezvous_answer rendezvous_answer::refusal() { return {answer_magic, wrong_secret, 0, 0}; }

bool rendezvous_answer::plausible() const { return magic == answer_magic; }

bool rendezvous_answer::proven(const hash_key& secret, const rendezvous_greeting& greeting,
                               const rendezvous_hello& hello) const {
  return plausible() && verdict == welcome && proof == proof_of_answer(secret, greeting, hello);
}

rendezvous_channel::rendezvous_channel(side mine, const hash_key& secret, const rendezvous_greeting& greeting,
                                       const rendezvous_hello& hello, std::size_t most_bytes)
    : mine_(mine),
      tag_key_(derived(secret, tag_key, greeting.nonce, hello.nonce)),
      mask_key_(derived(secret, mask_key, greeting.nonce, hello.nonce)),
      most_bytes_(most_bytes) {}

void rendezvous_channel::mask(std::uint8_t direction, std::uint64_t number, std::span<std::uint8_t> bytes) const {
  for (std::uint64_t block = 0; block * 8 < bytes.size(); ++block) {
    const std::uint64_t word = hash_of(mask_key_, direction, number, block);
    std::uint8_t of_word[8];
    std::memcpy(of_word, &word, sizeof word);
    for (std::size_t i = 0; i < 8 && block * 8 + i < bytes.size(); ++i) bytes[block * 8 + i] ^= of_word[i];
  }
}

std::uint64_t rendezvous_channel::tag_of(std::span<const std::uint8_t> frame) const {
  return keyed_hash(tag_key_, frame.subspan(sizeof(std::uint64_t)));
}

void rendezvous_channel::queue(frame_kind kind, std::span<const std::uint8_t> payload) {
  frame_header header{0,
                      next_out_++,
                      static_cast<std::uint32_t>(payload.size()),
                      static_cast<std::uint8_t>(mine_),
                      static_cast<std::uint8_t>(kind),
                      0};
  const std::size_t at = out_.size();
  out_.resize(at + sizeof header + payload.size());
  const std::span frame = std::span(out_).subspan(at);
  std::memcpy(frame.data(), &header, sizeof header);
  std::copy(payload.begin(), payload.end(), frame.begin() + sizeof header);
  mask(header.direction, header.number, frame.subspan(sizeof header));
  header.tag = tag_of(frame);
  std::memcpy(frame.data(), &header.tag, sizeof header.tag);
}

bool rendezvous_channel::flush(int socket) {
  bool end = false;
  while (has_queued() && !end) {
    const std::size_t n = send_some(socket, &out_[sent_], out_.size() - sent_, end);
    if (n == 0) break;
    sent_ += n;
  }
  if (!has_queued()) {
    out_.clear();
    sent_ = 0;
  }
  return !end;
}

result rendezvous_channel::receive(int socket, arrival& what, frame_kind& kind,
                                   std::vector<std::uint8_t>& payload) {
  what = arrival::nothing;
  for (;;) {
    std::size_t wanted = sizeof(frame_header);
    frame_header header{};
    if (in_.size() >= sizeof header) {
      std::memcpy(&header, in_.data(), sizeof header);
      if (header.bytes > most_bytes_)
        return error(xylSystemError, "a frame of %u bytes came, at most %zu are expected", header.bytes,
                     most_bytes_);
      wanted += header.bytes;
    }
    if (in_.size() < wanted) {
      // In steps, so that a length alone claims no memory.
      const std::size_t had = in_.size();
      in_.resize(std::min(wanted, had + (64u << 10)));
      bool end = false;
      const std::size_t n = receive_some(socket, &in_[had], in_.size() - had, end);
      in_.resize(had + n);
      if (end) {
        what = arrival::end;
        return {};
      }
      if (n == 0) return {};
      continue;
    }
    const auto other = static_cast<std::uint8_t>(mine_ == side::host ? side::guest : side::host);
    if (header.direction != other || header.number != next_in_ || header.tag != tag_of(in_))
      return error(xylSystemError, "a frame came that the other side did not send");
    ++next_in_;
    kind = static_cast<frame_kind>(header.kind);
    payload.assign(in_.begin() + sizeof header, in_.end());
    mask(header.direction, header.number, payload);
    in_.clear();
    what = arrival::frame;
    return {};
  }
}

}  // namespace xyl
