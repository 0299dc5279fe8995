"""The plan beside the memory that the program really holds, for the models that are in the cache.

    python3 plan_against_memory.py PATH_TO_QUIRE [--contexts 512,1024] [--shapes 1x512,4x256]
                                   [--models NAME,...] [--threads N] [--tolerance PERCENT]

A shape SEQUENCESxCHUNK is how many sequences fill the whole context at once, and how many tokens a
step computes. The peak is what the kernel counted for the process (ru_maxrss). Exits with 1 when a
plan is off by more than the tolerance, with 0 and a line when no model is there.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

# A word that is one token in every vocabulary.
WORD = " the"
ANSWER_TOKENS = 4


def cached_models(quire):
    listing = json.loads(subprocess.run([quire, "models", "--json"], check=True,
                                        capture_output=True).stdout)
    for model in listing["models"]:
        probe = subprocess.run([quire, "inspect", model["name"], "--json"], capture_output=True)
        if probe.returncode == 0:
            yield model["name"]


def peak_bytes(arguments):
    """Runs a program to its end. Its peak resident memory, which a shell's own does not hide."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            raise RuntimeError(f"{arguments[:3]}: {errors.read().decode()[-400:]}")
    return usage.ru_maxrss * 1024


def plan(quire, model, context, sequences, chunk, threads):
    result = subprocess.run([quire, "plan", model, "-c", str(context), "--parallel", str(sequences),
                             "--prefill-chunk", str(chunk), "-t", str(threads), "--json"],
                            check=True, capture_output=True)
    return json.loads(result.stdout)


def run_one(quire, model, context, chunk, threads, folder):
    """One sequence that fills its context."""
    words = context - ANSWER_TOKENS - 2
    prompt = pathlib.Path(folder) / "prompt.txt"
    prompt.write_text(WORD * words, encoding="utf-8")
    return [quire, "run", model, "--raw", "-f", str(prompt), "-n", str(ANSWER_TOKENS),
            "--ignore-eos", "-c", str(context), "--prefill-chunk", str(chunk), "-t", str(threads)]


def run_many(quire, model, context, sequences, chunk, threads, folder):
    """As many sequences at once, all different from their first token on, so that none share.

    The first answers last until the last prompt is computed, so that all are there together; and
    they are sampled, which takes memory that a greedy choice does not.
    """
    answer_tokens = min(context // 2, ANSWER_TOKENS + sequences * -(-context // chunk))
    requests = pathlib.Path(folder) / "requests.jsonl"
    with requests.open("w", encoding="utf-8") as file:
        for i in range(sequences):
            body = {"prompt": f"{i}" + WORD * (context - answer_tokens - 6),
                    "max_tokens": answer_tokens, "ignore_eos": True, "temperature": 1, "seed": i}
            file.write(json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions",
                                   "body": body}) + "\n")
    return [quire, "batch", model, str(requests), "-o", str(pathlib.Path(folder) / "out.jsonl"),
            "-c", str(context), "--parallel", str(sequences), "--prefill-chunk", str(chunk),
            "-t", str(threads)]


def compare(options, model, context, shape):
    sequences, chunk = shape
    planned = plan(options.planner, model, context, sequences, chunk, options.threads)
    with tempfile.TemporaryDirectory() as folder:
        if sequences == 1:
            command = run_one(options.quire, model, context, chunk, options.threads, folder)
        else:
            command = run_many(options.quire, model, context, sequences, chunk, options.threads,
                               folder)
        held = peak_bytes(command)
    total = planned["memory"]["total_bytes"]
    off = 100 * (total - held) / held
    print(f"{model:28} {context:6} tokens {sequences:3} sequences {chunk:5} a step: planned "
          f"{total / 2**20:9.1f} MiB, held {held / 2**20:9.1f} MiB, {off:+5.1f} %", flush=True)
    return abs(off) <= options.tolerance


def numbers(text):
    return [int(number) for number in text.split(",")]


def shapes(text):
    return [tuple(int(part) for part in shape.split("x")) for shape in text.split(",")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("quire")
    parser.add_argument("--planner", help="the program that plans, if another")
    parser.add_argument("--contexts", type=numbers, default=[256, 512, 1024])
    parser.add_argument("--shapes", type=shapes, default=[(1, 512), (4, 256), (8, 64)])
    parser.add_argument("--models", help="names or files; all that are in the cache")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tolerance", type=float, default=5.0)
    options = parser.parse_args()
    options.planner = options.planner or options.quire
    models = options.models.split(",") if options.models else list(cached_models(options.quire))
    if not models:
        print("no model is in the cache: nothing to compare")
        return 0
    good = [compare(options, model, context, shape)
            for model in models for context in options.contexts for shape in options.shapes]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
