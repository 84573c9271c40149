# SPDX-License-Identifier: BSD-3-Clause
"""Whether two processors are as near to each other as before.  The host of a virtual machine moves its processors: two that
share a cache pass a line in 0.04 us, the next second perhaps in 0.11 or 0.4, and all that two ranks do is slower by as much.
Runs of two libraries can be compared only if the processors were equally near in both."""
import os
import subprocess

SAME = 1.25     # ratio of two figures of one distance: they differ by 5 %, those of two distances by a factor of 2.5 or more
ATTEMPTS = 5    # runs until the distance before and after is that of the turn; then the last one counts


class Cores:
    """program: core_pair; None or one that cannot run here: nothing is known, every run counts."""

    def __init__(self, program):
        self.program = program if program and os.access(program, os.X_OK) else None
        self.repeated = self.mixed = 0
        self.seen = []

    def distance(self):
        """Microseconds for a cache line from one processor to the other, or None."""
        if not self.program:
            return None
        try:
            p = subprocess.run([self.program], capture_output=True, text=True, timeout=60)
            us = float(p.stdout)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            self.program = None
            return None
        self.seen.append(us)
        return us

    def measure(self, run, wanted):
        """The result of run(), begun and ended at the wanted distance (None: at any, but one), and that distance.  The run is
        repeated until that is so."""
        before = self.distance()
        for _ in range(ATTEMPTS):
            result = run()
            after = self.distance()
            if same(before, after) and same(wanted, after):
                return result, after
            self.repeated += 1
            before = after
        self.repeated -= 1
        self.mixed += 1
        return result, wanted or after

    def text(self):
        """What was found in all, or nothing where all runs were alike."""
        if not self.seen or (not self.repeated and not self.mixed):
            return ""
        return (f"the processors moved: a cache line between them took {min(self.seen):.3g} to {max(self.seen):.3g} us; "
                f"{self.repeated} runs were repeated for that, {self.mixed} stayed at another distance than their turn; "
                f"such a turn counts only where a section has no other")


def of_even_turns(figures, uneven):
    """The figures of the turns in which all libraries ran at one distance; all figures, if there was no such turn."""
    return [x for turn, x in enumerate(figures) if turn not in uneven] or figures


def same(a, b):
    return a is None or b is None or max(a, b) <= SAME * min(a, b)
