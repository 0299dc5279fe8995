"""How busy the machine is with something else: processor time of other processes, by /proc/stat.

What this process and the children that it has waited for take is its own. Everything else counts,
time that the host gave to other guests (steal) too. A measurement beside which others took more
than a share of a processor means little, and is called noisy.
"""

import os
import pathlib
import time

# The fields of the first line: user nice system idle iowait irq softirq steal guest guest_nice.
# Guests' time is part of user's.
BUSY_FIELDS = (0, 1, 2, 5, 6, 7)


def busy_seconds(stat, ticks_a_second):
    """Of all processors together, since the machine started."""
    fields = stat.split("\n", 1)[0].split()
    if not fields or fields[0] != "cpu":
        raise ValueError(f"not /proc/stat: {stat[:40]!r}")
    values = [int(field) for field in fields[1:]]
    return sum(values[i] for i in BUSY_FIELDS if i < len(values)) / ticks_a_second


class Clock:
    """Readings of the real machine; tests have their own."""

    def busy(self):
        return busy_seconds(pathlib.Path("/proc/stat").read_text(), os.sysconf("SC_CLK_TCK"))

    def own(self):
        times = os.times()
        return times.user + times.system + times.children_user + times.children_system

    def wall(self):
        return time.monotonic()


class Meter:
    """Others' processor time from here to others()."""

    def __init__(self, clock=None):
        self.clock = clock or Clock()
        self.start = self.clock.wall(), self.clock.busy(), self.clock.own()

    def others(self):
        """In processors: 0.5 is half of one."""
        wall, busy, own = (self.clock.wall() - self.start[0], self.clock.busy() - self.start[1],
                           self.clock.own() - self.start[2])
        return max(0.0, busy - own) / wall if wall > 0 else 0.0


def wait_until_idle(limit, patience, say, sample=1.0):
    """Others' processors once they are at most `limit`, or after `patience` seconds."""
    deadline = time.monotonic() + patience
    said = False
    while True:
        meter = Meter()
        time.sleep(sample)
        others = meter.others()
        if others <= limit or time.monotonic() >= deadline:
            return others
        if not said:
            say(f"others use {others:.2f} processors; waiting up to {patience:.0f} s")
            said = True
