/* SLIPRING_API marks what users may link; everything else in libslipring.so is hidden. */
#ifndef SLIPRING_EXPORT_H
#define SLIPRING_EXPORT_H

#if defined(__cplusplus)
#define SLIPRING_API [[gnu::visibility("default")]]
#elif defined(__GNUC__)
#define SLIPRING_API __attribute__((visibility("default")))
#else
#define SLIPRING_API
#endif

#endif
