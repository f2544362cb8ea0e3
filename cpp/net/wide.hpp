// Loops that are worth a second translation: for processors with AVX2, besides one for all x86-64.
//
// AVX2 without fused products: the bits are the same in both. The choice is made once, when the
// library is loaded; where the compiler or the system cannot (or a sanitizer is in), there is one.
#pragma once

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && \
    !defined(CUTLEARN_ONE_TRANSLATION)
#define CUTLEARN_WIDE __attribute__((target_clones("default", "avx2")))
#else
#define CUTLEARN_WIDE
#endif

#if defined(__GNUC__)
#define CUTLEARN_INLINE inline __attribute__((always_inline))
#else
#define CUTLEARN_INLINE inline
#endif
