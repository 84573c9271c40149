/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of at most a cache line without a function call.  Two overlapping moves of fixed size
 * cover all lengths of a class.  Nothing outside [src, src + n) is read, and nothing outside [dst,
 * dst + n) is written. */
#ifndef RT_BASE_COPY_H
#define RT_BASE_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    uint64_t w[2];
} rt_copy16;

static inline void rt_copy_small(void *dst, const void *src, size_t n) /* n <= 64 */
{
    char *d = dst;
    const char *s = src;
    if (n >= 16) {
        rt_copy16 a, b, c, e;
        memcpy(&a, s, 16);
        memcpy(&b, s + n - 16, 16);
        if (n > 32) {
            memcpy(&c, s + 16, 16);
            memcpy(&e, s + n - 32, 16);
            memcpy(d + 16, &c, 16);
            memcpy(d + n - 32, &e, 16);
        }
        memcpy(d, &a, 16);
        memcpy(d + n - 16, &b, 16);
    } else if (n >= 8) {
        uint64_t a, b;
        memcpy(&a, s, 8);
        memcpy(&b, s + n - 8, 8);
        memcpy(d, &a, 8);
        memcpy(d + n - 8, &b, 8);
    } else if (n >= 4) {
        uint32_t a, b;
        memcpy(&a, s, 4);
        memcpy(&b, s + n - 4, 4);
        memcpy(d, &a, 4);
        memcpy(d + n - 4, &b, 4);
    } else if (n) {
        char a = s[0], b = s[n / 2], c = s[n - 1];
        d[0] = a;
        d[n / 2] = b;
        d[n - 1] = c;
    }
}

#endif
