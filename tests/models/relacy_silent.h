// Relacy, without the macros that it leaves behind and the warnings of its own code.
#pragma once

#pragma GCC diagnostic push
#pragma GCC system_header
#include <relacy/relacy.hpp>
#undef new
#undef delete
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef assert
#undef errno
#undef futex
#undef memory_order_relaxed
#undef memory_order_consume
#undef memory_order_acquire
#undef memory_order_release
#undef memory_order_acq_rel
#undef memory_order_seq_cst
#pragma GCC diagnostic pop

namespace slipring::models {
// Relacy replaces new and delete by inline functions. Taking their addresses has them emitted, so that the
// standard library's own code uses the same pair (and -fno-sized-deallocation, so that there is no third).
inline void* (*const volatile relacy_new)(std::size_t) = &::operator new;
inline void (*const volatile relacy_delete)(void*) = &::operator delete;
}  // namespace slipring::models
