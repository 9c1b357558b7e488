#include "engine/store/job_token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "base/status.h"

namespace slipring::engine {

Status fill_random(std::span<std::uint8_t> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = getrandom(bytes.data() + done, bytes.size() - done, 0);
    if (n < 0) {
      if (errno == EINTR) continue;
      return base::errno_error(errno, "getrandom");
    }
    done += static_cast<std::size_t>(n);
  }
  return {};
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::uint8_t byte : bytes) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

Result<std::string> make_job_token() {
  std::array<std::uint8_t, 32> bytes;
  if (Status status = fill_random(bytes); !status) return status;
  return to_hex(bytes);
}

Status check_job_token(std::string_view job_token) {
  if (job_token.empty()) {
    return base::error(StatusCode::invalid_argument,
                       "job token empty; start the ranks with slipring-run, or give all of them the same "
                       "SLIPRING_JOB_TOKEN, e.g. from: openssl rand -hex 32");
  }
  if (job_token.size() > kMaxJobTokenBytes) {
    return base::error(StatusCode::invalid_argument, "job token bytes {} above the limit {}",
                       job_token.size(), kMaxJobTokenBytes);
  }
  return {};
}

Result<Proof> prove(std::string_view job_token, std::initializer_list<std::string_view> parts) {
  if (Status status = check_job_token(job_token); !status) return status;
  std::string message;
  for (const std::string_view part : parts) message.append(part);
  Proof proof;
  unsigned int bytes = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), job_token.data(), static_cast<int>(job_token.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(), proof.data(), &bytes);
  if (made == nullptr || bytes != proof.size()) {
    return base::error(StatusCode::unavailable,
                       "hmac-sha256 failed in libcrypto; check the OpenSSL installation");
  }
  return proof;
}

bool same_proof(const Proof& a, const Proof& b) noexcept {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Result<JobNonce> job_nonce(std::string_view job_token) {
  Result<Proof> proof = prove(job_token, {"slipring job nonce"});
  if (!proof) return proof.status();
  JobNonce nonce;
  std::copy_n(proof->begin(), nonce.size(), nonce.begin());
  return nonce;
}

}  // namespace slipring::engine
