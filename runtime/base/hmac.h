/* SPDX-License-Identifier: BSD-3-Clause */
/* SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), for the authentication of connections between
 * processes of a job, and random bytes from the kernel.  Any thread may call; no state.  Speed is
 * unimportant: a connection needs two short computations. */
#ifndef RT_BASE_HMAC_H
#define RT_BASE_HMAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RT_SHA256_LEN 32

struct rt_sha256 {
    uint32_t h[8];
    uint64_t nbytes;
    uint8_t block[64];
};
void rt_sha256_init(struct rt_sha256 *s);
void rt_sha256_add(struct rt_sha256 *s, const void *data, size_t len);
void rt_sha256_end(struct rt_sha256 *s, uint8_t out[RT_SHA256_LEN]);

void rt_hmac(const void *key, size_t key_len, const void *data, size_t len,
             uint8_t out[RT_SHA256_LEN]);
/* Compares in a time that does not depend on the position of a difference. */
bool rt_hmac_equal(const uint8_t a[RT_SHA256_LEN], const uint8_t b[RT_SHA256_LEN]);
/* Fills buf from getrandom(2).  -RT_ESYS, logged. */
int rt_random(void *buf, size_t len);

#endif
