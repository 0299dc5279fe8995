"""Quire beside llama.cpp: the same file, threads and shapes, in turn, in one run.

    python3 bench/compare.py MODEL.gguf --llama PATH [--threads 2] [--rounds 5]
        [--prefill 256] [--decode 64] [--depth 0] [--parallel 1,8,16]

One sequence is compared with `llama-bench`, several at once with `llama-batched-bench` (its prompts
are --depth tokens, not shared). Each round runs Quire, then llama.cpp, so that a machine whose speed
drifts drifts for both. Printed: the median of each, its lowest and highest value, and the median of
the rounds' ratios. A machine that is busy with something else is said, because then the figures mean
little.

llama.cpp is not part of this repository. PATH is the folder of its programs, built from the
vendor/llama.cpp folder of the PyPI source package llama-cpp-python (CMake, Release,
-DGGML_NATIVE=ON; targets llama-bench and llama-batched-bench).
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess

BUSY_LOAD = 0.5
BATCHED_PROMPT = 16  # tokens of a prompt where --depth is 0: the peer's bench needs some


def output_of(command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True,
                          text=True).stdout


def run_quire(args, parallel):
    """{"prefill": tokens a second, "decode": ...} of one sequence, "decode" alone of several."""
    depth = args.depth if parallel == 1 else args.depth or BATCHED_PROMPT
    command = [args.quire, "bench", args.model, "--threads", args.threads, "-r", 1, "-p",
               args.prefill if parallel == 1 else 0, "-n", args.decode, "-d", depth, "--npl",
               parallel, "--ctx-size", args.context, "--json"]
    speeds = {}
    for test in json.loads(output_of(command))["tests"]:
        speeds["prefill" if test["n_prompt"] else "decode"] = test["median_ts"]
    return speeds


def run_llama_bench(args):
    command = [args.llama / "llama-bench", "-m", args.model, "-t", args.threads, "-p", args.prefill,
               "-n", args.decode, "-d", args.depth, "-r", 1, "-o", "json"]
    speeds = {}
    for row in json.loads(output_of(command)):
        speeds["prefill" if row["n_prompt"] else "decode"] = row["avg_ts"]
    return speeds


def run_llama_batched(args, parallel):
    prompt = args.depth or BATCHED_PROMPT
    context = parallel * (prompt + args.decode) + 64
    command = [args.llama / "llama-batched-bench", "-m", args.model, "-t", args.threads, "-c",
               context, "-npp", prompt, "-ntg", args.decode, "-npl", parallel, "--output-format",
               "jsonl"]
    for line in output_of(command).splitlines():
        if line.startswith("{"):
            return {"decode": json.loads(line)["speed_tg"]}
    raise SystemExit(f"{command[0]} printed no result")


def describe(values):
    return f"{statistics.median(values):9.1f}  ({min(values):.1f} to {max(values):.1f})"


def compare(args, parallel):
    quire, llama = [], []
    for _ in range(args.rounds):
        quire.append(run_quire(args, parallel))
        llama.append(run_llama_bench(args) if parallel == 1 else run_llama_batched(args, parallel))
    for phase in ("prefill", "decode"):
        if phase not in llama[0] or phase not in quire[0]:
            continue
        ours = [speeds[phase] for speeds in quire]
        theirs = [speeds[phase] for speeds in llama]
        ratio = statistics.median(a / b for a, b in zip(ours, theirs))
        count = args.prefill if phase == "prefill" else args.decode
        print(f"{phase} {count:5d} x {parallel:<3d}  Quire {describe(ours)}   llama.cpp "
              f"{describe(theirs)}   ratio {ratio:.2f}", flush=True)


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--llama", required=True, type=pathlib.Path)
    parser.add_argument("--quire", default=str(here.parent / "build/release/quire"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prefill", type=int, default=256)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--depth", type=int, default=0)
    parser.add_argument("--context", type=int, default=4096, help="tokens a sequence may have")
    parser.add_argument("--parallel", default="1", help="sequences at once; a list: 1,8,16")
    args = parser.parse_args()

    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        print(f"note: the load average is {load:.1f} before anything was started")
    print(f"{pathlib.Path(args.model).name}, {args.threads} threads, {args.rounds} rounds, "
          f"depth {args.depth}; tokens a second: median (lowest to highest)", flush=True)
    for parallel in (int(number) for number in args.parallel.split(",")):
        compare(args, parallel)


if __name__ == "__main__":
    main()
