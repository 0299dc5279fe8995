"""Quire beside other engines: the same file, threads and shapes, in turn, in one run.

    make peers                                 llama.cpp and OpenVINO GenAI, in build/peers
    python3 bench/compare                      every row of every file beside llama.cpp: hours
    python3 bench/compare --rows 'decode@0' --models '1.5b*'
    python3 bench/compare --kernels avx2       beside a llama.cpp that was built for AVX2 alone
    python3 bench/compare --ik PATH/bin --openvino build/peers/openvino/bin/python
    python3 bench/compare --table              the results so far, as Markdown
    python3 bench/compare --list               the rows and the files

A row is one interleaved run: each round reads memory raw, lets Quire run, reads again, lets a peer
run, so that a machine whose speed drifts drifts for all. Printed and kept are the median of the
rounds, the lowest and the highest, and the median of the rounds' ratios. Beside each round the
processor time of other processes is measured (/proc/stat, time stolen by a host too); a round
beside which others took more than --idle-limit processors is run again, up to --retries times, and
marked when it stays noisy. Results go to a file of JSON lines (--out); rows that it has with as
many rounds are not run again, so that a run that was interrupted goes on where it was (--again
measures them anew).

What is measured how:
  prefill@N   tokens a second of a prompt of N on an empty cache. Quire: `quire bench -p N -n 0`;
              llama-bench -p N -n 0. In one process as many times for both (16: 9, 64: 5, 256: 3),
              the median counts; llama-bench first runs the same once as a warm-up, Quire a prompt
              of 64.
  decode@D    tokens a second of 64 decoded after D others. `quire bench -p 0 -n 64 -d D`;
              llama-bench -n 64 -d D (ik_llama.cpp: -gp D,64). At 8,192 for the 1.5B files alone.
  batch@N     tokens a second of N sequences together, 32 decoded each after prompts of 16 that
              share nothing. `quire bench -p 0 -n 32 -d 16 --npl N`; llama-batched-bench.
  load        seconds from the start of a server to its answer of one token, the file in the page
              cache and Quire's packed copy made. `quire serve`; llama-server --no-warmup.
  memory      MiB that the server's process has held at most, file pages counted (VmHWM), after
              answers of 1 token and, behind a prompt of 512 words, of 32; context 4,096, one slot.
Keys and values are f16, threads the same, batches 2,048 in steps of 512, flash attention as the
peer chooses. OpenVINO GenAI and vLLM have no bench program: worker.py says how they are timed.

`of read bandwidth`: the bytes that Quire has to read for a token, by arithmetic, a second, over
what a raw read of the weights reached right before and after, in the same process. `of int8 peak`:
the products of prefill a second over the best rate of int8 products, measured likewise.

A peer that cannot do a row (vLLM needs a model folder, OpenVINO does not load every file) is named
as not measured, with the reason.
"""

import argparse
import datetime
import pathlib
import shutil
import sys

import engines
import idle
import models
import results
import rounds
import rows

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ROOT / "build" / "peers"


def absolute(path):
    """Engines run elsewhere. Links stay: a virtual environment's Python is one."""
    return pathlib.Path(shutil.which(path) or path).absolute()


def parse_arguments(words):
    parser = argparse.ArgumentParser(prog="bench/compare", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="*", help="globs, by comma: 'prefill@*,decode@0'")
    parser.add_argument("--models", default="*", help="globs, by comma: '1.5b*,smollm2*'")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kernels", default="", choices=["", "avx2", "avx512"],
                        help="Quire's kernel set; avx2 also chooses the llama.cpp built for AVX2")
    parser.add_argument("--quire", type=absolute, default=ROOT / "build/release/quire")
    parser.add_argument("--llama", type=absolute,
                        help="folder of llama.cpp's programs (default: where `make peers` puts it)")
    parser.add_argument("--no-llama", action="store_true", help="leave llama.cpp out")
    parser.add_argument("--ik", type=absolute, help="folder of ik_llama.cpp's programs")
    parser.add_argument("--openvino", type=absolute,
                        help="a Python that has openvino-genai")
    parser.add_argument("--vllm", type=absolute, help="a Python that has vllm")
    parser.add_argument("--vllm-models", type=absolute, default=PEERS / "vllm-models",
                        help="folder of its model folders, named as --list names the files")
    parser.add_argument("--out", type=pathlib.Path, default=PEERS / "results.jsonl")
    parser.add_argument("--again", action="store_true", help="measure rows that are there, too")
    parser.add_argument("--idle-limit", type=float, default=0.1,
                        help="processors that others may use beside a round")
    parser.add_argument("--retries", type=int, default=3, help="of a noisy round")
    parser.add_argument("--patience", type=float, default=30,
                        help="seconds to wait for an idle machine before a row")
    parser.add_argument("--table", action="store_true", help="print the results so far and end")
    parser.add_argument("--list", action="store_true", help="print the rows and files and end")
    args = parser.parse_args(words)
    if args.rounds < 1 or args.threads < 1 or args.retries < 0:
        parser.error("--rounds and --threads are at least 1, --retries at least 0")
    return args


def peers_of(args, labels):
    """`labels`: file -> label, filled as files are found."""
    found = []
    if not args.no_llama:
        built = PEERS / ("llama-avx2" if args.kernels == "avx2" else "llama") / "bin"
        found.append(engines.LlamaCpp(args.llama or built, args.threads))
    if args.ik:
        found.append(engines.IkLlamaCpp(args.ik, args.threads))
    if args.openvino:
        found.append(engines.PythonEngine("OpenVINO", args.openvino, args.threads))
    if args.vllm:
        found.append(engines.PythonEngine("vLLM", args.vllm, args.threads,
                                          lambda file: args.vllm_models / labels[file]))
    return found


def machine_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def say(words):
    print(f"    {words}", flush=True)


def measure_row(row, label, path, quire, peers, args):
    print(f"{label} {row.name}", flush=True)
    before = idle.wait_until_idle(args.idle_limit, args.patience, say)
    rules = rounds.Rules(args.rounds, args.retries, args.idle_limit)
    found, not_measured = rounds.run_rounds(row, path, [quire, *peers], quire.read_rate, rules, say)
    names = [peer.name for peer in peers]
    return {"model": label, "row": row.name, "unit": row.unit, "threads": args.threads,
            "kernels": args.kernels, "peers": names, "machine": machine_name(),
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "others_before": round(before, 3), **rounds.summarize(row, found, names),
            "not_measured": not_measured, "rounds": found}


def main(words):
    args = parse_arguments(words)
    if args.list:
        print("rows: " + ", ".join(row.name for row in rows.ROWS))
        print("files: " + ", ".join(models.LABELS))
        return
    done = results.Results(args.out)
    if args.table:
        print(results.table(done.records.values()))
        return
    names = rows.chosen([row.name for row in rows.ROWS], args.rows, "row")
    labels = {}
    quire = engines.Quire(args.quire, args.threads, args.kernels)
    peers = peers_of(args, labels)
    llama = args.llama or PEERS / "llama" / "bin"
    files = models.Models(args.quire, llama / "llama-quantize", PEERS / "models")
    for label in rows.chosen(models.LABELS, args.models, "file"):
        for row in rows.ROWS:
            if row.name not in names or not rows.matches(label, [row.only]):
                continue
            wanted = {"model": label, "row": row.name, "threads": args.threads,
                      "kernels": args.kernels, "peers": [peer.name for peer in peers]}
            if done.has(wanted, args.rounds) and not args.again:
                continue
            path = files.path(label)
            labels[path] = label
            record = measure_row(row, label, path, quire, peers, args)
            for engine, reason in record["not_measured"].items():
                say(f"{engine}: not measured: {reason}")
            if quire.name not in record["engines"]:
                continue
            done.add(record)
            say(" ".join(f"{peer}: ratio {ratio:.2f}" for peer, ratio in record["ratios"].items()))
    print("\n" + results.table(done.records.values()))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except rounds.NotMeasured as reason:  # of the raw read: nothing can be measured
        raise SystemExit(f"bench/compare: {reason}") from None
