# SPDX-License-Identifier: BSD-3-Clause
"""Time limits of tests on a machine that may be busy with something else.  Time in which processors were short counts for
nobody's slowness: the kernel sums it up (pressure stall information), and so does the host of a virtual machine.  Where
neither is told, all time counts, as it does on a machine that has nothing else to do."""

import os
import re
import time

PATIENCE = 4                    # a hang is one at last, whatever the machine does


def starved():
    """Seconds so far in which somebody waited for a processor of this machine, or the machine for one of its host's."""
    seconds = 0.0
    try:
        with open("/proc/pressure/cpu") as f:
            seconds = int(re.search(r"^some .*total=(\d+)", f.read(), re.M)[1]) / 1e6
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

    def wall(self):
        """Seconds since it was made."""
        return time.monotonic() - self.began

    def own(self):
        """The same without those in which processors were short: what may be held against a program."""
        return max(0.0, self.wall() - (starved() - self.before))

    def over(self, limit):
        """Whether a limit that guards against hanging has been reached."""
        wall = self.wall()
        return wall > PATIENCE * limit or (wall > limit and self.own() > limit)
