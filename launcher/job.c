/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of a job to the user.  Main thread. */
#include "launcher/job.h"

#include <stdarg.h>

void launch_say(const struct launch_job *job, const char *fmt, ...)
{
    char text[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    job->say(text);
}
