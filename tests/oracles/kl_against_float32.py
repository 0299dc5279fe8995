"""How far an engine is from float32 arithmetic on the same weights, beside llama.cpp.

    LLAMA_CPP_PACKAGE=... python kl_against_float32.py MODEL.gguf --text FILE \
        [--quire PATH | --logits FILE] [--tokens 2000] [--limit 1.05] [--cache DIR]

Mean Kullback-Leibler divergence KL(float32 || engine), in nats, over at least --tokens positions of
ordinary text: consecutive windows of 512 tokens, the second half of each scored, the first token of
each replaced by BOS where the model adds one (as llama-perplexity does). The float32 side is
transformers with every weight dequantised; its rows are kept in --cache, for quick reruns.

* --quire runs `PATH perplexity MODEL TEXT --save-logits OUT`; --logits takes such a file. The
  tokens in it are then the ones that everybody computes; windows beyond --tokens are left out.
* Without either, llama.cpp's tokenizer cuts the text and only its divergence is printed;
  --export writes the float32 rows in the same format (an engine that has no error at all).

Printed: both means, their ratio, and the 95 % interval of the ratio from a paired bootstrap over
positions. Exits 1 if the whole interval lies above --limit.
"""

import argparse
import hashlib
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers

from gguf_families import load_float32, logits_at
from llama_cpp_api import LlamaCpp
from logits_file import LogitsFile, write_logits_file

WINDOW = 512
RESAMPLES = 10_000


def num_windows(positions, rows):
    return -(-positions // rows)


def windows_of(peer, text, positions):
    """tokens [num_windows, WINDOW] for at least `positions` scored rows."""
    tokens = peer.tokenize(text, parse_special=False)
    rows = WINDOW - 1 - WINDOW // 2
    count = num_windows(positions, rows)
    if len(tokens) < count * WINDOW:
        sys.exit(f"the text has {len(tokens)} tokens, {count * WINDOW} are needed")
    cut = np.array(tokens[: count * WINDOW], dtype=np.int32).reshape(count, WINDOW)
    if peer.adds_bos:
        cut[:, 0] = peer.bos
    return cut


def float32_rows(model_path, tokens, first_scored, cache):
    """The oracle's LogitsFile, computed unless the cache holds it."""
    digest = hashlib.sha256()
    with model_path.open("rb") as file:
        while chunk := file.read(1 << 24):
            digest.update(chunk)
    digest.update(tokens.tobytes())
    digest.update(bytes([first_scored % 256, first_scored // 256]))
    path = cache / f"{model_path.stem}-{digest.hexdigest()[:16]}.float32"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        model, _ = load_float32(model_path)
        positions = range(first_scored, tokens.shape[1] - 1)

        def rows_of_window(index):
            print(f"float32: window {index + 1} of {len(tokens)}", file=sys.stderr)
            return logits_at(model, tokens[index].tolist(), positions).numpy()

        write_logits_file(path, tokens, first_scored, model.config.vocab_size, rows_of_window)
    return LogitsFile(path)


def divergences(oracle, rows_of_window):
    """KL(oracle || engine) of every scored position, in nats."""
    found = []
    for index in range(oracle.num_windows):
        theirs = rows_of_window(index)
        for start in range(0, oracle.num_rows, 32):
            p, q = (
                torch.log_softmax(torch.from_numpy(np.array(rows[start : start + 32])).double(), -1)
                for rows in (oracle.logits[index], theirs)
            )
            found.append((p.exp() * (p - q)).sum(dim=-1).numpy())
    return np.concatenate(found)


def llama_cpp_divergences(peer, oracle):
    positions = list(range(oracle.first_scored, oracle.window - 1))
    return divergences(oracle, lambda i: peer.logits_at(oracle.tokens[i].tolist(), positions))


def bootstrap(function, count, seed=1):
    """The 2.5 and 97.5 percentiles of function(resampled positions)."""
    generator = np.random.default_rng(seed)
    values = [function(generator.integers(0, count, size=count)) for _ in range(RESAMPLES)]
    return np.percentile(values, [2.5, 97.5])


def engine_logits(args, scratch):
    if args.logits:
        return LogitsFile(args.logits)
    if args.quire:
        out = pathlib.Path(scratch) / "quire.logits"
        count = num_windows(args.tokens, WINDOW - 1 - WINDOW // 2)
        command = [args.quire, "perplexity", args.model, args.text, "--window", WINDOW,
                   "--windows", count, "--save-logits", out]
        subprocess.run([str(part) for part in command], check=True, stdout=sys.stderr)
        return LogitsFile(out)
    return None


def report(name, values):
    low, high = bootstrap(lambda picked: values[picked].mean(), len(values))
    print(f"{name:10} mean KL {values.mean():.6f}  (95 %: {low:.6f} to {high:.6f})  "
          f"median {np.median(values):.6f}  largest {values.max():.4f}")


def compare(args, engine, peer):
    """The exit code."""
    if engine is None:
        tokens, first_scored = windows_of(peer, args.text.read_text(), args.tokens), WINDOW // 2
    else:
        needed = num_windows(args.tokens, engine.num_rows)
        tokens, first_scored = engine.tokens[:needed], engine.first_scored
    oracle = float32_rows(args.model, tokens, first_scored, args.cache)
    positions = oracle.num_windows * oracle.num_rows
    if positions < args.tokens:
        sys.exit(f"{positions} positions are scored, --tokens asks for {args.tokens}")
    if args.export:
        write_logits_file(args.export, tokens, first_scored, oracle.vocab_size,
                          lambda index: oracle.logits[index])

    print(f"{args.model.name}: {positions} positions in {oracle.num_windows} windows")
    yardstick = llama_cpp_divergences(peer, oracle)
    report("llama.cpp", yardstick)
    if engine is None:
        return 0
    if engine.vocab_size != oracle.vocab_size:
        sys.exit(f"logits have {engine.vocab_size} columns, the model {oracle.vocab_size} rows")
    ours = divergences(oracle, lambda index: engine.logits[index])
    report("quire", ours)
    low, high = bootstrap(lambda i: ours[i].mean() / yardstick[i].mean(), positions)
    print(f"ratio      {ours.mean() / yardstick.mean():.4f}  (95 %: {low:.4f} to {high:.4f})")
    if args.limit is not None and low > args.limit:
        print(f"FAILED: the whole interval lies above {args.limit}")
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=2000, help="positions to score, at least")
    parser.add_argument("--quire", type=pathlib.Path, help="the program to run")
    parser.add_argument("--logits", type=pathlib.Path, help="a file that it wrote")
    parser.add_argument("--export", type=pathlib.Path, help="write the float32 rows there")
    parser.add_argument("--limit", type=float, help="largest ratio to llama.cpp")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cache", type=pathlib.Path,
                        default=pathlib.Path.home() / ".cache/quire/oracles")
    args = parser.parse_args()
    if not args.text and not args.logits:
        parser.error("--text or --logits is needed")
    torch.set_num_threads(args.threads)
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as scratch:
        engine = engine_logits(args, scratch)
        window = engine.window if engine else WINDOW
        peer = LlamaCpp(args.model, context=window, threads=args.threads)
        return compare(args, engine, peer)


if __name__ == "__main__":
    sys.exit(main())
