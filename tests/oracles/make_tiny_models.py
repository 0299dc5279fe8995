"""Tiny random models of every family as GGUF files, with the log-probabilities they must give.

    python make_tiny_models.py GOLDEN_DIR

writes GOLDEN_DIR/models/tiny-*.gguf (float32, each under 250 kB, the same bytes every time) and
GOLDEN_DIR/logprobs/tiny-*.json (see README.md for its fields). The forward pass is transformers'
own, in float32 with eager attention; `classic` is the few lines of PyTorch below. Shapes are odd on
purpose. Weights are scaled so that attention is sharp, norms and biases matter, and neighbouring
candidates differ clearly; most epsilons are large enough to show.
"""

import argparse
import json
import math
import pathlib

import numpy as np
import torch
import transformers
from gguf import GGUFWriter, LlamaFileType

from gguf_families import CONFIGS, logits_at, to_gguf, top_entries

VOCAB = 300
LENGTHS = (1, 7, 40, 130, 300)
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]
MERGES = """Ġ t|Ġ a|h e|i n|r e|o n|Ġt he|e r|Ġ s|a t|Ġ w|Ġ o|e n|Ġ c|i t|i s|a n|o r|e s|Ġ b|
e d|Ġ f|in g|Ġ p|o u|Ġa n|a l|a r|Ġt o|Ġ m|Ġo f|Ġ in|Ġ d|Ġ h|Ġan d|i c|a s|l e|Ġt h|i on"""


def byte_alphabet():
    """GPT-2's 256 printable stand-ins for bytes, in byte order."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in kept]
    names = {byte: chr(byte) for byte in kept}
    names.update({byte: chr(256 + n) for n, byte in enumerate(others)})
    return [names[byte] for byte in range(256)]


def add_tokenizer(writer, adds_bos):
    """A byte-level BPE of 256 bytes, 40 merges and 4 special tokens."""
    merges = MERGES.replace("\n", "").split("|")
    tokens = byte_alphabet() + [merge.replace(" ", "") for merge in merges] + SPECIALS
    assert len(tokens) == len(set(tokens)) == VOCAB
    normal, control = 1, 3
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([normal] * (VOCAB - len(SPECIALS)) + [control] * len(SPECIALS))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(VOCAB - 4)
    writer.add_eos_token_id(VOCAB - 2)
    writer.add_pad_token_id(VOCAB - 1)
    writer.add_add_bos_token(adds_bos)


def fill(model, one_based_norms, seed):
    """Random weights in the order of the parameters' names."""
    generator = torch.Generator().manual_seed(seed)
    tied = "lm_head.weight" not in dict(model.named_parameters())

    def normal(parameter, deviation):
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * deviation)

    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if "norm" in name and name.endswith("weight"):
                spread = torch.rand(parameter.shape, generator=generator) * 0.8 - 0.4
                parameter.copy_(spread + (1.0 if one_based_norms else 0.0))
            elif name.endswith("bias"):
                normal(parameter, 0.3)
            elif "embed" in name:
                normal(parameter, 0.35 if tied else 1.0)
            else:
                sharp = any(part in name for part in ("q_proj", "k_proj", "attn_q", "attn_k"))
                gain = 1.4 if sharp else 2.4 if "lm_head" in name else 1.0
                normal(parameter, gain / math.sqrt(parameter.shape[1]))


def sequences(seed, lengths):
    generator = np.random.default_rng(seed)
    return [[int(t) for t in generator.integers(0, VOCAB, size=n)] for n in lengths]


def positions_of(length):
    """The last position and up to five others, block and span borders among them."""
    inner = {0, length // 3, 2 * length // 3, min(15, length - 1), min(128, length - 2)}
    return sorted({length - 1} | {p for p in inner if 0 <= p < length})


def write_goldens(path, model_file, compute, seed, formula=None):
    rows = []
    for tokens in sequences(seed, LENGTHS):
        positions = positions_of(len(tokens))
        found = top_entries(compute(tokens, positions), positions)
        rows.append({"tokens": tokens, "positions": found})
    if formula:
        count, positions = formula
        tokens = [(i * 7919 + 13) % VOCAB for i in range(count)]
        found = top_entries(compute(tokens, positions), positions)
        rule = {"multiplier": 7919, "offset": 13, "count": count}
        rows.append({"formula": rule, "positions": found})
    path.write_text(json.dumps({"model": model_file, "vocab": VOCAB, "sequences": rows},
                               separators=(",", ":")) + "\n")


def write_keys(writer, architecture, config):
    """The keys of a pre-norm family as converters write them."""
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
    head_dim = getattr(config, "head_dim", None)
    if head_dim and (architecture in ("qwen3", "gemma3") or
                     head_dim * config.num_attention_heads != config.hidden_size):
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if architecture == "llama":
        writer.add_vocab_size(VOCAB)
        writer.add_rope_dimension_count(head_dim)
    if rope.get("rope_type") == "linear":
        writer.add_string("llama.rope.scaling.type", "linear")
        writer.add_float32("llama.rope.scaling.factor", rope["factor"])
    if architecture == "gemma3":
        writer.add_sliding_window(config.sliding_window)


def llama3_divisors(config):
    """What rope_freqs.weight holds: the plain frequency over the scaled one, pair by pair."""
    rope, dim = config.rope_parameters, config.head_dim
    divisors = []
    for pair in range(dim // 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (2 * pair / dim)
        turns = rope["original_max_position_embeddings"] / wavelength
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        blend = min(1.0, max(0.0, (turns - low) / (high - low)))
        divisors.append(1 / ((1 - blend) / rope["factor"] + blend))
    return np.array(divisors, dtype=np.float32)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def start_writer(path, architecture, adds_bos=False):
    writer = GGUFWriter(path, architecture)
    writer.add_type("model")
    writer.add_name(path.stem)
    writer.add_file_type(LlamaFileType.ALL_F32)
    add_tokenizer(writer, adds_bos)
    return writer


def make(golden_dir, name, architecture, seed, formula=None, **shape):
    config_class, model_class = CONFIGS[architecture]
    config = config_class(vocab_size=VOCAB, pad_token_id=None, attn_implementation="eager", **shape)
    model = model_class(config).eval().float()
    fill(model, one_based_norms=architecture != "gemma3", seed=seed)

    path = golden_dir / "models" / f"{name}.gguf"
    writer = start_writer(path, architecture, adds_bos=architecture == "gemma3")
    write_keys(writer, architecture, config)
    if config.rope_parameters.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(config))
    for theirs, parameter in model.named_parameters():
        ours, value = to_gguf(architecture, config, theirs, parameter.detach().numpy())
        writer.add_tensor(ours, value)
    finish(writer)
    write_goldens(golden_dir / "logprobs" / f"{name}.json", path.name,
                  lambda tokens, positions: logits_at(model, tokens, positions), seed, formula)


class Classic(torch.nn.Module):
    """Learned positions, N x [attention, add and LayerNorm, ReLU FFN of four times the width, add
    and LayerNorm], output layer. Parameters carry their GGUF names, dots written as two
    underscores."""

    def __init__(self, hidden, heads, layers, context, output_bias):
        super().__init__()
        self.heads, self.layers, self.epsilon = heads, layers, 1e-3
        self.add("token_embd.weight", VOCAB, hidden)
        self.add("position_embd.weight", context, hidden)
        for layer in range(layers):
            for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
                self.linear(f"blk.{layer}.{part}", hidden, hidden)
            self.linear(f"blk.{layer}.ffn_up", 4 * hidden, hidden)
            self.linear(f"blk.{layer}.ffn_down", hidden, 4 * hidden)
            for norm in ("attn_norm", "ffn_norm"):
                self.linear(f"blk.{layer}.{norm}", hidden)
        self.add("output.weight", VOCAB, hidden)
        if output_bias:
            self.add("output.bias", VOCAB)

    def add(self, name, *shape):
        self.register_parameter(name.replace(".", "__"), torch.nn.Parameter(torch.empty(shape)))

    def linear(self, name, *shape):
        self.add(f"{name}.weight", *shape)
        self.add(f"{name}.bias", shape[0])

    def get(self, name):
        return getattr(self, name.replace(".", "__"), None)

    def apply_linear(self, x, name):
        return torch.nn.functional.linear(x, self.get(f"{name}.weight"), self.get(f"{name}.bias"))

    def norm(self, x, name):
        weight, bias = self.get(f"{name}.weight"), self.get(f"{name}.bias")
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, self.epsilon)

    def attention(self, x, block):
        length, hidden = x.shape
        split = lambda y: y.reshape(length, self.heads, -1).transpose(0, 1)
        q, k, v = (split(self.apply_linear(x, f"{block}.attn_{part}")) for part in "qkv")
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, -math.inf).softmax(dim=-1)
        mixed = (weights @ v).transpose(0, 1).reshape(length, hidden)
        return self.apply_linear(mixed, f"{block}.attn_output")

    @torch.inference_mode()
    def logits_at(self, tokens, positions):
        ids = torch.tensor(tokens)
        x = self.get("token_embd.weight")[ids] + self.get("position_embd.weight")[: len(tokens)]
        for layer in range(self.layers):
            block = f"blk.{layer}"
            x = self.norm(x + self.attention(x, block), f"{block}.attn_norm")
            wide = torch.relu(self.apply_linear(x, f"{block}.ffn_up"))
            x = self.norm(x + self.apply_linear(wide, f"{block}.ffn_down"), f"{block}.ffn_norm")
        return self.apply_linear(x[list(positions)], "output")


def fill_classic(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        values = torch.randn(parameter.shape, generator=generator)
        if "norm__weight" in name:
            values = 1 + 0.25 * values
        elif name.endswith("bias"):
            values = 0.3 * values
        elif "embd" not in name:
            gain = {"attn_q": 1.4, "attn_k": 1.4, "output": 2.4}
            stem = name.split("__")[-2]
            values = values * gain.get(stem, 1.2) / math.sqrt(parameter.shape[1])
        parameter.data.copy_(values)


def make_classic(golden_dir, name, seed, output_bias, **shape):
    context = 512
    model = Classic(context=context, output_bias=output_bias, **shape).eval()
    fill_classic(model, seed)
    path = golden_dir / "models" / f"{name}.gguf"
    writer = start_writer(path, "classic")
    writer.add_context_length(context)
    writer.add_embedding_length(shape["hidden"])
    writer.add_block_count(shape["layers"])
    writer.add_feed_forward_length(4 * shape["hidden"])
    writer.add_head_count(shape["heads"])
    writer.add_float32("classic.attention.layer_norm_epsilon", model.epsilon)
    for ours, parameter in model.named_parameters():
        writer.add_tensor(ours.replace("__", "."), parameter.detach().numpy())
    finish(writer)
    write_goldens(golden_dir / "logprobs" / f"{name}.json", path.name, model.logits_at, seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("golden_dir", type=pathlib.Path)
    golden_dir = parser.parse_args().golden_dir
    torch.set_num_threads(2)
    transformers.logging.set_verbosity_error()

    plain = {"rope_type": "default", "rope_theta": 10000.0}
    llama3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    linear = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
    two_bases = {"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                 "full_attention": {"rope_type": "default", "rope_theta": 1000000.0}}
    make(golden_dir, "tiny-llama", "llama", 11, hidden_size=48, num_attention_heads=3,
         num_key_value_heads=1, intermediate_size=56, num_hidden_layers=2, rms_norm_eps=1e-3,
         max_position_embeddings=1024, rope_parameters=plain, tie_word_embeddings=False)
    make(golden_dir, "tiny-llama-wide-heads", "llama", 12, hidden_size=80, num_attention_heads=4,
         num_key_value_heads=2, head_dim=32, intermediate_size=16, num_hidden_layers=1,
         rms_norm_eps=1e-5, max_position_embeddings=1024, rope_parameters=plain,
         tie_word_embeddings=True)
    make(golden_dir, "tiny-llama3-rope", "llama", 13, formula=(9001, [10, 300, 3000, 9000]),
         hidden_size=40, num_attention_heads=2, num_key_value_heads=1, head_dim=64,
         intermediate_size=56, num_hidden_layers=2, rms_norm_eps=1e-5,
         max_position_embeddings=16384, rope_parameters=llama3, tie_word_embeddings=True)
    make(golden_dir, "tiny-llama-linear-rope", "llama", 14, hidden_size=48, num_attention_heads=4,
         num_key_value_heads=4, intermediate_size=80, num_hidden_layers=2, rms_norm_eps=1e-6,
         max_position_embeddings=2048, rope_parameters=linear, tie_word_embeddings=True)
    make(golden_dir, "tiny-qwen2", "qwen2", 15, hidden_size=48, num_attention_heads=4,
         num_key_value_heads=1, intermediate_size=100, num_hidden_layers=2, rms_norm_eps=1e-3,
         max_position_embeddings=1024, rope_parameters={**plain, "rope_theta": 1000000.0},
         tie_word_embeddings=True)
    make(golden_dir, "tiny-qwen3", "qwen3", 16, hidden_size=48, num_attention_heads=4,
         num_key_value_heads=2, head_dim=20, intermediate_size=56, num_hidden_layers=2,
         rms_norm_eps=1e-3, max_position_embeddings=1024,
         rope_parameters={**plain, "rope_theta": 1000000.0}, tie_word_embeddings=True)
    make(golden_dir, "tiny-gemma3", "gemma3", 17, hidden_size=32, num_attention_heads=2,
         num_key_value_heads=1, head_dim=20, intermediate_size=40, num_hidden_layers=6,
         rms_norm_eps=1e-3, max_position_embeddings=1024, sliding_window=32,
         query_pre_attn_scalar=20, rope_parameters=two_bases, tie_word_embeddings=True)
    make_classic(golden_dir, "tiny-classic", 18, output_bias=True, hidden=30, heads=3, layers=2)


if __name__ == "__main__":
    main()
