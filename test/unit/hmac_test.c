/* SPDX-License-Identifier: BSD-3-Clause */
/* SHA-256 against FIPS 180-4's examples, HMAC-SHA-256 against RFC 4231's test cases. */
#include "runtime/base/hmac.h"
#include "test/check.h"

static const char *hex(const uint8_t *p)
{
    static char text[2 * RT_SHA256_LEN + 1];
    for (int i = 0; i < RT_SHA256_LEN; i++)
        snprintf(text + (ptrdiff_t)2 * i, 3, "%02x", p[i]);
    return text;
}

static const char *sha(const char *text, size_t step)
{
    struct rt_sha256 s;
    uint8_t out[RT_SHA256_LEN];
    size_t len = strlen(text);

    rt_sha256_init(&s);
    for (size_t at = 0; at < len; at += step)
        rt_sha256_add(&s, text + at, len - at < step ? len - at : step);
    rt_sha256_end(&s, out);
    return hex(out);
}

static void sha_examples(void)
{
    for (size_t step = 1; step < 70; step++) {
        CHECK_STR(sha("abc", step),
                  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        CHECK_STR(sha("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", step),
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    }
    CHECK_STR(sha("", 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

/* A million letters "a": many blocks, and a length that does not fit in a byte. */
static void sha_long(void)
{
    struct rt_sha256 s;
    uint8_t out[RT_SHA256_LEN];
    char a[1000];

    memset(a, 'a', sizeof a);
    rt_sha256_init(&s);
    for (int i = 0; i < 1000; i++)
        rt_sha256_add(&s, a, sizeof a);
    rt_sha256_end(&s, out);
    CHECK_STR(hex(out), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

struct vector {
    uint8_t key_byte; /* repeated; 0: 1, 2, 3, ... */
    const char *key_text;
    size_t key_len;
    uint8_t data_byte;
    const char *data_text;
    size_t data_len;
    const char *mac;
};

static const struct vector vectors[] = {
    /* RFC 4231, section 4 */
    { 0x0b, NULL, 20, 0, "Hi There", 0,
      "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
    { 0, "Jefe", 4, 0, "what do ya want for nothing?", 0,
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
    { 0xaa, NULL, 20, 0xdd, NULL, 50,
      "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe" },
    { 0, NULL, 25, 0xcd, NULL, 50,
      "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b" },
    { 0xaa, NULL, 131, 0, "Test Using Larger Than Block-Size Key - Hash Key First", 0,
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
    { 0xaa, NULL, 131, 0,
      "This is a test using a larger than block-size key and a larger than block-size data. The "
      "key needs to be hashed before being used by the HMAC algorithm.",
      0, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2" },
};

static void hmac_vectors(void)
{
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        const struct vector *v = &vectors[i];
        uint8_t key[131], data[200], out[RT_SHA256_LEN];
        size_t len = v->data_text ? strlen(v->data_text) : v->data_len;
        for (size_t k = 0; k < v->key_len; k++)
            key[k] = v->key_text   ? (uint8_t)v->key_text[k]
                     : v->key_byte ? v->key_byte
                                   : (uint8_t)(k + 1);
        for (size_t k = 0; k < len; k++)
            data[k] = v->data_text ? (uint8_t)v->data_text[k] : v->data_byte;
        rt_hmac(key, v->key_len, data, len, out);
        CHECK_STR(hex(out), v->mac);
    }
}

static void comparison(void)
{
    uint8_t a[RT_SHA256_LEN], b[RT_SHA256_LEN];
    memset(a, 7, sizeof a);
    memset(b, 7, sizeof b);
    CHECK(rt_hmac_equal(a, b));
    for (int i = 0; i < RT_SHA256_LEN; i++) {
        b[i] ^= 0x80;
        CHECK(!rt_hmac_equal(a, b));
        b[i] ^= 0x80;
    }
}

static void random_bytes(void)
{
    uint8_t a[RT_SHA256_LEN] = { 0 }, b[RT_SHA256_LEN] = { 0 };
    CHECK_EQ(rt_random(a, sizeof a), 0);
    CHECK_EQ(rt_random(b, sizeof b), 0);
    CHECK(!rt_hmac_equal(a, b));
}

int main(void)
{
    RUN(sha_examples);
    RUN(sha_long);
    RUN(hmac_vectors);
    RUN(comparison);
    RUN(random_bytes);
    return check_end();
}
