"""Golden embeddings of a real GGUF file: float32 weights, float32 arithmetic, transformers.

    LLAMA_CPP_PACKAGE=... python embedding_goldens.py MODEL.gguf OUT.json

For each text the last hidden states (after the final norm), their mean over the tokens and the last
of them, each scaled to length 1 and rounded to four decimals. The token ids come from llama.cpp's
tokenizer and are stored, so a test needs neither.
"""

import argparse
import json
import pathlib

import torch
import transformers

from gguf_families import load_float32
from llama_cpp_api import LlamaCpp
from real_model_goldens import CODE, PARAGRAPH

TEXTS = {
    "question": "Why is the sky blue?",
    "another question": "What makes the sky look blue during the day?",
    "Python": CODE,
    "mixed scripts": "Größe, naïve café, Привет мир, こんにちは世界, 🙂",
    "one word": "Hello",
    "paragraph": PARAGRAPH,
}


def rounded(vector):
    return [round(float(number), 4) for number in torch.nn.functional.normalize(vector, dim=0)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    transformers.logging.set_verbosity_error()

    peer = LlamaCpp(args.model)
    encoded = {name: peer.tokenize(text) for name, text in TEXTS.items()}
    peer.close()

    model, _ = load_float32(args.model)
    sequences = []
    for name, tokens in encoded.items():
        with torch.no_grad():
            states = model.model(torch.tensor([tokens]), use_cache=False).last_hidden_state[0]
        states = states.double()
        sequences.append({"name": name, "text": TEXTS[name], "tokens": tokens,
                          "mean": rounded(states.mean(dim=0)), "last": rounded(states[-1])})
    golden = {"model": args.model.name, "sequences": sequences}
    args.out.write_text(
        json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
