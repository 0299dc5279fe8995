"""What background writes to disk cost those who compute and those who wait for tokens.

    python3 bench/tiers/write_cost.py [MODEL] [--binary PATH] [--pairs 5] [--requests 96]

A load of short prompts that nobody asked before, streamed to a few clients at once, in a pool so
small that every block soon gives way and is written. Each pair runs it without and with --kv-disk,
the order changing from pair to pair. Printed: processor seconds of the threads quire-engine and
quire-worker for a token, and the 99th percentile of the gaps between two tokens of an answer; both
as medians of the pairs' ratios. The status is 1 beyond 2 % and 10 %, or where nothing was written.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile
import threading

import asking
from serve_process import ServeProcess

COMPUTING = ("quire-engine", "quire-worker")
MAX_CPU = 1.02
MAX_GAP = 1.10


def run_load(server, args, name):
    """Processor seconds of computing threads a token, and the gaps."""
    waiting = list(range(args.requests))
    answers, lock = [], threading.Lock()

    def client():
        while True:
            with lock:
                if not waiting:
                    return
                number = waiting.pop()
            answer = asking.ask(server.port, asking.words(f"{name} {number}", args.words),
                                max_tokens=args.tokens, log_probs=0)
            with lock:
                answers.append(answer)

    before = server.thread_seconds()
    clients = [threading.Thread(target=client) for _ in range(args.clients)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    after = server.thread_seconds()
    spent = sum(seconds - before.get(thread, 0) for thread, seconds in after.items()
                if thread.startswith(COMPUTING))
    tokens = sum(answer.prompt_tokens - answer.cached_tokens + answer.tokens
                 for answer in answers)
    return spent / tokens, [gap for answer in answers for gap in answer.gaps_s]


def measure(args, name, with_disk):
    with tempfile.TemporaryDirectory(dir=args.directory) as scratch:
        disk = ("--kv-disk", pathlib.Path(scratch) / "kv", "--kv-disk-max", args.disk_max)
        with ServeProcess(args.binary, args.model, "-t", args.threads, "-c", 1024, "--kv-size",
                          args.kv_size, "--parallel", args.clients, "--log-level", "warning",
                          *(disk if with_disk else ())) as server:
            asking.ask(server.port, "Once", log_probs=0)
            cpu, gaps = run_load(server, args, name)
            metrics = server.metrics() if with_disk else {}
    return {"cpu": cpu, "p99": asking.percentile(gaps, .99), "p50": statistics.median(gaps),
            "stored": metrics.get("quire_tier_blocks_stored_total", 0),
            "stored_bytes": metrics.get("quire_tier_bytes_stored_total", 0),
            "dropped": metrics.get("quire_tier_blocks_dropped_total", 0)}


def run_pair(args, number):
    """The figures without and with the disk, of the same prompts."""
    order = (False, True) if number % 2 == 0 else (True, False)
    figures = {with_disk: measure(args, f"pair {number}", with_disk) for with_disk in order}
    without, disk = figures[False], figures[True]
    print(f"  pair {number}: {1e6 * without['cpu']:7.1f} and {1e6 * disk['cpu']:7.1f} us of "
          f"processor a token; p99 gap {1000 * without['p99']:6.1f} and "
          f"{1000 * disk['p99']:6.1f} ms; {disk['stored']:.0f} blocks stored "
          f"({disk['stored_bytes'] / 2**20:.0f} MiB), {disk['dropped']:.0f} dropped", flush=True)
    return without, disk


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    asking.add_common_flags(parser, "smollm2-135m-instruct")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--requests", type=int, default=96)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--words", type=int, default=96, help="of a prompt")
    parser.add_argument("--tokens", type=int, default=64, help="of an answer")
    parser.add_argument("--kv-size", default="64MiB")
    parser.add_argument("--disk-max", default="4GiB")
    args = parser.parse_args()
    asking.say_if_busy()
    print(f"{args.model}, {args.requests} prompts of {args.words} words, {args.clients} clients: "
          "without and with --kv-disk", flush=True)
    pairs = [run_pair(args, number) for number in range(args.pairs)]
    cpu = statistics.median(disk["cpu"] / without["cpu"] for without, disk in pairs)
    gap = statistics.median(disk["p99"] / without["p99"] for without, disk in pairs)
    print(f"medians: processor time {cpu:.4f} (limit {MAX_CPU}), p99 gap {gap:.3f} "
          f"(limit {MAX_GAP})")
    return 0 if cpu <= MAX_CPU and gap <= MAX_GAP and all(d["stored"] for _, d in pairs) else 1


if __name__ == "__main__":
    sys.exit(main())
