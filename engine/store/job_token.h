// Job token: the secret that the ranks of one job share, and what is derived from it with HMAC-SHA256.
//
// The token itself never leaves the process by the store: connections show the job nonce, which tells jobs
// apart, and proofs over fresh challenges. Free functions without state; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "slipring/status.h"

namespace slipring::engine {

inline constexpr std::size_t kMaxJobTokenBytes = 4096;

using JobNonce = std::array<std::uint8_t, 16>;
using Challenge = std::array<std::uint8_t, 16>;
using Proof = std::array<std::uint8_t, 32>;

Status fill_random(std::span<std::uint8_t> bytes);
/// 256 random bits in hexadecimal.
Result<std::string> make_job_token();
Status check_job_token(std::string_view job_token);

/// HMAC-SHA256 of the concatenated parts under the token.
Result<Proof> prove(std::string_view job_token, std::initializer_list<std::string_view> parts);
/// Comparison whose time does not depend on the contents.
bool same_proof(const Proof& a, const Proof& b) noexcept;

/// The same for every rank of a job, different for every token; reveals nothing about a random token.
Result<JobNonce> job_nonce(std::string_view job_token);

std::string to_hex(std::span<const std::uint8_t> bytes);

}  // namespace slipring::engine
