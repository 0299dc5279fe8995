"""Time to the first token of a prompt whose prefix is nowhere, on disk, and in Redis.

    python3 bench/tiers/ttft.py [MODEL] [--binary PATH] [--rounds 3] [--prefix 2000] [--no-redis]

Each round, with fresh prompts and freshly started servers: the prompt cold; after SIGTERM and a
restart, with the files in the page cache and without; used once, idle for 5 s, kill -9, restart;
and by a second process that shares a local redis-server with the first, which goes on running.
Every server answers something short first. Every answer must equal the cold one, log-probabilities
to the last bit. The status is 1 where one does not, where too few tokens were found, or where a
median misses its limit (1/30 of cold from disk, 1/20 from Redis).
"""

import argparse
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import asking
from serve_process import ServeProcess

COLD = "cold"
DISK = "disk, after SIGTERM"
DISK_READ = "disk, page cache dropped"
KILLED = "disk, after 5 s idle and kill -9"
REDIS = "Redis, in another process"
LIMITS = {DISK: 30, KILLED: 30, REDIS: 20}  # 1/limit of cold
IDLE_S = 5


class Redis:
    """A redis-server of our own that keeps nothing on disk."""

    def __init__(self, directory):
        self.path = directory / "redis.sock"
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", str(self.path), "--save", "",
             "--appendonly", "no", "--maxmemory", "2gb", "--maxmemory-policy", "allkeys-lru"],
            cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while not self.path.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("redis-server does not start")
            time.sleep(0.02)
        self.url = f"unix://{self.path}"

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.terminate()
        self.process.wait(20)


def decision_of(server):
    """What loads were weighed with, and how it came out."""
    return {name: value for name, value in server.metrics().items()
            if value and name.startswith(("quire_load_decisions_total{", "quire_tier_faults_total{",
                                          "quire_tier_latency_seconds{", "quire_prefill_token",
                                          "quire_tier_bytes_per_second{"))}


class Bench:
    def __init__(self, args):
        self.args = args
        self.ttfts = {}
        self.faults = []

    def serve(self, *flags):
        args = self.args
        server = ServeProcess(args.binary, args.model, "-t", args.threads, "-c",
                              args.prefix * 5 // 4 + 512, "--parallel", 4, "--log-level",
                              "warning", *flags)
        asking.ask(server.port, asking.words("first of all", 40))
        return server

    def ask(self, server, prompt, place, cold=None, tier=None):
        answer = asking.ask(server.port, prompt)
        self.ttfts.setdefault(place, []).append(answer.ttft_s)
        found = answer.cached_from(tier) if tier else 0
        print(f"  {place:34} {1000 * answer.ttft_s:10.1f} ms, {answer.prompt_tokens} tokens, "
              f"{answer.cached_tokens} found, waited {answer.usage['quire']['tier_wait_ms']} ms",
              flush=True)
        if cold is not None and not answer.equals(cold):
            self.faults.append(f"{place}: the answer differs from the cold one")
        if tier and found < answer.prompt_tokens - 32:
            self.faults.append(f"{place}: {found} of {answer.prompt_tokens} tokens from {tier}: "
                               f"{answer.usage['quire']['miss']} {decision_of(server)}")
        return answer

    def round(self, number, scratch):
        prompt = asking.words(f"restart {number}", self.args.prefix)
        disk = ("--kv-disk", scratch / "restart", "--kv-disk-max", "4GiB")
        with self.serve(*disk) as server:
            cold = self.ask(server, prompt, COLD)
        with self.serve(*disk) as server:
            self.ask(server, prompt, DISK, cold, "disk")
        asking.forget_page_cache(scratch / "restart")
        with self.serve(*disk) as server:
            self.ask(server, prompt, DISK_READ, cold, "disk")

        prompt = asking.words(f"kill {number}", self.args.prefix)
        disk = ("--kv-disk", scratch / "kill", "--kv-disk-max", "4GiB")
        with self.serve(*disk) as server:
            cold = self.ask(server, prompt, COLD)
            time.sleep(IDLE_S)
            server.kill()
        with self.serve(*disk) as server:
            self.ask(server, prompt, KILLED, cold, "disk")
        if self.args.redis:
            self.redis_round(number, scratch)

    def redis_round(self, number, scratch):
        prompt = asking.words(f"redis {number}", self.args.prefix)
        key_file = scratch / "keys"
        key_file.touch(mode=0o600)
        key_file.write_text("5c" * 32 + "\n")
        with Redis(scratch) as redis:
            remote = ("--kv-redis", redis.url, "--kv-key-file", key_file)
            with self.serve(*remote) as server:
                cold = self.ask(server, prompt, COLD)
                time.sleep(IDLE_S)
                with self.serve(*remote) as other:
                    self.ask(other, prompt, REDIS, cold, "remote")

    def report(self):
        cold = statistics.median(self.ttfts[COLD])
        print(f"\nTTFT of {self.args.prefix} words, medians (lowest to highest):")
        for place, values in self.ttfts.items():
            ratio = cold / statistics.median(values)
            limit = LIMITS.get(place)
            print(f"  {place:34} {asking.describe_ms(values)}"
                  + (f"   1/{ratio:.0f} of cold" if place != COLD else "")
                  + (f" (limit 1/{limit})" if limit else ""))
            if limit and ratio < limit:
                self.faults.append(f"{place}: 1/{ratio:.1f} of cold, the limit is 1/{limit}")
        for fault in self.faults:
            print(f"FAULT {fault}")
        if not self.faults:
            print("every answer equals the cold one, log-probabilities included")
        return 1 if self.faults else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    asking.add_common_flags(parser, "qwen2.5-coder-1.5b-instruct")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prefix", type=int, default=2000, help="words; about as many tokens")
    parser.add_argument("--no-redis", dest="redis", action="store_false")
    args = parser.parse_args()
    if args.redis and shutil.which("redis-server") is None:
        raise SystemExit("there is no redis-server: install it, or say --no-redis")
    asking.say_if_busy()
    bench = Bench(args)
    for number in range(args.rounds):
        with tempfile.TemporaryDirectory(dir=args.directory) as scratch:
            print(f"round {number}", flush=True)
            bench.round(number, pathlib.Path(scratch))
    return bench.report()


if __name__ == "__main__":
    sys.exit(main())
