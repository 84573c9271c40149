/* SPDX-License-Identifier: BSD-3-Clause */
/* --plot FILE.svg or FILE.png: the first column over the message size, both axes logarithmic, with
 * the limit as a dashed line under --limits.  The SVG is written here; a PNG is made from it by
 * rsvg-convert or ImageMagick.  Rank 0 only. */
#define _GNU_SOURCE 1
#include "test/bench/bench.h"
#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { W = 800, H = 500, LEFT = 80, RIGHT = 30, TOP = 50, BOTTOM = 60 };

struct axes {
    double x0, x1, y0, y1;
}; /* log2 of the size, log10 of the value */

static double log_size(size_t n)
{
    return n ? log2((double)n) : -1; /* size 0 stands one step left of 1 */
}

static double log_value(double v) { return log10(v > 1e-6 ? v : 1e-6); }

static double px(const struct axes *a, double x)
{
    return LEFT + (x - a->x0) / (a->x1 - a->x0) * (W - LEFT - RIGHT);
}

static double py(const struct axes *a, double y)
{
    return H - BOTTOM - (y - a->y0) / (a->y1 - a->y0) * (H - TOP - BOTTOM);
}

static struct axes fit(const struct bench *b)
{
    struct axes a = { 1e9, -1e9, 1e9, -1e9 };

    for (int i = 0; i < b->nrows; i++) {
        const struct bench_row *r = &b->rows[i];
        double y = log_value(r->v[0]), l = b->opt.limits ? log_value(r->limit) : y;
        a.x0 = fmin(a.x0, log_size(r->nbytes));
        a.x1 = fmax(a.x1, log_size(r->nbytes));
        a.y0 = fmin(a.y0, fmin(y, l));
        a.y1 = fmax(a.y1, fmax(y, l));
    }
    a.y0 = floor(a.y0);
    a.y1 = ceil(a.y1) > a.y0 ? ceil(a.y1) : a.y0 + 1;
    if (a.x1 <= a.x0)
        a.x1 = a.x0 + 1;
    return a;
}

static void size_label(char *out, size_t len, double log2_size)
{
    static const char *const units[] = { "", "K", "M", "G" };
    int l = (int)log2_size, u = l < 0 ? 0 : l / 10;

    snprintf(out, len, "%g%s", l < 0 ? 0 : ldexp(1, l % 10), units[u > 3 ? 3 : u]);
}

static void grid(FILE *f, const struct axes *a)
{
    int step = a->x1 - a->x0 > 12 ? 2 : 1;
    char label[32];

    for (double x = a->x0; x <= a->x1; x += step) {
        size_label(label, sizeof label, x);
        fprintf(f, "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#ddd'/>\n", px(a, x), TOP,
                px(a, x), H - BOTTOM);
        fprintf(f, "<text x='%.1f' y='%d' text-anchor='middle'>%s</text>\n", px(a, x),
                H - BOTTOM + 18, label);
    }
    for (double y = a->y0; y <= a->y1; y++) {
        fprintf(f, "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#ddd'/>\n", LEFT, py(a, y),
                W - RIGHT, py(a, y));
        fprintf(f, "<text x='%d' y='%.1f' text-anchor='end'>%g</text>\n", LEFT - 6, py(a, y) + 4,
                pow(10, y));
    }
}

static void curve(FILE *f, const struct bench *b, const struct axes *a, bool limit)
{
    fprintf(f, "<polyline fill='none' stroke='%s' stroke-width='2'%s points='",
            limit ? "#888" : "#06c", limit ? " stroke-dasharray='6 4'" : "");
    for (int i = 0; i < b->nrows; i++) {
        double v = limit ? b->rows[i].limit : b->rows[i].v[0];
        fprintf(f, "%.1f,%.1f ", px(a, log_size(b->rows[i].nbytes)), py(a, log_value(v)));
    }
    fputs("'/>\n", f);
    for (int i = 0; i < b->nrows && !limit; i++)
        fprintf(f, "<circle cx='%.1f' cy='%.1f' r='3' fill='#06c'/>\n",
                px(a, log_size(b->rows[i].nbytes)), py(a, log_value(b->rows[i].v[0])));
}

static void draw(FILE *f, const struct bench *b)
{
    struct axes a = fit(b);

    fprintf(f,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
            "font-family='sans-serif' font-size='12'>\n"
            "<rect width='100%%' height='100%%' fill='white'/>\n",
            W, H);
    fprintf(f, "<text x='%d' y='28' font-size='16'>%s, %d ranks</text>\n", LEFT, b->spec->name,
            b->nranks);
    grid(f, &a);
    if (b->opt.limits) {
        curve(f, b, &a, true);
        fprintf(f,
                "<text x='%d' y='28' text-anchor='end' fill='#666'>dashed: machine limit</text>\n",
                W - RIGHT);
    }
    curve(f, b, &a, false);
    fprintf(f, "<text x='%d' y='%d' text-anchor='middle'>message size (bytes)</text>\n",
            (LEFT + W - RIGHT) / 2, H - 18);
    fprintf(
        f,
        "<text transform='translate(20 %d) rotate(-90)' text-anchor='middle'>%s</text>\n</svg>\n",
        (TOP + H - BOTTOM) / 2, b->spec->cols[0].head);
}

static int write_svg(const struct bench *b, const char *path)
{
    FILE *f = fopen(path, "w");
    int bad;

    if (f)
        draw(f, b);
    bad = !f || ferror(f);
    if (f && fclose(f))
        bad = 1;
    if (bad)
        fprintf(stderr, "%s: --plot %s: could not write: %s\n", b->spec->name, path,
                strerror(errno));
    return bad;
}

/* 0: the program ran and succeeded */
static int spawn(char *const argv[])
{
    pid_t pid;
    int status;

    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ))
        return -1;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -1;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static int write_png(const struct bench *b, const char *path)
{
    char svg[] = "/tmp/weft-bench-XXXXXX.svg", *png = strdup(path);
    char *const tools[][6] = { { "rsvg-convert", "-o", png, svg, NULL },
                               { "magick", svg, png, NULL },
                               { "convert", svg, png, NULL } };
    int fd = mkstemps(svg, 4), bad = 1;

    if (fd < 0 || !png) {
        fprintf(stderr, "%s: --plot %s: no temporary file in /tmp: %s\n", b->spec->name, path,
                strerror(errno));
        free(png);
        return 1;
    }
    close(fd);
    if (!write_svg(b, svg)) {
        for (int i = 0; i < 3 && bad; i++)
            bad = spawn(tools[i]) ? 1 : 0;
        if (bad)
            fprintf(stderr,
                    "%s: --plot %s: a PNG needs rsvg-convert (apt-get install librsvg2-bin) "
                    "or ImageMagick; or name a .svg file\n",
                    b->spec->name, path);
    }
    unlink(svg);
    free(png);
    return bad;
}

int bench_plot_write(const struct bench *b, const char *path)
{
    return strcmp(strrchr(path, '.'), ".png") ? write_svg(b, path) : write_png(b, path);
}
