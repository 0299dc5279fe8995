"""What is compared: a row is one figure of one file, measured by every engine in turn."""

import fnmatch
from dataclasses import dataclass

BATCHED_PROMPT = 16  # tokens of each prompt of a batch: the peer's bench needs some
DECODED = 64         # tokens of a decode row, of each sequence in a batch 32
DECODED_IN_BATCH = 32
MEMORY_PROMPT = 512  # tokens of the prompt after which peak memory is read


@dataclass(frozen=True)
class Row:
    name: str
    kind: str          # prefill, decode, batch, load or memory
    unit: str = "tok/s"
    prompt: int = 0    # tokens of a prompt that is timed
    decoded: int = 0   # tokens of each sequence that are timed
    depth: int = 0     # tokens that each sequence has before
    parallel: int = 1
    repeats: int = 1   # in one process, of which the median counts
    only: str = "*"    # files that have the row

    @property
    def lower_is_better(self):
        return self.kind in ("load", "memory")

    @property
    def context(self):
        """Tokens that a sequence needs room for."""
        return self.depth + max(self.prompt, self.decoded) + 64


ROWS = (
    Row("prefill@16", "prefill", prompt=16, repeats=9),
    Row("prefill@64", "prefill", prompt=64, repeats=5),
    Row("prefill@256", "prefill", prompt=256, repeats=3),
    Row("prefill@2048", "prefill", prompt=2048),
    Row("decode@0", "decode", decoded=DECODED, repeats=3),
    Row("decode@2048", "decode", decoded=DECODED, depth=2048),
    Row("decode@8192", "decode", decoded=DECODED, depth=8192, only="1.5b*"),
    *(Row(f"batch@{n}", "batch", decoded=DECODED_IN_BATCH, depth=BATCHED_PROMPT, parallel=n)
      for n in (2, 4, 8, 16, 32)),
    Row("load", "load", unit="s"),
    Row("memory", "memory", unit="MiB", prompt=MEMORY_PROMPT, decoded=32),
)


def matches(name, globs):
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)


def chosen(names, globs, what):
    """The names that a comma-separated list of globs picks, in their own order."""
    globs = [glob for glob in globs.split(",") if glob]
    for glob in globs:
        if not any(fnmatch.fnmatchcase(name, glob) for name in names):
            raise SystemExit(f"no {what} is called {glob!r}; there are: {', '.join(names)}")
    return [name for name in names if matches(name, globs)]
