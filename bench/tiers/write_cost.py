"""What background writes to disk cost those who compute and those who wait for tokens.

    python3 bench/tiers/write_cost.py [MODEL] [--binary PATH] [--pairs 5] [--slices 8]

A load of short prompts that nobody asked before, streamed to a few clients at once, in a pool so
small that every block soon gives way and is written. Two servers stand ready, one without and one
with --kv-disk, and a pair is the same slices of the load for either in turn, the order changing from
slice to slice: a machine that grows slower does so for both. Printed: processor seconds of the
threads quire-engine and quire-worker for a token, and the 99th percentile of the gaps between two
tokens of an answer, both as medians of the pairs' ratios; and the processor seconds of the writer,
as a share of theirs. The status is 1 beyond 2 % and 10 %, or where nothing was written.
"""

import argparse
import contextlib
import pathlib
import statistics
import sys
import tempfile
import threading

import asking
from serve_process import ServeProcess

COMPUTING = ("quire-engine", "quire-worker")
WRITING = ("quire-tier-w",)
MAX_CPU = 1.02
MAX_GAP = 1.10


class Side:
    """One server, and what a pair has measured of it so far."""

    def __init__(self, server):
        self.server = server
        self.begin_pair()

    def begin_pair(self):
        self.spent_s, self.writer_s, self.tokens, self.gaps_s = 0.0, 0.0, 0, []

    def run_slice(self, args, name):
        waiting = list(range(args.requests))
        answers, lock = [], threading.Lock()

        def client():
            while True:
                with lock:
                    if not waiting:
                        return
                    number = waiting.pop()
                answer = asking.ask(self.server.port, asking.words(f"{name} {number}", args.words),
                                    max_tokens=args.tokens, log_probs=0)
                with lock:
                    answers.append(answer)

        before = self.server.thread_seconds()
        clients = [threading.Thread(target=client) for _ in range(args.clients)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
        for thread, seconds in self.server.thread_seconds().items():
            spent = seconds - before.get(thread, 0)
            if thread.startswith(COMPUTING):
                self.spent_s += spent
            elif thread.startswith(WRITING):
                self.writer_s += spent
        self.tokens += sum(answer.prompt_tokens - answer.cached_tokens + answer.tokens
                           for answer in answers)
        self.gaps_s += [gap for answer in answers for gap in answer.gaps_s]

    @property
    def cpu_us(self):
        return 1e6 * self.spent_s / self.tokens

    @property
    def p99_ms(self):
        return 1000 * asking.percentile(self.gaps_s, .99)


def run_pair(args, sides, number):
    """Ratios of processor time and of the p99 gap, with the disk over without."""
    for side in sides:
        side.begin_pair()
    for piece in range(args.slices):
        order = sides if piece % 2 == 0 else sides[::-1]
        for side in order:
            side.run_slice(args, f"pair {number} slice {piece}")
    without, disk = sides
    print(f"  pair {number}: {without.cpu_us:7.1f} and {disk.cpu_us:7.1f} us of processor a token "
          f"(writer {100 * disk.writer_s / disk.spent_s:.2f} % of it); p99 gap "
          f"{without.p99_ms:6.1f} and {disk.p99_ms:6.1f} ms", flush=True)
    return disk.cpu_us / without.cpu_us, disk.p99_ms / without.p99_ms


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    asking.add_common_flags(parser, "smollm2-135m-instruct")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--slices", type=int, default=8, help="of a pair")
    parser.add_argument("--requests", type=int, default=16, help="of a slice")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--words", type=int, default=96, help="of a prompt")
    parser.add_argument("--tokens", type=int, default=64, help="of an answer")
    parser.add_argument("--kv-size", default="64MiB")
    parser.add_argument("--disk-max", default="4GiB")
    args = parser.parse_args()
    asking.say_if_busy()
    print(f"{args.model}, {args.slices} slices of {args.requests} prompts of {args.words} words, "
          f"{args.clients} clients: without and with --kv-disk", flush=True)
    flags = ("-t", args.threads, "-c", 1024, "--kv-size", args.kv_size, "--parallel", args.clients,
             "--log-level", "warning")
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(dir=args.directory))
        disk = ("--kv-disk", pathlib.Path(scratch) / "kv", "--kv-disk-max", args.disk_max)
        sides = [Side(stack.enter_context(ServeProcess(args.binary, args.model, *flags, *more)))
                 for more in ((), disk)]
        for side in sides:
            asking.ask(side.server.port, "Once", log_probs=0)
        pairs = [run_pair(args, sides, number) for number in range(args.pairs)]
        metrics = sides[1].server.metrics()
    stored = metrics["quire_tier_blocks_stored_total"]
    print(f"{stored:.0f} blocks stored ({metrics['quire_tier_bytes_stored_total'] / 2**20:.0f} MiB), "
          f"{metrics.get('quire_tier_blocks_dropped_total', 0):.0f} dropped")
    cpu, gap = (statistics.median(values) for values in zip(*pairs))
    print(f"medians: processor time {cpu:.4f} (limit {MAX_CPU}), p99 gap {gap:.3f} "
          f"(limit {MAX_GAP})")
    return 0 if cpu <= MAX_CPU and gap <= MAX_GAP and stored else 1


if __name__ == "__main__":
    sys.exit(main())
