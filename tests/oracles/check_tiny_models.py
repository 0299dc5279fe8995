"""Compares the tiny models' golden log-probabilities with two other readers of the same files.

    LLAMA_CPP_PACKAGE=... python check_tiny_models.py GOLDEN_DIR

The readers are llama.cpp (float32 KV, no flash attention) and the loader that the real models'
goldens use; for `classic`, which neither knows, PyTorch's own post-norm encoder layer. Exits 1
where a log-probability of the top 64 differs by more than 1e-3, or 1e-2 for llama.cpp on gemma3,
whose GELU it looks up in a table of halves.
"""

import argparse
import json
import pathlib
import sys

import numpy as np
import torch
import transformers
from gguf import GGUFReader

from gguf_families import load_float32, logits_at
from llama_cpp_api import LlamaCpp

LIMIT = 1e-3
GELU_TABLE_LIMIT = 1e-2


def tokens_of(sequence, vocab):
    rule = sequence.get("formula")
    if rule is None:
        return sequence["tokens"]
    return [(i * rule["multiplier"] + rule["offset"]) % vocab for i in range(rule["count"])]


def largest_gap(golden, compute):
    worst = 0.0
    for sequence in golden["sequences"]:
        positions = [row["position"] for row in sequence["positions"]]
        logits = torch.as_tensor(compute(tokens_of(sequence, golden["vocab"]), positions))
        for row, got in zip(sequence["positions"], torch.log_softmax(logits.double(), dim=-1)):
            worst = max(worst, *(abs(value - float(got[i])) for i, value in row["top"]))
    return worst


def classic_reader(path):
    """logits_at for a `classic` file, by torch.nn.TransformerEncoderLayer."""
    reader = GGUFReader(path)
    tensors = {t.name: torch.from_numpy(np.array(t.data)) for t in reader.tensors}
    own = lambda key: reader.fields[f"classic.{key}"].contents()
    layers = []
    for index in range(own("block_count")):
        get = lambda name, block=index: tensors[f"blk.{block}.{name}"]
        layer = torch.nn.TransformerEncoderLayer(
            own("embedding_length"), own("attention.head_count"), own("feed_forward_length"),
            dropout=0.0, layer_norm_eps=own("attention.layer_norm_epsilon"), batch_first=True)
        state = {}
        for kind in ("weight", "bias"):
            state[f"self_attn.in_proj_{kind}"] = torch.cat([get(f"attn_{p}.{kind}") for p in "qkv"])
            state[f"self_attn.out_proj.{kind}"] = get(f"attn_output.{kind}")
            state[f"norm1.{kind}"] = get(f"attn_norm.{kind}")
            state[f"linear1.{kind}"] = get(f"ffn_up.{kind}")
            state[f"linear2.{kind}"] = get(f"ffn_down.{kind}")
            state[f"norm2.{kind}"] = get(f"ffn_norm.{kind}")
        layer.load_state_dict(state)
        layers.append(layer.train())

    @torch.no_grad()
    def logits_at_positions(tokens, positions):
        count = len(tokens)
        x = tensors["token_embd.weight"][tokens] + tensors["position_embd.weight"][:count]
        mask = torch.nn.Transformer.generate_square_subsequent_mask(count)
        x = x[None]
        for layer in layers:
            x = layer(x, src_mask=mask)
        output = torch.nn.functional.linear(x[0], tensors["output.weight"], tensors["output.bias"])
        return output[positions]

    return logits_at_positions


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("golden_dir", type=pathlib.Path)
    golden_dir = parser.parse_args().golden_dir
    torch.set_num_threads(2)
    transformers.logging.set_verbosity_error()
    failed = False
    for path in sorted((golden_dir / "logprobs").glob("tiny-*.json")):
        golden = json.loads(path.read_text())
        file = golden_dir / "models" / golden["model"]
        if golden["model"] == "tiny-classic.gguf":
            gap = largest_gap(golden, classic_reader(file))
            failed |= gap > LIMIT
            print(f"{path.stem:24} encoder layer {gap:.1e}")
            continue
        model, _ = load_float32(file)
        ours = largest_gap(golden, lambda t, p, m=model: logits_at(m, t, p))
        longest = max(len(tokens_of(s, golden["vocab"])) for s in golden["sequences"])
        peer = LlamaCpp(file, context=longest + 1, exact=True)
        theirs = largest_gap(golden, peer.logits_at)
        peer.close()
        peer_limit = GELU_TABLE_LIMIT if "gemma3" in golden["model"] else LIMIT
        failed |= ours > LIMIT or theirs > peer_limit
        print(f"{path.stem:24} reloaded {ours:.1e}  llama.cpp {theirs:.1e}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
