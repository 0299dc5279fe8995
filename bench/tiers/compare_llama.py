"""Keys and values that outlast memory and the process: Quire's disk tier beside llama-server's
ways.

    python3 bench/tiers/compare_llama.py MODEL.gguf --llama PATH/llama-server [--rounds 3]
        [--prefix 2000] [--others 4] [--json FILE]

The same file, threads and prompts, in turn. Each round asks for one long prompt cold, asks for
others until it is out of the memory for keys and values, asks for it again, restarts the server,
and asks once more; then the same with a server that is killed 5 s after its one answer. On the side
of llama-server: one slot; its host prompt cache (--cache-ram) as it comes and switched off; and its
slot save and restore, whose calls are made by this script, since nothing makes them by itself. The
time of a restore counts as part of what a client waits for. Printed: the median time to the first
token, as a share of cold, and whether every answer was the cold one: the text, and all
log-probabilities. As Markdown.

llama.cpp is not part of this repository: PATH is the program built from the vendor/llama.cpp folder
of the PyPI source package llama-cpp-python (CMake, Release, -DGGML_NATIVE=ON).
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import asking
from serve_process import ServeProcess, free_port

COLD, EVICTED, RESTARTED, KILLED = "cold", "after other prompts", "after a restart", "after kill -9"
PLACES = (COLD, EVICTED, RESTARTED, KILLED)
IDLE_S = 5


class LlamaServer:
    def __init__(self, args, *flags):
        self.port = free_port()
        self.process = subprocess.Popen(
            [str(word) for word in (
                args.llama, "-m", args.model, "--host", "127.0.0.1", "--port", self.port,
                "-t", args.threads, "-tb", args.threads, "-np", 1, "-c", context_of(args),
                "--no-webui", *flags)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=dict(os.environ, HF_HUB_OFFLINE="1"))
        deadline = time.monotonic() + 120
        while not self._is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise SystemExit(f"{args.llama} does not start")
            time.sleep(0.05)

    def _is_ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def slot(self, action, name):
        """Saves or restores the one slot; the seconds it took."""
        begin = time.perf_counter()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/slots/0?action={action}",
            json.dumps({"filename": name}).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as reply:
            reply.read()
        return time.perf_counter() - begin

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)


def context_of(args):
    return args.prefix * 5 // 4 + 512


class Quire:
    """Keys and values have room for two of the prompts in memory, and go to disk."""
    name = "Quire, --kv-disk"

    def __init__(self, args, scratch):
        self.args, self.scratch = args, scratch

    def start(self):
        return ServeProcess(self.args.binary, self.args.model, "-t", self.args.threads, "-c",
                            context_of(self.args), "--parallel", 1, "--kv-size",
                            self.args.kv_size, "--log-level", "warning", "--kv-disk",
                            self.scratch / "kv", "--kv-disk-max", "8GiB")

    def save(self, server):
        pass

    def restore(self, server):
        return 0.0


class LlamaHostCache(Quire):
    name = "llama-server, host prompt cache"
    flags = ()

    def start(self):
        return LlamaServer(self.args, *self.flags)


class LlamaBare(LlamaHostCache):
    name = "llama-server, --cache-ram 0"
    flags = ("--cache-ram", 0)


class LlamaSlotFiles(LlamaHostCache):
    name = "llama-server, slot save and restore"

    def start(self):
        return LlamaServer(self.args, "--cache-ram", 0, "--slot-save-path", f"{self.scratch}/")

    def save(self, server):
        server.slot("save", "prefix.bin")

    def restore(self, server):
        return server.slot("restore", "prefix.bin")


def warm(server):
    asking.ask(server.port, asking.words("first of all", 40))


def measure(side, args, number):
    """{place: (seconds to the first token, restore included; answer)} of one round."""
    prompt = asking.words(f"prefix {number}", args.prefix)
    found = {}
    with side.start() as server:
        warm(server)
        cold = asking.ask(server.port, prompt)
        found[COLD] = (cold.ttft_s, cold)
        side.save(server)
        for other in range(args.others):
            asking.ask(server.port, asking.words(f"other {number} {other}", args.prefix))
        spent = side.restore(server)
        again = asking.ask(server.port, prompt)
        found[EVICTED] = (spent + again.ttft_s, again)
    with side.start() as server:
        warm(server)
        spent = side.restore(server)
        again = asking.ask(server.port, prompt)
        found[RESTARTED] = (spent + again.ttft_s, again)

    prompt = asking.words(f"killed {number}", args.prefix)
    with side.start() as server:
        warm(server)
        cold_killed = asking.ask(server.port, prompt)
        side.save(server)
        time.sleep(IDLE_S)
        server.kill()
    with side.start() as server:
        warm(server)
        spent = side.restore(server)
        again = asking.ask(server.port, prompt)
        found[KILLED] = (spent + again.ttft_s, again)
    colds = {EVICTED: cold, RESTARTED: cold, KILLED: cold_killed}
    return found, {place: (found[place][1].text == one.text, found[place][1].equals(one))
                   for place, one in colds.items()}


def report(rounds):
    """rounds: {name of a side: [what measure gives]}."""
    print("\n| | " + " | ".join(PLACES) + " | text as cold | log-probabilities as cold |")
    print("|---|" + "--:|" * len(PLACES) + "---|---|")
    for name, results in rounds.items():
        medians = {place: statistics.median(found[place][0] for found, _ in results)
                   for place in PLACES}
        cells = [f"{medians[COLD]:.2f} s"] + [
            f"{1000 * medians[place]:,.0f} ms = 1/{medians[COLD] / medians[place]:.1f}"
            for place in PLACES[1:]]
        checks = [check for _, equal in results for check in equal.values()]
        cells += [f"{sum(check[i] for check in checks)} of {len(checks)}" for i in range(2)]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    asking.add_common_flags(parser, None)
    parser.add_argument("--llama", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prefix", type=int, default=2000, help="words; about as many tokens")
    parser.add_argument("--others", type=int, default=4, help="prompts that push the first one out")
    parser.add_argument("--kv-size", default="160MiB", help="of Quire's memory")
    parser.add_argument("--json", help="a file for every figure")
    args = parser.parse_args()
    if args.model is None:
        parser.error("MODEL.gguf is needed")
    asking.say_if_busy()
    rounds = {}
    for number in range(args.rounds):
        for make in (Quire, LlamaHostCache, LlamaBare, LlamaSlotFiles):
            with tempfile.TemporaryDirectory(dir=args.directory) as scratch:
                result = measure(make(args, pathlib.Path(scratch)), args, number)
            rounds.setdefault(make.name, []).append(result)
            print(f"round {number}, {make.name}: " + ", ".join(
                f"{place} {1000 * found[0]:.0f} ms ({found[1].cached_tokens} found)"
                for place, found in result[0].items()), flush=True)
    report(rounds)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(
            {name: [{"ttft_s": {place: found[place][0] for place in PLACES}, "equal": equal}
                    for found, equal in results] for name, results in rounds.items()}, indent=1))


if __name__ == "__main__":
    main()
