#include <string>

#include "engine/c_api/c_api.h"

namespace slipring::engine {
namespace {
thread_local std::string last_error;
}  // namespace

slipring_status_t remember(const Status& status) noexcept {
  try {
    last_error = status.to_string();
  } catch (const std::bad_alloc&) {
    last_error.clear();
  }
  return static_cast<slipring_status_t>(status.code());
}

void refuse_null(const char* name) { throw Error(base::error(StatusCode::invalid_argument, "argument {} is null", name)); }

}  // namespace slipring::engine

using slipring::StatusCode;

static_assert(SLIPRING_WOULD_BLOCK == static_cast<int>(StatusCode::would_block) && SLIPRING_CORRUPT == static_cast<int>(StatusCode::corrupt) &&
              SLIPRING_CLOSED == static_cast<int>(StatusCode::closed));
static_assert(SLIPRING_I8 == static_cast<int>(slipring::DType::i8) && SLIPRING_U64 == static_cast<int>(slipring::DType::u64) &&
              SLIPRING_BF16 == static_cast<int>(slipring::DType::bf16) && SLIPRING_BOOL == static_cast<int>(slipring::DType::boolean) &&
              SLIPRING_FP8_E5M2 == slipring::kDTypeCount - 1);

extern "C" {

uint32_t slipring_abi_version(void) { return SLIPRING_ABI_VERSION; }
const char* slipring_version(void) { return SLIPRING_VERSION; }
const char* slipring_last_error(void) { return slipring::engine::last_error.c_str(); }

const char* slipring_status_name(slipring_status_t status) {
  if (status < 0 || status > SLIPRING_WOULD_BLOCK) return "unknown";
  return slipring::status_code_name(static_cast<StatusCode>(status)).data();  // literals: zero-terminated
}

size_t slipring_dtype_bytes(slipring_dtype_t dtype) {
  if (dtype < 0 || dtype >= slipring::kDTypeCount) return 0;
  return slipring::dtype_bytes(static_cast<slipring::DType>(dtype));
}

}  // extern "C"
