/* SPDX-License-Identifier: BSD-3-Clause */
/* MPIX_Stream: a handle for a CUDA stream of the application, with the names and semantics of
 * MPICH; and MPIX_Info_set_hex, which stores the stream in an info object.  An object allocates no
 * resources and does not keep the CUDA stream alive.  Any thread. */
#include "mpi/stream/stream.h"
#include "mpi/api/bind.h"
#include "mpi/p2p/domain.h"
#include <stdlib.h>
#include <string.h>

struct rt_slab wm_xstream_slab = RT_SLAB(WM_XSTREAM, "stream", struct wm_xstream);

void wm_xstream_ref(struct wm_xstream *s) { rt_fetch_add(&s->obj.refs, 1); }

void wm_xstream_unref(struct wm_xstream *s)
{
    if (s && rt_fetch_add(&s->obj.refs, -1) == 1)
        rt_slab_free(&wm_xstream_slab, s);
}

static int hex_of(const void *value, int n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *b = value;
    for (int i = 0; i < n; i++) {
        *out++ = digits[b[i] >> 4];
        *out++ = digits[b[i] & 15];
    }
    *out = '\0';
    return n;
}

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Whether the text is exactly nbytes in hexadecimal. */
static bool bytes_of(const char *text, void *out, size_t nbytes)
{
    unsigned char *b = out;
    if (strlen(text) != 2 * nbytes)
        return false;
    for (size_t i = 0; i < nbytes; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        b[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static int set_hex(MPI_Info info, const char *key, const void *value, int value_size)
{
    char text[MPI_MAX_INFO_VAL];
    struct wm_info *i = wm_info_get(info);
    if (!i || info == MPI_INFO_ENV)
        return i ? wm_err(MPI_ERR_INFO, "MPI_INFO_ENV cannot be changed or freed")
                 : wm_bad_info("argument 1 (info)", info);
    if (!key)
        return wm_bad_null("argument 2 (key)", MPI_ERR_INFO_KEY);
    if (!value)
        return wm_bad_null("argument 3 (value)", MPI_ERR_INFO_VALUE);
    if (value_size < 0 || value_size > (int)(sizeof text - 1) / 2)
        return wm_err(MPI_ERR_INFO_VALUE,
                      "argument 4 (value_size) is %d; allowed are 0..%d bytes, which are two "
                      "characters each",
                      value_size, (int)(sizeof text - 1) / 2);
    if (!*key || strlen(key) >= MPI_MAX_INFO_KEY)
        return wm_err(MPI_ERR_INFO_KEY, "the key has %zu characters, allowed are 1..%d",
                      strlen(key), MPI_MAX_INFO_KEY - 1);
    hex_of(value, value_size, text);
    return wm_info_put(i, key, text);
}

WM_EXPORT int PMPIX_Info_set_hex(MPI_Info info, const char *key, const void *value, int value_size)
{
    int err = set_hex(info, key, value, value_size);
    return err ? wm_raise_comm(NULL, err, "MPIX_Info_set_hex") : MPI_SUCCESS;
}
WM_WEAK(MPIX_Info_set_hex);

/* Reads the stream from `info`.  Without keys: a stream without a device, which MPICH has for
 * threads. */
static int read_info(MPI_Info info, struct wm_xstream *s)
{
    const struct wm_info *i = info == MPI_INFO_NULL ? NULL : wm_info_get(info);
    struct rt_gpu *g;
    if (info == MPI_INFO_NULL)
        return MPI_SUCCESS;
    if (!i)
        return wm_bad_info("argument 1 (info)", info);
    const char *type = wm_info_find(i, "type"), *value = wm_info_find(i, "value");
    if (!type)
        return MPI_SUCCESS;
    if (strcmp(type, "cudaStream_t"))
        return wm_err(MPI_ERR_INFO_VALUE,
                      "the value of the key \"type\" is \"%s\"; only \"cudaStream_t\" is known",
                      type);
    if (!value || !bytes_of(value, &s->cuda, sizeof s->cuda))
        return wm_err(
            MPI_ERR_INFO_VALUE,
            "the value of the key \"value\" is %s%s%s; set it with MPIX_Info_set_hex(info, "
            "\"value\", &stream, sizeof stream)",
            value ? "\"" : "", value ? value : "missing", value ? "\"" : "");
    rt_lock(&wm_main_domain->lock);
    int mode = rt_gpu_capture_relax();
    int err = rt_gpu_stream_of(s->cuda, &g);
    rt_gpu_capture_restore(mode);
    rt_unlock(&wm_main_domain->lock);
    s->is_cuda = true;
    if (err == -RT_EINVAL)
        return wm_err(MPI_ERR_ARG,
                      "the key \"value\" of the info object names no CUDA stream of "
                      "this process (%p)",
                      s->cuda);
    return err ? wm_err_rt(err, "using a CUDA stream; weft_info --gpu says what is there")
               : MPI_SUCCESS;
}

static int create(MPI_Info info, MPIX_Stream *stream)
{
    struct wm_xstream s = { .cuda = NULL }, *made;
    if (!stream)
        return wm_bad_null("argument 2 (stream)", MPI_ERR_ARG);
    int err = read_info(info, &s);
    if (err)
        return err;
    made = rt_slab_alloc(&wm_xstream_slab);
    if (!made)
        return wm_err(MPI_ERR_NO_MEM, "no memory for another stream");
    made->cuda = s.cuda;
    made->is_cuda = s.is_cuda;
    *stream = (MPIX_Stream)made->obj.handle;
    return MPI_SUCCESS;
}

WM_EXPORT int PMPIX_Stream_create(MPI_Info info, MPIX_Stream *stream)
{
    static const char call[] = "MPIX_Stream_create";
    if (rt_unlikely(!rt_load_relaxed(&wm_state.users)))
        return wm_bad_phase(call);
    int err = create(info, stream);
    return err ? wm_raise_comm(NULL, err, call) : MPI_SUCCESS;
}
WM_WEAK(MPIX_Stream_create);

WM_EXPORT int PMPIX_Stream_free(MPIX_Stream *stream)
{
    static const char call[] = "MPIX_Stream_free";
    if (rt_unlikely(!rt_load_relaxed(&wm_state.users)))
        return wm_bad_phase(call);
    if (!stream)
        return wm_raise_comm(NULL, wm_bad_null("argument 1 (stream)", MPI_ERR_ARG), call);
    struct wm_xstream *s = rt_slab_get(&wm_xstream_slab, (uintptr_t)(unsigned)*stream);
    if (!s || s->freed)
        return wm_raise_comm(NULL,
                             wm_err(MPI_ERR_ARG,
                                    "argument 1 (stream): %#x is not a live stream; it was freed "
                                    "or never made",
                                    (unsigned)*stream),
                             call);
    s->freed = true; /* communicators may still use it */
    wm_xstream_unref(s);
    *stream = MPIX_STREAM_NULL;
    return MPI_SUCCESS;
}
WM_WEAK(MPIX_Stream_free);
