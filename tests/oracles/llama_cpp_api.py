"""llama.cpp through its C API, as the yardstick and as a second opinion on file conventions.

The binding is one file of the llama-cpp-python source package; it is imported by itself, so the
package need not be built. LLAMA_CPP_PACKAGE names the unpacked source package, LLAMA_CPP_LIB_PATH
the folder that holds libllama.so.
"""

import ctypes
import importlib
import os
import pathlib
import sys
import types

import numpy as np

GGML_TYPE_F32 = 0
FLASH_ATTENTION_OFF = 0


def _binding():
    package = os.environ.get("LLAMA_CPP_PACKAGE")
    if not package:
        sys.exit("set LLAMA_CPP_PACKAGE to the unpacked llama-cpp-python source package")
    root = pathlib.Path(package)
    os.environ.setdefault("LLAMA_CPP_LIB_PATH", str(root / "vendor/llama.cpp/build/bin"))
    stub = types.ModuleType("llama_cpp")
    stub.__path__ = [str(root / "llama_cpp")]
    sys.modules["llama_cpp"] = stub
    return importlib.import_module("llama_cpp.llama_cpp")


class LlamaCpp:
    """One model and one context for a single sequence of at most `context` tokens.

    Settings are llama.cpp's own defaults (f16 KV, flash attention where it chooses so); `exact`
    takes float32 KV and plain attention, which is as near to float32 as it gets.
    """

    def __init__(self, path, context=512, threads=2, exact=False):
        self._api = api = _binding()
        self._quiet = api.llama_log_callback(lambda level, text, data: None)
        api.llama_log_set(self._quiet, None)
        api.llama_backend_init()
        self._model = api.llama_model_load_from_file(
            str(path).encode(), api.llama_model_default_params()
        )
        if not self._model:
            raise ValueError(f"llama.cpp cannot load {path}")
        self._vocab = api.llama_model_get_vocab(self._model)
        self.vocab_size = api.llama_vocab_n_tokens(self._vocab)
        self.adds_bos = bool(api.llama_vocab_get_add_bos(self._vocab))
        self.bos = api.llama_vocab_bos(self._vocab)
        params = api.llama_context_default_params()
        params.n_ctx = context
        params.n_batch = context
        params.n_threads = params.n_threads_batch = threads
        if exact:
            params.type_k = params.type_v = GGML_TYPE_F32
            params.flash_attn_type = FLASH_ATTENTION_OFF
        self._context = api.llama_init_from_model(self._model, params)
        if not self._context:
            raise ValueError(f"llama.cpp cannot make a context of {context} tokens for {path}")

    def tokenize(self, text, add_special=True, parse_special=True):
        data = text.encode()
        capacity = len(data) + 8
        buffer = (self._api.llama_token * capacity)()
        count = self._api.llama_tokenize(
            self._vocab, data, len(data), buffer, capacity, add_special, parse_special
        )
        return list(buffer[:count])

    def logits_at(self, tokens, positions):
        """float32 logits [len(positions), vocab]; positions ascending."""
        api, wanted = self._api, set(positions)
        api.llama_memory_clear(api.llama_get_memory(self._context), True)
        batch = api.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = i in wanted
        status = api.llama_decode(self._context, batch)
        if status != 0:
            raise RuntimeError(f"llama_decode returned {status}")
        rows = np.empty((len(positions), self.vocab_size), dtype=np.float32)
        for row, position in enumerate(positions):
            pointer = api.llama_get_logits_ith(self._context, position)
            rows[row] = np.ctypeslib.as_array(pointer, shape=(self.vocab_size,))
        api.llama_batch_free(batch)
        return rows

    def close(self):
        self._api.llama_free(self._context)
        self._api.llama_model_free(self._model)
