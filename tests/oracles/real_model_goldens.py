"""Golden log-probabilities of real GGUF files: float32 weights, float32 arithmetic, transformers.

    LLAMA_CPP_PACKAGE=... python real_model_goldens.py MODEL.gguf OUT.json [--say]

Every weight is dequantised to float32 by the gguf package; the token ids come from llama.cpp's
tokenizer and are stored, so a test needs neither. --say prints each prompt's best next tokens, for
a look at whether the text makes sense. Needs four bytes of memory a parameter and a little more.
"""

import argparse
import json
import pathlib

import torch
import transformers

from gguf_families import load_float32, logits_at, top_entries
from llama_cpp_api import LlamaCpp

CHAT = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "<|im_start|>user\nWhich planet is the largest?<|im_end|>\n<|im_start|>assistant\n"
)
CODE = '''def fibonacci(n):
    """Return the n-th Fibonacci number."""
    if n < 2:
        return n
    return fibonacci(n - 1) +'''
CPP = """#include <vector>
#include <algorithm>

int main() {
  std::vector<int> values = {3, 1, 2};
  std::sort(values.begin(), values."""
PARAGRAPH = (
    "The lighthouse stood at the end of a long causeway, and on days of fog the keeper rang a bell "
    "every two minutes. Ships that had left the harbour before dawn listened for it and counted. "
    "When the count was wrong they turned back. In the evening he wrote the weather in a book, the "
    "names of the ships he had seen, and how much oil the lamp had burned. "
)
PROMPTS = {
    "capital": "The capital of France is",
    "story": "Once upon a time, in a small village by the sea, there lived",
    "one word": "Hello",
    "weather in Chinese": "今天天气",
    "Chinese sentence": "北京是中国的首都,上海是中国最大的城市之一。人工智能",
    "mixed scripts": "Größe, naïve café, Привет мир, こんにちは世界, 🙂👩‍🚀 and",
    "Python": CODE,
    "C++": CPP,
    "JSON": '{"name": "Ada", "born": 1815, "fields": ["mathematics", "computing"], "language":',
    "numbers": "1, 1, 2, 3, 5, 8, 13, 21,",
    "chat": CHAT,
    "white space": "\n\n    a\t\tb   c\n\n\n",
    "paragraph": PARAGRAPH * 2 + "The lighthouse stood at the end of a",
    "600 tokens": None,
}


def long_text(tokenize, count):
    """At least `count` tokens of numbered diary entries, so that no two stretches are equal."""
    text, day = "", 0
    while len(tokenize(text)) < count:
        day += 1
        text += f"Day {day}. Wind {day * 7 % 12}, {day * 13 % 29} ships, {day * 5 % 17} l of oil. "
        text += PARAGRAPH if day % 4 == 1 else ""
    return text + "The lighthouse stood at the"


def positions_of(length):
    """The last position and up to four others, block, span and window borders among them."""
    inner = (0, 15, length // 2, 128, 512)
    chosen = [p for p in inner if p < length - 1]
    return sorted({length - 1, *chosen[-4:]})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--say", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    transformers.logging.set_verbosity_error()

    peer = LlamaCpp(args.model)
    prompts = dict(PROMPTS)
    prompts["600 tokens"] = long_text(peer.tokenize, 600)
    encoded = {name: peer.tokenize(text) for name, text in prompts.items()}
    peer.close()

    model, meta = load_float32(args.model)
    words = meta.get("tokenizer.ggml.tokens") if args.say else None
    sequences = []
    for name, tokens in encoded.items():
        positions = positions_of(len(tokens))
        rows = top_entries(logits_at(model, tokens, positions), positions)
        sequences.append(
            {"name": name, "text": prompts[name], "tokens": tokens, "positions": rows}
        )
        if args.say:
            print(f"{name} ({len(tokens)} tokens):",
                  [(words[i], value) for i, value in rows[-1]["top"][:4]])
    golden = {"model": args.model.name, "sequences": sequences}
    args.out.write_text(
        json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
