#!/usr/bin/env python3
"""Cuts whole vocabularies down to what a few texts need, keeping every id, score and rank.

A piece or merge can matter only if its text occurs in one of the texts, so the small vocabulary
gives those texts the ids that the whole one gives. Ids between the kept ones are filler.

usage: minimal_vocabularies.py LLAMA2_GGUF LLAMA3_GGUF OUTPUT_DIR     (needs gguf)
"""

import json
import pathlib
import sys

import gguf

LLAMA2_TEXTS = [
    "  Hello world", "text ", "a\nb", "text", "1234567", "\U0001f999", "\ud55c\uae00", "<0x41>", "<s>x", " leading x",
    "[INST] Hi [/INST]", "aaaaaaaaaaaaaaaaaaaa", "____________________",
    "the quick brown fox jumps over the lazy dog and runs",
]
LLAMA3_TEXTS = [
    "12345678", "caf\u00e9", "cafe\u0301", "hello !", "I 'm", "a , b", "Hello world",
    "aaaaaaaaaaaaaaaaaaaa", " Bundesliga", "don't DON'T",
]
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def read(path):
    reader = gguf.GGUFReader(path)
    return lambda key: reader.fields["tokenizer.ggml." + key].contents()


def byte_alphabet():
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    spare = [byte for byte in range(256) if byte not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(0x100 + i) for i, b in enumerate(spare)}}


def write(path, num_tokens, tokens, **others):
    lines = ",\n".join(json.dumps(token, separators=(",", ":")) for token in tokens)
    head = "".join(f'"{key}":{json.dumps(value)},\n' for key, value in others.items())
    path.write_text(f'{{"num_tokens":{num_tokens},\n{head}"tokens":[\n{lines}\n]}}\n')
    print(path, len(tokens), "tokens", path.stat().st_size, "bytes")


def main():
    llama2, llama3, output_dir = sys.argv[1:4]
    output_dir = pathlib.Path(output_dir)

    value = read(llama2)
    haystack = "\n\n".join("\u2581" + text.replace(" ", "\u2581") for text in LLAMA2_TEXTS)
    tokens = [[i, token, kind, score] for i, (token, kind, score)
              in enumerate(zip(value("tokens"), value("token_type"), value("scores")))
              if kind != NORMAL or token in haystack]
    write(output_dir / "llama2_minimal.json", len(value("tokens")), tokens)

    value = read(llama3)
    spell = byte_alphabet()
    haystack = "  ".join("".join(spell[b] for b in text.encode()) for text in LLAMA3_TEXTS)
    named = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
             "<|eot_id|>"]
    tokens = [[i, token, kind] for i, (token, kind)
              in enumerate(zip(value("tokens"), value("token_type")))
              if token in named or (kind == NORMAL and (token in haystack or len(token) == 1))]
    merges = [m for m in value("merges") if m.replace(" ", "", 1) in haystack]
    write(output_dir / "llama3_minimal.json", len(value("tokens")), tokens, merges=merges)


if __name__ == "__main__":
    main()
