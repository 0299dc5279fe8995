#!/usr/bin/env python3
"""Writes tests/golden/tokenizer/*.json: texts and their token ids, from independent tokenizers.

Byte-level vocabularies go through the `tokenizers` package: a pipeline built here from the file's
tokens and merges, with the pre-tokenizer and normalizer that the model's publisher uses. (Loaders
of GGUF vocabularies have been seen to ignore tokenizer.ggml.pre, so none is used.) SentencePiece
vocabularies go through the `sentencepiece` package: a model built here from the file's pieces and
scores.

usage: tokenizer_goldens.py MODELS_DIR OUTPUT_DIR     (needs gguf, tokenizers, sentencepiece)
"""

import base64
import json
import pathlib
import random
import struct
import sys

import gguf
import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# File name in MODELS_DIR -> name of the golden file.
FILES = {
    "SmolLM2-135M-Instruct.Q4_1.gguf": "smollm2",
    "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf": "qwen2",
    "gemma-3-270m-q4_k_m.gguf": "gemma3",
}

TEXTS = [
    "", " ", "  ", "   ", "\n", "\n\n", "\n\n\n", "\r\n", "\r\n\r\n", "\t", "\t\t\tx", " \n \n x",
    "a", " a", "a ", "  a  ", "a\nb", "a \n b", "a\r\n\r\nb", "x   ", "x\n   ", "\u3000x\u3000",
    "Hello world", " Hello world", "Hello, world! How are you?", "hello   world", "hello !",
    "I 'm here", "a , b", "The quick brown fox jumps over the lazy dog.",
    "don't DON'T Don'T we'll WE'LL they've I'd you're it's IT'S", "x\u2019s", "'\u017f 'S 's",
    "1", "12", "123", "1234567", "12345678", "3.14159", "1,000,000", "2024-01-31T23:59:59Z",
    "\u00bd", "\uff13\uff14", "\u00b2\u00b3", "\u0663\u0664\u0665", "\u2167 \u216b", "a1b22c333",
    "0x1F600 0b1010 1e-9", "+1 (555) 010-9999", "50% off", "$1,299.99", "\u20ac5 \u00a37",
    "caf\u00e9", "cafe\u0301", "\u212b", "A\u030a", "\u1e9b\u0323", "q\u0323\u0307", "q\u0307\u0323",
    "\u1100\u1161\u11a8", "\uac01", "\u0958", "\ufb01", "\u0344", "e\u0301\u0301\u0301\u0323",
    "Stra\u00dfe M\u00fcnchen \u00c4rger", "L'\u00e9t\u00e9 \u00e0 la plage, o\u00f9 \u00e7a",
    "El ni\u00f1o comi\u00f3 \u00bfpor qu\u00e9?", "Za\u017c\u00f3\u0142\u0107 g\u0119\u015bl\u0105 ja\u017a\u0144",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u041a\u0430\u043a \u0434\u0435\u043b\u0430?",
    "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u039a\u03cc\u03c3\u03bc\u03b5",
    "\u4eca\u5929\u5929\u6c14", "\u4eca\u5929\u5929\u6c14\u771f\u597d\uff0c\u6211\u4eec\u53bb\u516c\u56ed\u5427\u3002",
    "\u5ba2\u5355\u4ef7", "\u6771\u4eac\u90fd\u306b\u4f4f\u3093\u3067\u3044\u307e\u3059\u3002", "\u30ab\u30bf\u30ab\u30ca\u30c6\u30b9\u30c8",
    "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4", "\ud55c\uae00",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u0b9a\u0bc6\u0ba9\u0bcd\u0ba9\u0bc8", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
    "\u1201\u120e \u12d3\u1208\u121d", "\u13a3\u13b6\u13b8", "\u1693\u1691\u1690", "\u16a0\u16a2\u16a6", "\ua000\ua001", "\U00010330\U00010331",
    "\U00012000\U00012001 \U0001d504", "\u2801\u2803 \u2d30\u2d31", "\u180e x \u1680 y", "\u0085a\u2028b\u2029c",
    "a\u00a0b", "a\u3000b", "a\u200bb", "a\u2003\u2003b", "\ufeffbom", "x\u00ady",
    "\U0001f600", "\U0001f469\u200d\U0001f4bb", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "\U0001f44d\U0001f3fd", "\U0001f1ef\U0001f1f5", "1\ufe0f\u20e3", "I \u2764\ufe0f you \U0001f97a\U0001f97a",
    "\U0001f999", "\U0001fae8\U0001fadc", "\u2603\u2600\u2708",
    "->", "(x):\n", "__init__", "a_b", "def f():\n        return 1", "if (a != b && c <= d) { x += 1; }",
    "#include <vector>\nint main() {\n\treturn 0;\n}\n", "SELECT * FROM t WHERE a='b';",
    "https://example.com/a/b?c=d&e=%20f#g", "user@example.org", "C:\\Users\\me\\x.txt", "snake_case camelCase PascalCase",
    "<html><body class=\"x\">&amp;</body></html>", "{\"a\": [1, 2.5, null, \"\\u00e9\"]}", "====----____****",
    "\\frac{a}{b} \\sum_{i=0}^{n}", "```python\nprint('hi')\n```\n\n- item\n  - sub\n", "x" * 50, "_" * 70, "=" * 65,
    " " * 31 + "x", " " * 64, "\n" * 40, "\t" * 20, "ab" * 60, "Z" * 200, "0" * 100, "\u4e00" * 40, "\u0301" * 20,
    "<0x41>", "<s>x", "</s>", "<|im_end|>\n<|im_start|>system\nx", "<|endoftext|>", "<end_of_turn>", "<unused5>",
    "<tool_call>{}</tool_call>", "a<tool_call> b", "<|im_en", "[multimodal]", "a  b   c    d", "\n\n\n\nx\n\n",
    "\x00", "a\x00b", "\x01\x02\x1f\x7f", "\ufffd", "\U0010ffff", "\ue000", "\u2581x", "\u0120x \u010a",
]

PARAGRAPHS = [
    "In a hole in the ground there lived a program. It was not a nasty, dirty, wet program, filled "
    "with leaks and an oozy smell; it was a fast one, and that means comfort.",
    "Les ordinateurs n'inventent rien : ils r\u00e9p\u00e8tent. \u00ab Vraiment ? \u00bb demanda-t-elle, \u00e9tonn\u00e9e.",
    "\u673a\u5668\u5b66\u4e60\u662f\u4eba\u5de5\u667a\u80fd\u7684\u4e00\u4e2a\u5206\u652f\u3002\u5b83\u7814\u7a76\u5982\u4f55\u8ba9\u8ba1\u7b97\u673a\u4ece\u6570\u636e\u4e2d\u5b66\u4e60\uff0c\u800c\u4e0d\u662f\u9010\u6761\u5199\u89c4\u5219\u3002",
    "\u0412 2023 \u0433\u043e\u0434\u0443 \u043c\u043e\u0434\u0435\u043b\u0438 \u0441\u0442\u0430\u043b\u0438 \u043c\u0435\u043d\u044c\u0448\u0435, \u0431\u044b\u0441\u0442\u0440\u0435\u0435 \u2014 \u0438 \u0434\u0435\u0448\u0435\u0432\u043b\u0435 (\u043f\u043e\u0447\u0442\u0438 \u0432 10 \u0440\u0430\u0437).",
    "class Node:\n    def __init__(self, value, left=None, right=None):\n        self.value = value\n"
    "        self.left, self.right = left, right\n\n    def depth(self) -> int:\n"
    "        return 1 + max((c.depth() for c in (self.left, self.right) if c), default=0)\n",
]


def random_texts(rng):
    """Random bytes with invalid parts replaced, and random mixtures of scripts and spaces."""
    texts = []
    for length in [1, 2, 3, 4, 6, 9, 14, 20, 30, 45, 64, 100] * 3:
        texts.append(rng.randbytes(length).decode("utf-8", "replace"))
    # Bytes near the borders of UTF-8, so that many sequences are almost right.
    edges = bytes([0x00, 0x41, 0x7F, 0x80, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1,
                   0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF])
    for length in [2, 3, 4, 5, 8, 13, 21, 34] * 4:
        texts.append(bytes(rng.choice(edges) for _ in range(length)).decode("utf-8", "replace"))
    alphabet = list("abcdeXYZ0129   \n\n\r\t'.,!-_<>|/()") + [
        "\u00e9", "e\u0301", "\u4e2d", "\u6587", "\u3042", "\ud55c", "\u0436", "\u0639", "\u0905", "\u0301", "\u0323", "\u00a0", "\u3000",
        "\U0001f600", "\u200d", "\ufe0f", "'s", "'LL", " the", " in", "ing", "\u00bd", "\uff11", "\u2028",
    ]
    for length in [3, 5, 8, 13, 21, 34, 55] * 8:
        texts.append("".join(rng.choice(alphabet) for _ in range(length)))
    return texts


def random_byte_strings(rng):
    """Raw bytes: the tokenizer under test replaces the invalid parts itself."""
    edges = bytes([0x20, 0x41, 0x80, 0x9F, 0xA0, 0xBF, 0xC2, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xFF])
    strings = [rng.randbytes(length) for length in [1, 2, 3, 5, 8, 13, 21, 34, 55, 89] * 2]
    return strings + [bytes(rng.choice(edges) for _ in range(n)) for n in [2, 3, 4, 6, 9, 15] * 4]


def read_vocabulary(path):
    reader = gguf.GGUFReader(path)
    def value(key, default=None):
        field = reader.fields.get("tokenizer.ggml." + key)
        return default if field is None else field.contents()
    return value


def byte_level(value):
    """(text, parse_special) -> ids, for a "gpt2" vocabulary."""
    tokens, kinds = value("tokens"), value("token_type")
    merges = [tuple(merge.split(" ")) for merge in value("merges")]
    vocabulary = {token: i for i, token in enumerate(tokens) if kinds[i] != UNUSED}
    pre = value("pre")

    def build(added_kinds):
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
        if pre == "qwen2":
            tokenizer.normalizer = normalizers.NFC()
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
                pre_tokenizers.Split(Regex(QWEN2_PATTERN), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ])
        elif pre == "smollm":
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ])
        else:
            raise SystemExit(f"no published pre-tokenizer is known here for {pre!r}")
        tokenizer.decoder = decoders.ByteLevel()
        added = [AddedToken(token, normalized=False, special=kinds[i] == CONTROL)
                 for i, token in enumerate(tokens) if kinds[i] in added_kinds]
        tokenizer.add_tokens(added)
        return tokenizer

    plain, special = build({USER_DEFINED}), build({USER_DEFINED, CONTROL})
    return lambda text, parse_special: (special if parse_special else plain).encode(
        text, add_special_tokens=False).ids


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, value):
    """One field of a protocol-buffer message (sentencepiece_model.proto gives the numbers)."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value)


def sentence_piece(value):
    """(text, parse_special) -> ids, for a "llama" vocabulary; control text is never parsed."""
    tokens, scores, kinds = value("tokens"), value("scores"), value("token_type")
    types = {NORMAL: 1, UNKNOWN: 2, CONTROL: 3, USER_DEFINED: 4, UNUSED: 5, BYTE: 6}
    unknown = value("unknown_token_id")
    pieces = []
    for i, (token, score, kind) in enumerate(zip(tokens, scores, kinds)):
        # Files spell the spaces of user-defined pieces as spaces.
        piece = token.replace(" ", "\u2581") if kind == USER_DEFINED else token
        pieces.append(field(1, field(1, piece.encode()) + field(2, float(score))
                            + field(3, types[UNKNOWN if i == unknown else kind])))
    trainer = (field(3, 2)  # model_type: BPE
               + field(4, len(tokens))  # vocab_size
               + field(35, 1)  # byte_fallback
               + field(45, tokens[unknown].encode()))  # unk_piece
    normalizer = (field(1, b"identity")
                  + field(3, int(value("add_space_prefix", True)))  # add_dummy_prefix
                  + field(4, 0)  # remove_extra_whitespaces
                  + field(5, 1))  # escape_whitespaces
    model = b"".join(pieces) + field(2, trainer) + field(3, normalizer)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return lambda text, parse_special: processor.EncodeAsIds(text)


def main():
    models_dir, output_dir = map(pathlib.Path, sys.argv[1:3])
    output_dir.mkdir(parents=True, exist_ok=True)
    for file_name, name in FILES.items():
        value = read_vocabulary(models_dir / file_name)
        is_bpe = value("model") == "gpt2"
        encode = byte_level(value) if is_bpe else sentence_piece(value)
        rng = random.Random(20240917)
        texts = TEXTS + PARAGRAPHS + [" ".join(PARAGRAPHS)] + random_texts(rng)
        cases = [{"text": text, "ids": encode(text, False)} for text in texts]
        if is_bpe:
            controls = [t for t, k in zip(value("tokens"), value("token_type")) if k == CONTROL]
            for control in controls:
                for shape in ["{0}", "a{0}b", " {0} ", "{0}{0}\n", "<{0}", "x{0}\n\n y"]:
                    text = shape.format(control)
                    cases.append({"text": text, "special": True, "ids": encode(text, True)})
        for raw in random_byte_strings(rng):
            cases.append({"base64": base64.b64encode(raw).decode(),
                          "ids": encode(raw.decode("utf-8", "replace"), False)})
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
        path = output_dir / f"{name}.json"
        path.write_text(f'{{"file":"{file_name}","cases":[\n{lines}\n]}}\n')
        print(f"{path}: {len(cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
