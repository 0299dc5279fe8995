"""A program on a pseudo-terminal of its own, as a person would see it. Standard library alone."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time


class Terminal:
    def __init__(self, arguments, environment=None, rows=40, columns=100):
        self.seen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(arguments[0], arguments, environment or os.environ)
        self.resize(rows, columns)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                self.seen += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:  # the child is gone
                return False
        return True

    def wait_for(self, pattern, seconds=60):
        """Everything up to the first match from here on; the match is consumed."""
        deadline = time.monotonic() + seconds
        while True:
            match = re.search(pattern, self.seen)
            if match:
                before, self.seen = self.seen[:match.end()], self.seen[match.end():]
                return before
            if time.monotonic() > deadline:
                raise AssertionError(f"no {pattern!r} in {self.seen[-3000:]!r}")
            if not self.read(0.2):
                time.sleep(0.1)

    def send(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        """The rest of the output, and the exit status."""
        while self.read(30):
            pass
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return self.seen, status
