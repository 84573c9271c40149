/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the libraries of this installation are. */
#include "launcher/abi/abi.h"
#include "launcher/abi/paths.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What follows the prefix in the path of a folder; "": it lies elsewhere. */
static const char *below_prefix(const char *path)
{
    size_t len = strlen(ABI_PREFIX);
    return !strncmp(path, ABI_PREFIX "/", len + 1) ? path + len : "";
}

static bool join(enum abi_kind kind, const char *root, const char *lib, char *path, size_t len)
{
    bool shims = kind != ABI_STANDARD;
    int n = snprintf(path, len, "%s%s%s%s", root, lib, shims ? "/weft/" : "",
                     shims ? abi_word(kind) : "");
    return n < (int)len;
}

/* Folder of the libraries of this installation, which may have been moved, or of the build tree. */
bool abi_folder(enum abi_kind kind, char *path, size_t len)
{
    char self[PATH_MAX], try[PATH_MAX + 32];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (!slash)
        return false;
    *slash = '\0';
    if (!strcmp(slash - (slash - self >= 6 ? 6 : 0), "/.libs")) /* of libtool, in the build tree */
        *(slash - 6) = '\0';
    snprintf(try, sizeof try, "%s/libmpi_abi.la", self);
    if (access(try, F_OK) == 0)
        return join(kind, self, "/.libs", path, len);
    const char *bin = below_prefix(ABI_BINDIR), *lib = below_prefix(ABI_LIBDIR);
    size_t len_self = strlen(self), len_bin = strlen(bin);
    if (*lib && *bin && len_self >= len_bin && !strcmp(self + len_self - len_bin, bin))
        self[len_self - len_bin] = '\0';
    else
        snprintf(self, sizeof self, "%s", lib = ABI_LIBDIR), lib = "";
    return join(kind, self, lib, path, len);
}
