"""Writes dequantize_golden.txt: random blocks of each format and what the `gguf` package makes of
them, as hexadecimal bytes and binary32 bits. Run with a Python that has gguf and numpy."""

import pathlib

import numpy as np
from gguf import GGMLQuantizationType, quants

BLOCKS = 2
# Where a format's block keeps its half-precision scales, which must be finite to be compared.
HALVES = {"F16": [0], "BF16": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2],
          "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
BYTES = {"F16": 2, "BF16": 2, "Q4_0": 18, "Q4_1": 20, "Q5_0": 22, "Q5_1": 24, "Q8_0": 34,
         "Q4_K": 144, "Q5_K": 176, "Q6_K": 210}


def main():
    random = np.random.default_rng(20240229)
    lines = []
    for name, block_bytes in BYTES.items():
        blocks = BLOCKS if block_bytes > 2 else 16
        data = random.integers(0, 256, size=(blocks, block_bytes), dtype=np.uint8)
        for offset in HALVES[name]:
            # The top exponent bit off: no infinity, no NaN, and small numbers stay likely.
            data[:, offset + 1] &= 0xBF
        if block_bytes > 2:
            # One subnormal scale a format.
            offset = HALVES[name][0]
            data[-1, offset] = 0x55
            data[-1, offset + 1] = 0x81
        flat = data.reshape(1, -1)
        floats = quants.dequantize(flat, GGMLQuantizationType[name]).astype(np.float32)
        lines.append(f"{name} {flat.tobytes().hex()} {floats.view(np.uint32).astype('>u4').tobytes().hex()}")
    path = pathlib.Path(__file__).parent / "dequantize_golden.txt"
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
