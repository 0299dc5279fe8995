"""The file that `quire perplexity MODEL TEXT --save-logits OUT` writes, read and written.

Little-endian: 8 bytes "QUIRELG1"; uint32 vocab_size, window, num_windows, first_scored; int32
tokens [num_windows, window]; then for each window the rows first_scored .. window - 2, each
float32 logits [vocab_size] that predict the token after it.
"""

import pathlib
import struct

import numpy as np

MAGIC = b"QUIRELG1"
HEADER = struct.Struct("<8s4I")


class LogitsFile:
    """Tokens in memory, logits [num_windows, rows, vocab_size] mapped from the file."""

    def __init__(self, path):
        path = pathlib.Path(path)
        with path.open("rb") as file:
            head = file.read(HEADER.size)
        if len(head) < HEADER.size:
            raise ValueError(f"{path}: {len(head)} bytes, too short for a header")
        magic, self.vocab_size, self.window, self.num_windows, self.first_scored = (
            HEADER.unpack(head)
        )
        if magic != MAGIC:
            raise ValueError(f"{path}: starts with {magic!r}, expected {MAGIC!r}")
        if not 0 <= self.first_scored < self.window - 1:
            raise ValueError(f"{path}: first scored row {self.first_scored} of {self.window}")
        tokens_bytes = 4 * self.num_windows * self.window
        rows = self.num_windows * self.num_rows
        expected = HEADER.size + tokens_bytes + 4 * rows * self.vocab_size
        if path.stat().st_size != expected:
            raise ValueError(f"{path}: {path.stat().st_size} bytes, expected {expected}")
        self.tokens = np.fromfile(
            path, dtype="<i4", count=self.num_windows * self.window, offset=HEADER.size
        ).reshape(self.num_windows, self.window)
        self.logits = np.memmap(
            path, dtype="<f4", mode="r", offset=HEADER.size + tokens_bytes,
            shape=(self.num_windows, self.num_rows, self.vocab_size),
        )

    @property
    def num_rows(self):
        return self.window - 1 - self.first_scored


def write_logits_file(path, tokens, first_scored, vocab_size, rows_of_window):
    """tokens [num_windows, window]; rows_of_window(index) gives float32 [rows, vocab_size].

    The file appears under its name only when it is whole.
    """
    path = pathlib.Path(path)
    partial = path.with_name(path.name + ".partial")
    num_windows, window = tokens.shape
    with partial.open("wb") as file:
        file.write(HEADER.pack(MAGIC, vocab_size, window, num_windows, first_scored))
        file.write(np.ascontiguousarray(tokens, dtype="<i4").tobytes())
        for index in range(num_windows):
            rows = np.ascontiguousarray(rows_of_window(index), dtype="<f4")
            assert rows.shape == (window - 1 - first_scored, vocab_size)
            file.write(rows.tobytes())
    partial.rename(path)
