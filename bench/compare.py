"""Quire beside llama.cpp: the same file, threads and shapes, in turn, in one run.

    python3 bench/compare.py MODEL.gguf --llama-bench PATH [--threads 2] [--rounds 5]
        [--prefill 256] [--decode 64] [--depth 0]

Each round runs Quire, then llama.cpp, so that a machine whose speed drifts drifts for both. Printed:
the median of each, its lowest and highest value, and the median of the rounds' ratios. A machine
that is busy with something else is said, because then the figures mean little.

llama.cpp is not part of this repository. `llama-bench` is built from the vendor/llama.cpp folder of
the PyPI source package llama-cpp-python (CMake, Release, -DGGML_NATIVE=ON).
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess

BUSY_LOAD = 0.5


def run_quire(args):
    command = [args.quire_bench, args.model, "--threads", str(args.threads), "--prefill",
               str(args.prefill), "--decode", str(args.decode), "--depth", str(args.depth)]
    line = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result = json.loads(line)
    return {"prefill": result["prefill_per_second"], "decode": result["decode_per_second"],
            "load": result["load_seconds"]}


def run_llama(args):
    command = [args.llama_bench, "-m", args.model, "-t", str(args.threads), "-p",
               str(args.prefill), "-n", str(args.decode), "-d", str(args.depth), "-r", "1",
               "-o", "json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    result = {}
    for row in rows:
        result["prefill" if row["n_prompt"] > 0 else "decode"] = row["avg_ts"]
    return result


def describe(values):
    return f"{statistics.median(values):9.1f}  ({min(values):.1f} to {max(values):.1f})"


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--llama-bench", required=True)
    parser.add_argument("--quire-bench", default=str(here.parent / "build/bench/bench_model"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prefill", type=int, default=256)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--depth", type=int, default=0)
    args = parser.parse_args()

    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        print(f"note: the load average is {load:.1f} before anything was started")
    quire, llama = [], []
    for _ in range(args.rounds):
        quire.append(run_quire(args))
        llama.append(run_llama(args))

    print(f"{pathlib.Path(args.model).name}, {args.threads} threads, {args.rounds} rounds, "
          f"depth {args.depth}; tokens a second: median (lowest to highest)")
    for phase, count in (("prefill", args.prefill), ("decode", args.decode)):
        if count == 0:
            continue
        ours = [result[phase] for result in quire]
        theirs = [result[phase] for result in llama]
        ratio = statistics.median(a / b for a, b in zip(ours, theirs))
        print(f"{phase} {count:5d}   Quire {describe(ours)}   llama.cpp {describe(theirs)}   "
              f"ratio {ratio:.2f}")
    print(f"Quire ready after {statistics.median(r['load'] for r in quire):.2f} s")


if __name__ == "__main__":
    main()
