/* SPDX-License-Identifier: BSD-3-Clause */
/* Attribute caching: keys, values, copy and delete functions (MPI-5.0 section 7.7), in one
 * implementation for communicators, datatypes and windows; the procedures are in mpi/core/attr.c.
 * Any thread: one lock guards lists and keys.  It is never held while a user's function runs,
 * because that function may call MPI. */
#include "mpi/base/attr.h"
#include <stdlib.h>
#include <string.h>

struct keyval {
    struct rt_obj obj; /* refs: the key itself and every attribute stored under it */
    enum wm_attr_kind kind;
    bool freed; /* MPI_X_free_keyval was called: only attributes that exist still use the key */
    union {
        MPI_Comm_copy_attr_function *comm;
        MPI_Type_copy_attr_function *type;
        MPI_Win_copy_attr_function *win;
        uintptr_t code; /* 0: NULL_COPY function, 1: DUP function.  These are values of the ABI, not
                           addresses */
    } copy;
    union {
        MPI_Comm_delete_attr_function *comm;
        MPI_Type_delete_attr_function *type;
        MPI_Win_delete_attr_function *win;
        uintptr_t code; /* 0: NULL_DELETE function */
    } del;
    void *extra;
    int lang;                          /* of the functions, MPIX_ATTR_... */
    MPIX_Destructor_function *destroy; /* of `extra`; NULL: none */
};

/* An attribute that Fortran set is an integer; C sees a pointer to it, which lives as long as the
 * attribute (MPI-5.0 section 19.3.7). */
union box {
    int i;
    MPI_Aint a;
};
struct attr {
    struct keyval *key;
    void *value; /* of Fortran: the integer itself */
    int lang;
    union box *box; /* NULL: set by C */
};
struct wm_attrs {
    int n, cap;
    struct attr *v;
}; /* in the order they were set */

static struct rt_slab keyval_slab = RT_SLAB(WM_KEYVAL, "attribute key", struct keyval);
static struct rt_lock lock = RT_LOCK_INIT;

static const char *const kind_names[] = { "communicators", "datatypes", "windows" };

static void key_unref(struct keyval *k) /* under the lock */
{
    if (--k->obj.refs > 0)
        return;
    if (k->destroy)
        k->destroy(k->extra);
    rt_slab_free(&keyval_slab, k);
}

/* The value as `lang` sees it.  Fortran sees the pointer that C set as an integer. */
static void *value_for(const struct attr *at, int lang)
{
    return lang == MPIX_ATTR_C && at->box ? at->box : at->value;
}

/* Sets value and language of `out`, unless *flag is 0. */
static int call_copy(const struct attr *at, void *handle, struct attr *out, int *flag)
{
    const struct keyval *k = at->key;
    int key = (int)k->obj.handle;
    if (k->copy.code <= 1) {
        *flag = (int)k->copy.code;
        *out = *at;
        return MPI_SUCCESS;
    }
    void *in = value_for(at, k->lang);
    out->lang = k->lang;
    switch (k->kind) {
    case WM_ATTR_COMM:
        return k->copy.comm(handle, key, k->extra, in, &out->value, flag);
    case WM_ATTR_TYPE:
        return k->copy.type(handle, key, k->extra, in, &out->value, flag);
    case WM_ATTR_WIN:
        return k->copy.win(handle, key, k->extra, in, &out->value, flag);
    }
    RT_BUG("attribute key of unknown kind %d", (int)k->kind);
}

static int call_delete(const struct attr *at, void *handle)
{
    const struct keyval *k = at->key;
    int key = (int)k->obj.handle;
    if (!k->del.code)
        return MPI_SUCCESS;
    void *value = value_for(at, k->lang);
    switch (k->kind) {
    case WM_ATTR_COMM:
        return k->del.comm(handle, key, value, k->extra);
    case WM_ATTR_TYPE:
        return k->del.type(handle, key, value, k->extra);
    case WM_ATTR_WIN:
        return k->del.win(handle, key, value, k->extra);
    }
    RT_BUG("attribute key of unknown kind %d", (int)k->kind);
}

static int find(const struct wm_attrs *a, const struct keyval *k) /* under the lock */
{
    for (int i = 0; a && i < a->n; i++)
        if (a->v[i].key == k)
            return i;
    return -1;
}

/* Makes room for one more attribute; false: no memory. */
static bool grow(struct wm_attrs **attrs)
{
    if (!*attrs)
        *attrs = calloc(1, sizeof **attrs);
    struct wm_attrs *a = *attrs;
    if (a && a->n == a->cap) {
        int cap = a->cap ? 2 * a->cap : 4;
        struct attr *v = realloc(a->v, (size_t)cap * sizeof *v);
        if (!v)
            return false;
        a->v = v, a->cap = cap;
    }
    return a != NULL;
}

/* Appends an attribute of value and language of `given`, or replaces the one under its key; takes a
 * reference to the key for a new attribute.  Under the lock. */
static int store(struct wm_attrs **attrs, const struct attr *given)
{
    struct attr at = { given->key, given->value, given->lang, NULL };
    if (at.lang != MPIX_ATTR_C)
        at.box = malloc(sizeof *at.box);
    int i = find(*attrs, at.key);
    if ((at.lang != MPIX_ATTR_C && !at.box) || (i < 0 && !grow(attrs))) {
        free(at.box);
        return wm_err(MPI_ERR_NO_MEM, "no memory for another attribute");
    }
    if (at.lang == MPIX_ATTR_INT)
        at.box->i = (int)(intptr_t)at.value;
    else if (at.box)
        at.box->a = (MPI_Aint)at.value;
    struct wm_attrs *a = *attrs;
    if (i < 0) {
        i = a->n++;
        at.key->obj.refs++;
    } else {
        free(a->v[i].box);
    }
    a->v[i] = at;
    return MPI_SUCCESS;
}

static void drop(struct wm_attrs *a, int i) /* under the lock */
{
    struct keyval *k = a->v[i].key;
    free(a->v[i].box);
    memmove(&a->v[i], &a->v[i + 1], (size_t)(a->n - i - 1) * sizeof a->v[0]);
    a->n--;
    key_unref(k);
}

static int callback_failed(const char *what, int code)
{
    wm_err(code, "the attribute's %s function returned error code %d", what, code);
    return code;
}

/* The keys of a list, with references, in the order they were set.  NULL: the list is empty (*n 0),
 * or there is no memory (*n > 0). */
static struct keyval **keys_of(const struct wm_attrs *a, int *n)
{
    rt_lock(&lock);
    *n = a ? a->n : 0;
    struct keyval **keys = *n ? malloc((size_t)*n * sizeof(struct keyval *)) : NULL;
    for (int i = 0; keys && i < *n; i++) {
        keys[i] = a->v[i].key;
        keys[i]->obj.refs++;
    }
    rt_unlock(&lock);
    return keys;
}

/* Copies one attribute, unless a copy function has deleted it meanwhile. */
static int copy_one(const struct wm_attrs *from, void *from_handle, struct keyval *k,
                    struct wm_attrs **to)
{
    struct attr in = { 0 }, out = { .key = k };
    int flag = 0;
    rt_lock(&lock);
    int i = find(from, k);
    if (i >= 0)
        in = from->v[i];
    rt_unlock(&lock);
    if (i < 0)
        return MPI_SUCCESS;
    int err = call_copy(&in, from_handle, &out, &flag);
    if (err)
        return callback_failed("copy", err);
    if (!flag)
        return MPI_SUCCESS;
    rt_lock(&lock);
    err = store(to, &out);
    rt_unlock(&lock);
    return err;
}

int wm_attrs_copy(struct wm_attrs *from, void *from_handle, struct wm_attrs **to, void *to_handle)
{
    int n, err = MPI_SUCCESS;
    struct keyval **keys = keys_of(from, &n);
    if (n && !keys)
        return wm_err(MPI_ERR_NO_MEM, "no memory to copy %d attributes", n);
    for (int i = 0; !err && i < n; i++)
        err = copy_one(from, from_handle, keys[i], to);
    rt_lock(&lock);
    for (int i = 0; i < n; i++)
        key_unref(keys[i]);
    rt_unlock(&lock);
    free(keys);
    if (err)
        wm_attrs_delete_all(to, to_handle);
    return err;
}

/* The last attribute of the list, with a reference to its key; false if the list is empty. */
static bool take_last(const struct wm_attrs *a, struct attr *last)
{
    rt_lock(&lock);
    bool some = a->n > 0;
    if (some) {
        *last = a->v[a->n - 1];
        last->key->obj.refs++;
    }
    rt_unlock(&lock);
    return some;
}

int wm_attrs_delete_all(struct wm_attrs **attrs, void *handle)
{
    struct wm_attrs *a = *attrs;
    struct attr at = { 0 }; /* gcc 13 does not see that take_last() sets it */
    while (a && take_last(a, &at)) {
        int err = call_delete(&at, handle);
        rt_lock(&lock);
        /* The delete function may have deleted the attribute itself, or set others. */
        int i = err ? -1 : find(a, at.key);
        if (i >= 0)
            drop(a, i);
        key_unref(at.key);
        rt_unlock(&lock);
        if (err)
            return callback_failed("delete", err);
    }
    if (a)
        free(a->v);
    free(a);
    *attrs = NULL;
    return MPI_SUCCESS;
}

int wm_keyval_create(enum wm_attr_kind kind, uintptr_t copy, uintptr_t del, int *keyval,
                     void *extra)
{
    struct keyval *k = rt_slab_alloc(&keyval_slab);
    if (!k)
        return wm_err(MPI_ERR_NO_MEM, "no memory for another attribute key");
    k->kind = kind;
    k->copy.code = copy;
    k->del.code = del;
    k->extra = extra;
    *keyval = (int)k->obj.handle;
    return MPI_SUCCESS;
}

/* The key of this kind, or NULL with an error text.  A freed key exists until its last attribute
 * has gone, for calls that read and delete attributes (MPI-5.0 section 7.7). */
static struct keyval *keyval_get(enum wm_attr_kind kind, int keyval, bool even_freed)
{
    struct keyval *k = rt_slab_get(&keyval_slab, (uintptr_t)(unsigned)keyval);
    if (keyval >= MPI_TAG_UB && keyval <= MPI_WIN_MODEL)
        wm_err(MPI_ERR_KEYVAL, "key %d is predefined: its value cannot be changed", keyval);
    else if (keyval == MPI_KEYVAL_INVALID)
        wm_err(MPI_ERR_KEYVAL, "the key is MPI_KEYVAL_INVALID");
    else if (!k || (k->freed && !even_freed))
        wm_err(MPI_ERR_KEYVAL, "%d is no attribute key, or one that was freed", keyval);
    else if (k->kind != kind)
        wm_err(MPI_ERR_KEYVAL, "the key was made for %s, not for %s", kind_names[k->kind],
               kind_names[kind]);
    else
        return k;
    return NULL;
}

int wm_keyval_free(enum wm_attr_kind kind, int *keyval)
{
    rt_lock(&lock);
    struct keyval *k = keyval_get(kind, *keyval, false);
    if (k) {
        k->freed = true;
        key_unref(k);
    }
    rt_unlock(&lock);
    if (!k)
        return MPI_ERR_KEYVAL;
    *keyval = MPI_KEYVAL_INVALID;
    return MPI_SUCCESS;
}

int wm_keyval_set_x(int keyval, int lang, MPIX_Destructor_function *destroy)
{
    rt_lock(&lock);
    struct keyval *k = rt_slab_get(&keyval_slab, (uintptr_t)(unsigned)keyval);
    if (k) {
        k->lang = lang;
        k->destroy = destroy;
    }
    rt_unlock(&lock);
    return k ? MPI_SUCCESS : wm_err(MPI_ERR_KEYVAL, "%d is no attribute key", keyval);
}

static __thread struct {
    int keyval, lang;
} caller;

void wm_attr_set_language(int keyval, int lang)
{
    caller.keyval = keyval;
    caller.lang = lang;
}

int wm_attr_language(int keyval) { return caller.keyval == keyval ? caller.lang : MPIX_ATTR_C; }

/* Finds the attribute under a key, its index or -1, and copies it.  Returns the key with a
 * reference, which keeps the key while a function is called; NULL if there is no such key. */
static struct keyval *look_up(enum wm_attr_kind kind, const struct wm_attrs *a, int keyval,
                              bool even_freed, int *at, struct attr *attr)
{
    rt_lock(&lock);
    struct keyval *k = keyval_get(kind, keyval, even_freed);
    *at = k ? find(a, k) : -1;
    if (*at >= 0)
        *attr = a->v[*at];
    if (k)
        k->obj.refs++;
    rt_unlock(&lock);
    return k;
}

int wm_attr_set(enum wm_attr_kind kind, struct wm_attrs **attrs, void *handle, int keyval,
                void *value)
{
    int i, err = MPI_SUCCESS;
    struct attr old = { 0 };
    struct keyval *k = look_up(kind, *attrs, keyval, false, &i, &old);
    if (!k)
        return MPI_ERR_KEYVAL;
    struct attr given = { .key = k, .value = value, .lang = wm_attr_language(keyval) };
    if (i >= 0) { /* the old value is deleted first (MPI-5.0 section 7.7.2) */
        err = call_delete(&old, handle);
        if (err)
            err = callback_failed("delete", err);
    }
    rt_lock(&lock);
    if (!err)
        err = store(attrs, &given);
    key_unref(k);
    rt_unlock(&lock);
    return err;
}

int wm_attr_get(enum wm_attr_kind kind, struct wm_attrs *attrs, int keyval, void *value, int *flag)
{
    rt_lock(&lock);
    struct keyval *k = keyval_get(kind, keyval, true);
    int i = k ? find(attrs, k) : -1;
    *flag = i >= 0;
    if (i >= 0)
        *(void **)value = value_for(&attrs->v[i], wm_attr_language(keyval));
    rt_unlock(&lock);
    return k ? MPI_SUCCESS : MPI_ERR_KEYVAL;
}

int wm_attr_delete(enum wm_attr_kind kind, struct wm_attrs **attrs, void *handle, int keyval)
{
    int i, err;
    struct attr old = { 0 };
    struct keyval *k = look_up(kind, *attrs, keyval, true, &i, &old);
    if (!k)
        return MPI_ERR_KEYVAL;
    if (i < 0) {
        err = wm_err(MPI_ERR_KEYVAL, "no attribute is stored under this key");
    } else {
        err = call_delete(&old, handle);
        if (err)
            err = callback_failed("delete", err);
    }
    rt_lock(&lock);
    i = err ? -1 : find(*attrs, k);
    if (i >= 0)
        drop(*attrs, i);
    key_unref(k);
    rt_unlock(&lock);
    return err;
}
