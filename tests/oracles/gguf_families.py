"""The model families of GGUF files, seen from transformers.

One table says how a tensor is called on both sides, and two facts differ besides the names:

* `llama` files hold the rows of attn_q and attn_k so that the two halves of a rotary pair are
  neighbours (2i, 2i + 1); a Hugging Face checkpoint pairs row i with row i + head_dim / 2.
* `gemma3` files hold norm weights w of the formula x * w; a checkpoint holds w - 1.

Used in both directions: to write tiny models, and to load real ones as float32 oracles.
"""

import numpy as np
import torch
import transformers
from gguf import GGUFReader
from gguf.quants import dequantize

ATTENTION = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
PRE_NORM = {**ATTENTION, "ffn_norm": "post_attention_layernorm"}
SANDWICH_NORM = {
    **ATTENTION,
    **HEAD_NORMS,
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
LAYER_NAMES = {
    "llama": PRE_NORM,
    "qwen2": PRE_NORM,
    "qwen3": {**PRE_NORM, **HEAD_NORMS},
    "gemma3": SANDWICH_NORM,
}
TOP_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
CONFIGS = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
    "gemma3": (transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM),
}


def hf_name(architecture, name):
    """The checkpoint's name of a GGUF tensor."""
    if name in TOP_NAMES:
        return TOP_NAMES[name]
    _, layer, stem, kind = name.split(".")
    return f"model.layers.{layer}.{LAYER_NAMES[architecture][stem]}.{kind}"


def gguf_name(architecture, name):
    """The GGUF name of a checkpoint's tensor."""
    for ours, theirs in TOP_NAMES.items():
        if name == theirs:
            return ours
    _, _, layer, rest = name.split(".", 3)
    module, kind = rest.rsplit(".", 1)
    for ours, theirs in LAYER_NAMES[architecture].items():
        if module == theirs:
            return f"blk.{layer}.{ours}.{kind}"
    raise KeyError(f"{architecture} has no tensor {name}")


def pairs_to_neighbours(weight, num_heads):
    """[heads * head_dim, ...]: row (half, i) of each head goes to row 2i + half."""
    rows = weight.shape[0] // num_heads
    split = weight.reshape(num_heads, 2, rows // 2, *weight.shape[1:])
    return split.swapaxes(1, 2).reshape(weight.shape)


def neighbours_to_pairs(weight, num_heads):
    """The inverse of pairs_to_neighbours."""
    rows = weight.shape[0] // num_heads
    split = weight.reshape(num_heads, rows // 2, 2, *weight.shape[1:])
    return split.swapaxes(1, 2).reshape(weight.shape)


def to_gguf(architecture, config, name, value):
    """(GGUF name, float32 array) of one checkpoint tensor."""
    ours = gguf_name(architecture, name)
    if architecture == "llama" and ".attn_q." in ours:
        value = pairs_to_neighbours(value, config.num_attention_heads)
    if architecture == "llama" and ".attn_k." in ours:
        value = pairs_to_neighbours(value, config.num_key_value_heads)
    if architecture == "gemma3" and ours.endswith("norm.weight"):
        value = value + np.float32(1)
    return ours, np.ascontiguousarray(value, dtype=np.float32)


def from_gguf(architecture, config, name, value):
    """(checkpoint name, float32 array) of one dequantised GGUF tensor."""
    if architecture == "llama" and ".attn_q." in name:
        value = neighbours_to_pairs(value, config.num_attention_heads)
    if architecture == "llama" and ".attn_k." in name:
        value = neighbours_to_pairs(value, config.num_key_value_heads)
    if architecture == "gemma3" and name.endswith("norm.weight"):
        value = value - np.float32(1)
    return hf_name(architecture, name), np.ascontiguousarray(value, dtype=np.float32)


class Metadata:
    """The scalar keys of a GGUF file, the family's own ones without their prefix."""

    def __init__(self, reader):
        self._fields = reader.fields
        self.architecture = self.get("general.architecture")

    def get(self, key, default=None):
        field = self._fields.get(key)
        return default if field is None else field.contents()

    def own(self, key, default=None):
        return self.get(f"{self.architecture}.{key}", default)


def rope_parameters(meta):
    """Without rope_freqs: those divisors are applied to the finished model, whatever made them."""
    theta = float(meta.own("rope.freq_base", 10000.0))
    if meta.architecture == "gemma3":
        local = {"rope_type": "default", "rope_theta": 10000.0}
        full = {"rope_type": "default", "rope_theta": theta}
        return {"sliding_attention": local, "full_attention": full}
    kind = meta.own("rope.scaling.type", "none")
    if kind == "linear":
        factor = float(meta.own("rope.scaling.factor"))
        return {"rope_type": "linear", "rope_theta": theta, "factor": factor}
    if kind != "none":
        raise NotImplementedError(f"rope scaling {kind}")
    return {"rope_type": "default", "rope_theta": theta}


def config_from_metadata(meta, vocab_size, tied):
    heads = meta.own("attention.head_count")
    hidden = meta.own("embedding_length")
    head_dim = meta.own("attention.key_length", hidden // heads)
    values = dict(
        vocab_size=vocab_size,
        hidden_size=hidden,
        intermediate_size=meta.own("feed_forward_length"),
        num_hidden_layers=meta.own("block_count"),
        num_attention_heads=heads,
        num_key_value_heads=meta.own("attention.head_count_kv", heads),
        head_dim=head_dim,
        max_position_embeddings=meta.own("context_length"),
        rms_norm_eps=float(meta.own("attention.layer_norm_rms_epsilon")),
        rope_parameters=rope_parameters(meta),
        tie_word_embeddings=tied,
        pad_token_id=None,
    )
    if meta.architecture == "qwen2":
        del values["head_dim"]
    if meta.architecture == "gemma3":
        values["sliding_window"] = meta.own("attention.sliding_window")
        values["query_pre_attn_scalar"] = head_dim
    return CONFIGS[meta.architecture][0](**values)


def empty_model(config, model_class):
    """The model without storage for its parameters; buffers are real and computed."""
    with torch.device("meta"):
        model = model_class(config)
    body = model.model
    body.rotary_emb = type(body.rotary_emb)(config=config)
    if hasattr(body.embed_tokens, "embed_scale"):
        body.embed_tokens.embed_scale = torch.tensor(config.hidden_size**0.5)
    return model


def load_float32(path):
    """(model, metadata) of a GGUF file, every weight dequantised to float32."""
    reader = GGUFReader(path)
    meta = Metadata(reader)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    rope_freqs = tensors.pop("rope_freqs.weight", None)
    vocab_size = int(tensors["token_embd.weight"].shape[1])
    tied = "output.weight" not in tensors
    config = config_from_metadata(meta, vocab_size, tied)
    config._attn_implementation = "eager"
    model = empty_model(config, CONFIGS[meta.architecture][1])

    state = {}
    for name, tensor in tensors.items():
        value = dequantize(tensor.data, tensor.tensor_type)
        theirs, value = from_gguf(meta.architecture, config, name, value)
        if value is tensor.data or not value.flags.writeable:
            value = value.copy()
        state[theirs] = torch.from_numpy(value)
    missing, unexpected = model.load_state_dict(state, strict=False, assign=True)
    model.tie_weights()
    if unexpected or set(missing) - {"lm_head.weight"} or (missing and not tied):
        raise ValueError(f"{path}: missing {missing}, unexpected {unexpected}")
    if rope_freqs is not None:
        model.model.rotary_emb.inv_freq /= torch.from_numpy(np.array(rope_freqs.data))
    unset = [n for n, t in [*model.named_parameters(), *model.named_buffers()] if t.is_meta]
    if unset:
        raise ValueError(f"{path}: never set: {unset}")
    return model.eval(), meta


@torch.inference_mode()
def logits_at(model, tokens, positions):
    """float32 logits [len(positions), vocab] of one sequence."""
    hidden = model.model(torch.tensor([tokens]), use_cache=False).last_hidden_state[0]
    return model.lm_head(hidden[list(positions)])


def top_entries(logits, positions, count=64, digits=5):
    """[{"position", "top": [[id, logprob], ...]}]; equal values by ascending id."""
    rows = []
    for position, row in zip(positions, torch.log_softmax(logits.double(), dim=-1)):
        order = torch.sort(row, descending=True, stable=True).indices[:count]
        top = [[int(i), round(float(row[i]), digits)] for i in order]
        rows.append({"position": int(position), "top": top})
    return rows
