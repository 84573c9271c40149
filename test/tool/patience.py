# SPDX-License-Identifier: BSD-3-Clause
"""Time limits of tests on a machine that may be busy with something else.  Time in which processors or the disk were short
does not count for a limit: the kernel measures it (pressure stall information), and so does the host of a virtual machine.
If neither figure exists, all time counts, as on an idle machine.  A machine that stands still shows in neither figure: its clock
has gone on, and the test has not run.  A host that stops a virtual machine does that."""

import os
import re
import time

PATIENCE = 4                    # a hang is detected in the end, whatever the machine does
GAP_S = 1.0                     # who waits looks at its stopwatch every few milliseconds; more than this between two looks: it stood still


def starved():
    """Seconds so far in which a process waited for a processor or the disk of this machine, or the machine for a processor of
    its host."""
    seconds = 0.0
    for resource in "cpu", "io":
        try:
            with open(f"/proc/pressure/{resource}") as f:
                seconds += int(re.search(r"^some .*total=(\d+)", f.read(), re.M)[1]) / 1e6
        except (OSError, TypeError):
            pass
    try:
        with open("/proc/stat") as f:
            seconds += int(f.readline().split()[8]) / os.sysconf("SC_CLK_TCK") / os.cpu_count()
    except (OSError, IndexError, ValueError):
        pass
    return seconds


class Stopwatch:
    def __init__(self):
        self.began, self.before = time.monotonic(), starved()
        self.looked, self.still = self.began, 0.0

    def wall(self):
        """Seconds since its creation."""
        return time.monotonic() - self.began

    def own(self):
        """The same without the time in which processors or the disk were short, or nothing ran: the time that counts for a
        limit."""
        return max(0.0, self.wall() - self.still - (starved() - self.before))

    def over(self, limit):
        """Whether a limit that guards against hanging has been reached.  For loops that call it again and again: of the time
        between two calls only GAP_S counts."""
        now = time.monotonic()
        self.still += max(0.0, now - self.looked - GAP_S)
        self.looked = now
        ran = now - self.began - self.still
        return ran > PATIENCE * limit or (ran > limit and self.own() > limit)
