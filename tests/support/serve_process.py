"""A `quire serve` that a test or a measurement talks to, from its start to its end.

    with ServeProcess(quire, "smollm2-135m-instruct", "--parallel", "4") as server:
        server.url, server.port, server.pid, server.metrics()["vllm:num_requests_running"]

Standard library alone.
"""

import json
import os
import pathlib
import queue
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

READY = re.compile(r"quire: serving (\S+) at (\S+) \((.*)\)")
SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)( \d+)?$")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def model_is_here(name):
    """Whether a model of the catalogue is in the model cache."""
    here = pathlib.Path(__file__).resolve().parents[2]
    for entry in json.loads((here / "scripts" / "models.json").read_text())["models"]:
        if entry["name"] == name:
            return (cache_directory() / "models" / entry["file"]).exists()
    raise KeyError(name)


def cache_directory():
    if os.environ.get("QUIRE_CACHE"):
        return pathlib.Path(os.environ["QUIRE_CACHE"])
    if os.environ.get("XDG_CACHE_HOME", "").startswith("/"):
        return pathlib.Path(os.environ["XDG_CACHE_HOME"]) / "quire"
    return pathlib.Path.home() / ".cache" / "quire"


def parse_metrics(text):
    """Sums of the samples by name; the whole samples stand under name{labels}."""
    values = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        match = SAMPLE.match(line)
        if match is None:
            raise ValueError(f"not a sample of the exposition format: {line!r}")
        name, labels, value = match[1], match[2] or "", float(match[3])
        values[name] = values.get(name, 0.0) + value
        if labels:
            values[name + labels] = value
    return values


class ServeProcess:
    def __init__(self, quire, model, *flags, environment=None, key=None, wait=True, timeout=120):
        self.key = key
        self.log_file = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [str(quire), "serve", str(model), "--port", "0", *map(str, flags)],
            stdout=subprocess.PIPE, stderr=self.log_file, text=True,
            env=dict(os.environ, **(environment or {})))
        self.pid = self.process.pid
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if wait:
            try:
                self.wait_ready(timeout)
            except BaseException:
                self.kill()
                raise

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def wait_ready(self, timeout=120):
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"not ready within {timeout} s\n{self.log()}") from None
        match = READY.match(line or "")
        if match is None:
            self.process.wait(10)
            raise AssertionError(f"exit {self.process.returncode}, said {line!r}\n{self.log()}")
        self.ready_line = line
        self.model, self.url = match[1], match[2]
        self.port = int(self.url.rsplit(":", 1)[1])

    def log(self):
        self.log_file.seek(0)
        return self.log_file.read().decode("utf-8", "replace")

    def get(self, path, timeout=30):
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        with urllib.request.urlopen(
                urllib.request.Request(self.url + path, headers=headers), timeout=timeout) as reply:
            return reply.read().decode()

    def metrics(self):
        return parse_metrics(self.get("/metrics"))

    def wait_for_metric(self, name, wanted, timeout=30):
        """Until the sum of a metric is `wanted`, or a predicate says so of it; its value."""
        is_there = wanted if callable(wanted) else lambda value: value == wanted
        deadline = time.monotonic() + timeout
        while True:
            value = self.metrics()[name]
            if is_there(value):
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} is {value} after {timeout} s")
            time.sleep(0.02)

    def status_bytes(self, name):
        """A line of /proc/PID/status, such as RssAnon, in bytes."""
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
        raise KeyError(name)

    def thread_seconds(self):
        """Processor time of the threads so far, summed by name."""
        ticks = os.sysconf("SC_CLK_TCK")
        seconds = {}
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            try:
                text = (task / "stat").read_text()
            except FileNotFoundError:
                continue
            name = text[text.index("(") + 1:text.rindex(")")]
            fields = text[text.rindex(")") + 2:].split()
            spent = (int(fields[11]) + int(fields[12])) / ticks
            seconds[name] = seconds.get(name, 0.0) + spent
        return seconds

    def stop(self, timeout=60):
        """SIGTERM; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()

    def close(self):
        self.kill()
        self.log_file.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        try:
            self.stop()
        finally:
            self.close()
