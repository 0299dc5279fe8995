"""How each engine measures a row. Every call starts a process, and waits for its end.

Speeds are what the engine's own bench reports, with f16 keys and values, the same threads and
batches of 2,048 in steps of 512 where the engine has such flags. Load time and peak memory are
seen from outside: a server is started, asked for one token of a short prompt, then for 32 after a
prompt of 512; load is the time to the first answer, memory the process's VmHWM, file pages counted.
"""

import json
import os
import pathlib
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from rounds import Measured, NotMeasured

HERE = pathlib.Path(__file__).resolve().parent
# ik_llama.cpp leaves a log where it is started.
WHERE_ENGINES_RUN = tempfile.gettempdir()
TIMEOUT_S = 1800
START_S = 300


def output_of(command, environment=None, with_errors=False):
    """Standard output, and errors if asked. NotMeasured with the last words of what fails."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              timeout=TIMEOUT_S, cwd=WHERE_ENGINES_RUN,
                              env=dict(os.environ, **(environment or {})))
    except FileNotFoundError:
        raise NotMeasured(f"{command[0]} is not there") from None
    except subprocess.TimeoutExpired:
        raise NotMeasured(f"{command[0]} took more than {TIMEOUT_S} s") from None
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise NotMeasured(f"{pathlib.Path(str(command[0])).name} ended with {done.returncode}: "
                          f"{words[-1][:200] if words else 'said nothing'}")
    return done.stdout + (done.stderr if with_errors else "")


class Server:
    """A server of the OpenAI API, for the rows that are seen from outside."""

    def __init__(self, command, port):
        self.port = port
        self.start = time.monotonic()
        try:
            self.process = subprocess.Popen(
                [str(word) for word in command], stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, cwd=WHERE_ENGINES_RUN,
                env=dict(os.environ, HF_HUB_OFFLINE="1"))
        except FileNotFoundError:
            raise NotMeasured(f"{command[0]} is not there") from None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def ask(self, prompt, max_tokens):
        body = json.dumps({"prompt": prompt, "max_tokens": max_tokens, "temperature": 0})
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/completions", body.encode(),
            {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=START_S) as reply:
            return json.loads(reply.read())

    def load_seconds(self):
        """From the start of the process to the first answer."""
        while True:
            if self.process.poll() is not None:
                raise NotMeasured(f"the server ended with {self.process.returncode}")
            try:
                self.ask("Hello", 1)
                return time.monotonic() - self.start
            except (urllib.error.URLError, OSError):  # not listening, or still loading (503)
                if time.monotonic() - self.start > START_S:
                    raise NotMeasured(f"no answer within {START_S} s") from None
                time.sleep(0.01)

    def peak_mib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024


def from_outside(row, command, port):
    with Server(command, port) as server:
        seconds = server.load_seconds()
        if row.kind == "load":
            return Measured(seconds)
        server.ask(" ".join(["word"] * row.prompt), row.decoded)
        return Measured(server.peak_mib())


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Quire:
    name = "quire"

    def __init__(self, program, threads, kernels):
        self.program, self.threads = program, threads
        self.flags = ["--kernels", kernels] if kernels else []

    def read_rate(self, file):
        """Bytes a second of reading as many bytes as the file has, raw."""
        output = output_of([self.program, "bench", "--limits", "-t", self.threads, "-r", 3,
                            "--working-set", os.path.getsize(file), "--json"])
        return json.loads(output)["reads"][0]["median_bytes_per_second"]

    def measure(self, row, file):
        if row.kind in ("load", "memory"):
            port = free_port()
            return from_outside(row, [self.program, "serve", file, "--port", port, "-t",
                                      self.threads, "-c", 4096, "--parallel", 1, *self.flags],
                                port)
        output = output_of([self.program, "bench", file, "-t", self.threads, "-r", row.repeats,
                            "-p", row.prompt, "-n", row.decoded, "-d", row.depth, "--npl",
                            row.parallel, "-c", row.context, "--limits", "--json", *self.flags])
        test = json.loads(output)["tests"][0]
        wanted = {"prefill": "share_of_int8", "decode": "share_of_read"}.get(row.kind)
        shares = {wanted: test["limits"][wanted]} if wanted else {}
        return Measured(test["median_ts"], shares)


class LlamaCpp:
    """llama-bench for one sequence, after a warm-up run of the same; llama-batched-bench for
    several, whose prompts are not shared; llama-server for what is seen from outside, without its
    own warm-up, which would read all weights before the first answer does."""

    def __init__(self, folder, threads, name="llama.cpp"):
        self.folder, self.threads, self.name = folder, threads, name
        self.repack = []  # flags of every program but llama-bench

    def measure(self, row, file):
        if row.kind in ("load", "memory"):
            port = free_port()
            return from_outside(row, [self.folder / "llama-server", "-m", file, "--host",
                                      "127.0.0.1", "--port", port, "-t", self.threads, "-c", 4096,
                                      "-np", 1, "--no-warmup", *self.repack], port)
        return Measured(self.batch(row, file) if row.kind == "batch" else self.single(row, file))

    def depth_words(self, row):
        return ["-p", row.prompt, "-n", row.decoded, "-d", row.depth]

    def bench_words(self):
        return []

    def single(self, row, file):
        output = output_of([self.folder / "llama-bench", "-m", file, "-t", self.threads, "-b", 2048,
                            "-ub", 512, "-ctk", "f16", "-ctv", "f16", *self.depth_words(row), "-r",
                            row.repeats, "-o", "json", *self.bench_words()])
        tests = [test for test in json.loads(output)
                 if (test["n_gen"] > 0) == (row.kind == "decode")]
        if len(tests) != 1:
            raise NotMeasured(f"llama-bench printed {len(tests)} results of the row")
        return statistics.median(tests[0]["samples_ts"])

    def batch_command(self, row, file):
        context = row.parallel * (row.depth + row.decoded) + 64
        return [self.folder / "llama-batched-bench", "-m", file, "-t", self.threads, "-c", context,
                "-b", 2048, "-ub", 512, "-npp", row.depth, "-ntg", row.decoded, "-npl",
                row.parallel, *self.repack]

    def batch(self, row, file):
        output = output_of([*self.batch_command(row, file), "--output-format", "jsonl"])
        for line in output.splitlines():
            if line.startswith("{"):
                return json.loads(line)["speed_tg"]
        raise NotMeasured("llama-batched-bench printed no result")


class IkLlamaCpp(LlamaCpp):
    """The same programs, with weights repacked when loaded. Its llama-bench has -gp in place of -d,
    its llama-batched-bench prints a table."""

    def __init__(self, folder, threads):
        super().__init__(folder, threads, "ik_llama.cpp")
        self.repack = ["-rtr"]

    def bench_words(self):
        return ["-rtr", 1]

    def depth_words(self, row):
        if row.kind == "decode" and row.depth:
            return ["-p", 0, "-n", 0, "-gp", f"{row.depth},{row.decoded}"]
        return ["-p", row.prompt, "-n", row.decoded]

    def batch(self, row, file):
        for line in output_of(self.batch_command(row, file), with_errors=True).splitlines():
            cells = [cell.strip() for cell in line.split("|")]
            # | PP | TG | B | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s | T s | S t/s |
            if len(cells) >= 10 and cells[1].isdigit() and cells[3].isdigit():
                return float(cells[8])
        raise NotMeasured("llama-batched-bench printed no result")


class PythonEngine:
    """OpenVINO GenAI or vLLM, each in its own Python; worker.py runs in it."""

    def __init__(self, name, python, threads, model_of=None):
        self.name, self.python, self.threads = name, python, threads
        self.model_of = model_of or (lambda file: file)

    def measure(self, row, file):
        model = self.model_of(file)
        if model is None or not pathlib.Path(model).exists():
            raise NotMeasured(f"needs a model folder, {model}, which is not there")
        task = {"engine": self.name, "model": str(model), "threads": self.threads,
                "kind": row.kind, "prompt": row.prompt, "decoded": row.decoded,
                "depth": row.depth, "parallel": row.parallel, "context": row.context}
        output = output_of([self.python, HERE / "worker.py", json.dumps(task)],
                           {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "2",
                            "OMP_NUM_THREADS": str(self.threads)})
        for line in output.splitlines():
            if line.startswith("{"):
                return Measured(json.loads(line)["value"])
        raise NotMeasured("the worker printed no result")
