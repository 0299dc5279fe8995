"""The memory that `quire serve` takes under load, beside the plan that it gives of itself.

    python3 serve_peak_test.py PATH_TO_QUIRE PATH_TO_TESTS [--models NAME,...] [--clients N]
                               [--requests N] [--tolerance PERCENT]

Each server gets completions of lengths like ShareGPT's, some with log-probabilities and several
choices, from more clients than sequences run together, in a pool that they overflow; then prompts as
long as the context. The peak is the process's (VmHWM), the plan what /quire/plan says. Exits with 1
where a peak is over the plan by more than the tolerance, with 0 and a line when no model is there.
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import sys
import urllib.request

TESTS = pathlib.Path(sys.argv[2])
sys.path[:0] = [str(TESTS / "support"), str(TESTS.parent / "bench")]

import serve_load  # noqa: E402
from serve_process import ServeProcess, model_is_here  # noqa: E402

SEED = 11
CONTEXT, SEQUENCES = 2048, 8
FLAGS = ("-c", CONTEXT, "--parallel", SEQUENCES, "--kv-size", "96MiB", "-t", 2)


def cached_models():
    listing = json.loads((TESTS.parent / "scripts" / "models.json").read_text())["models"]
    return [model["name"] for model in listing if model_is_here(model["name"])]


def complete(server, body):
    request = urllib.request.Request(server.url + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)["usage"]["completion_tokens"]


def requests(args):
    rng = random.Random(SEED)
    for number in range(args.requests):
        yield {"prompt": serve_load.words(rng, serve_load.lognormal(rng, 161, 4, 1024)),
               "max_tokens": serve_load.lognormal(rng, 100, 8, 256), "temperature": 0.8,
               "seed": number, "ignore_eos": True, "logprobs": 5 * (number % 4 == 1),
               "n": 3 if number % 8 == 2 else 1}
    for number in range(3):
        yield {"prompt": serve_load.words(rng, CONTEXT - 160), "max_tokens": 32, "seed": number}


def load(server, args):
    """The tokens that were answered."""
    with concurrent.futures.ThreadPoolExecutor(args.clients) as clients:
        return sum(clients.map(lambda body: complete(server, body), requests(args)))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quire")
    parser.add_argument("tests")
    parser.add_argument("--models", default="")
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--tolerance", type=float, default=3, help="percent")
    args = parser.parse_args()
    models = args.models.split(",") if args.models else cached_models()
    if not models:
        print("no model is there: nothing was compared")
    is_over = False
    for model in models:
        with ServeProcess(args.quire, model, *FLAGS) as server:
            tokens = load(server, args)
            planned = json.loads(server.get("/quire/plan"))["memory"]["total_bytes"]
            peak = server.status_bytes("VmHWM")
        off = 100 * (peak / planned - 1)
        is_over |= off > args.tolerance
        print(f"{model}: {tokens} tokens, peak {peak / 2**20:.1f} MiB, planned "
              f"{planned / 2**20:.1f} MiB: {off:+.1f} %", flush=True)
    return 1 if is_over else 0


if __name__ == "__main__":
    sys.exit(main())
