/* SPDX-License-Identifier: BSD-3-Clause */
/* SHA-256, HMAC-SHA-256 and random bytes: see hmac.h. */
#include "runtime/base/hmac.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t k256[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t ror(uint32_t x, int n) { return x >> n | x << (32 - n); }

static uint32_t load_be(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_be(uint8_t *p, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(x >> (24 - 8 * i));
}

static void compress(uint32_t h[8], const uint8_t *block)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = load_be(block + (ptrdiff_t)4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = ror(w[i - 15], 7) ^ ror(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = ror(w[i - 2], 17) ^ ror(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = ror(v[4], 6) ^ ror(v[4], 11) ^ ror(v[4], 25);
        uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k256[i] + w[i];
        uint32_t s0 = ror(v[0], 2) ^ ror(v[0], 13) ^ ror(v[0], 22);
        uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

void rt_sha256_init(struct rt_sha256 *s)
{
    static const uint32_t start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
    memcpy(s->h, start, sizeof start);
    s->nbytes = 0;
}

void rt_sha256_add(struct rt_sha256 *s, const void *data, size_t len)
{
    const uint8_t *p = data;
    while (len) {
        size_t at = s->nbytes % 64, n = 64 - at < len ? 64 - at : len;
        memcpy(s->block + at, p, n);
        s->nbytes += n;
        p += n;
        len -= n;
        if (at + n == 64)
            compress(s->h, s->block);
    }
}

void rt_sha256_end(struct rt_sha256 *s, uint8_t out[RT_SHA256_LEN])
{
    static const uint8_t pad[64] = { 0x80 };
    uint64_t nbits = s->nbytes * 8;
    uint8_t tail[8];

    rt_sha256_add(s, pad, 1 + (119 - s->nbytes % 64) % 64);
    store_be(tail, (uint32_t)(nbits >> 32));
    store_be(tail + 4, (uint32_t)nbits);
    rt_sha256_add(s, tail, sizeof tail);
    for (int i = 0; i < 8; i++)
        store_be(out + (ptrdiff_t)4 * i, s->h[i]);
}

void rt_hmac(const void *key, size_t key_len, const void *data, size_t len,
             uint8_t out[RT_SHA256_LEN])
{
    uint8_t k[64] = { 0 }, inner[64], outer[64];
    struct rt_sha256 s;

    if (key_len > sizeof k) {
        rt_sha256_init(&s);
        rt_sha256_add(&s, key, key_len);
        rt_sha256_end(&s, k);
    } else {
        memcpy(k, key, key_len);
    }
    for (size_t i = 0; i < sizeof k; i++) {
        inner[i] = k[i] ^ 0x36;
        outer[i] = k[i] ^ 0x5c;
    }
    rt_sha256_init(&s);
    rt_sha256_add(&s, inner, sizeof inner);
    rt_sha256_add(&s, data, len);
    rt_sha256_end(&s, out);
    rt_sha256_init(&s);
    rt_sha256_add(&s, outer, sizeof outer);
    rt_sha256_add(&s, out, RT_SHA256_LEN);
    rt_sha256_end(&s, out);
}

bool rt_hmac_equal(const uint8_t a[RT_SHA256_LEN], const uint8_t b[RT_SHA256_LEN])
{
    volatile uint8_t differ = 0;
    for (int i = 0; i < RT_SHA256_LEN; i++)
        differ |= a[i] ^ b[i];
    return differ == 0;
}

int rt_random(void *buf, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = getrandom((char *)buf + at, len - at, 0);
        if (n < 0 && errno != EINTR) {
            log_error(BASE, "getrandom failed: %m; no key for connections can be made");
            return -RT_ESYS;
        }
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}
