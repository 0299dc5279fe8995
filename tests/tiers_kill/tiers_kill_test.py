"""A server with blocks on disk, killed at random moments under load and started again.

    python3 tiers_kill_test.py PATH_TO_QUIRE PATH_TO_TESTS [unittest arguments]

QUIRE_KILLS: how often (10). QUIRE_KILL_SEED: of the moments and the load; printed.
"""

import http.client
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time
import unittest

QUIRE = sys.argv[1]
TESTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(TESTS / "support"))

from serve_process import ServeProcess  # noqa: E402

MODEL = TESTS / "golden" / "models" / "tiny-llama.gguf"
KILLS = int(os.environ.get("QUIRE_KILLS", "10"))
SEED = int(os.environ.get("QUIRE_KILL_SEED") or random.randrange(1 << 32))
NUM_PROMPTS = 40
DISK_CAP = 1 << 20  # 256 slots of 4 KiB, less the index
FLAGS = ("-c", "512", "--kv-size", "160KiB", "--parallel", "4", "-t", "2", "--log-level", "warning")
BLOCK = 16
MAX_LOAD_S = 1.5  # before the kill


def fixed_prompts():
    """Token ids; each third goes on from the beginning of the one before."""
    rng = random.Random("prompts")
    prompts = []
    for i in range(NUM_PROMPTS):
        begin = prompts[-1][:rng.randrange(BLOCK, len(prompts[-1]))] if i % 3 == 2 else []
        prompts.append(begin + [rng.randrange(3, 290) for _ in range(rng.randrange(40, 160))])
    return prompts


def ask(port, prompt, max_tokens=4):
    """What a client sees of the answer, and how many of the prompt's tokens were found."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True,
                "logprobs": 5}
        connection.request("POST", "/v1/completions", json.dumps(body),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
    finally:
        connection.close()
    if response.status != 200:
        raise AssertionError(f"{response.status}: {text[:300]!r}")
    answer = json.loads(text)
    return answer["choices"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def bytes_on_disk(directory):
    """What all files take, apparent or allocated, whichever is more."""
    total = 0
    for path in directory.rglob("*"):
        try:
            stat = path.lstat()
        except FileNotFoundError:
            continue
        if path.is_file():
            total += max(stat.st_size, stat.st_blocks * 512)
    return total


class DiskWatch:
    """Looks at a directory all the time, and keeps the most that it held."""

    def __init__(self, directory):
        self.directory = directory
        self.most = 0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self):
        while not self.is_over.is_set():
            self.most = max(self.most, bytes_on_disk(self.directory))
            time.sleep(0.002)

    def stop(self):
        self.is_over.set()
        self.thread.join()
        self.most = max(self.most, bytes_on_disk(self.directory))


class Load(threading.Thread):
    """Asks for fixed and for fresh prompts until the server is gone."""

    def __init__(self, port, seed, prompts, cold):
        super().__init__(daemon=True)
        self.port, self.rng = port, random.Random(seed)
        self.prompts, self.cold = prompts, cold
        self.num_answers, self.wrong = 0, []
        self.start()

    def run(self):
        while True:
            which = self.rng.randrange(2 * NUM_PROMPTS)
            is_fixed = which < NUM_PROMPTS
            prompt = self.prompts[which] if is_fixed else [
                self.rng.randrange(3, 290) for _ in range(self.rng.randrange(20, 300))]
            try:
                choices, _ = ask(self.port, prompt)
            except (OSError, http.client.HTTPException, ValueError):
                return
            except AssertionError as fault:
                self.wrong.append(str(fault))
                return
            self.num_answers += 1
            if is_fixed and choices != self.cold[which]:
                self.wrong.append(f"prompt {which}: {choices} instead of {self.cold[which]}")


class KillTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "kv"
        self.prompts = fixed_prompts()
        with ServeProcess(QUIRE, MODEL, *FLAGS) as server:
            self.cold = [ask(server.port, prompt)[0] for prompt in self.prompts]

    def start_server(self):
        return ServeProcess(QUIRE, MODEL, *FLAGS, "--kv-disk", self.directory, "--kv-disk-max",
                            DISK_CAP, "--kv-disk-min-free", 0)

    def check_answers(self, server, rng):
        """Every answer against the cold one; tokens found of the first, which only disk has."""
        order = rng.sample(range(NUM_PROMPTS), NUM_PROMPTS)
        found = 0
        for number, which in enumerate(order):
            choices, cached = ask(server.port, self.prompts[which])
            self.assertEqual(choices, self.cold[which], f"prompt {which}, {cached} tokens found")
            found = cached if number == 0 else found
        return found

    def test_no_wrong_answer_and_no_byte_beyond_the_cap_whenever_it_is_killed(self):
        print(f"QUIRE_KILL_SEED={SEED}", flush=True)
        rng = random.Random(SEED)
        watch = DiskWatch(self.directory)
        found_after_kill = num_answers = 0
        for kill in range(KILLS):
            with self.subTest(kill=kill), self.start_server() as server:
                found_after_kill += self.check_answers(server, rng) if kill else 0
                loads = [Load(server.port, rng.random(), self.prompts, self.cold)
                         for _ in range(4)]
                time.sleep(rng.random() * MAX_LOAD_S)
                server.kill()
                for load in loads:
                    load.join()
                    num_answers += load.num_answers
                    self.assertEqual(load.wrong, [])
                self.assertLessEqual(bytes_on_disk(self.directory), DISK_CAP)
        with self.start_server() as server:
            found_after_kill += self.check_answers(server, rng)
        watch.stop()
        print(f"{KILLS} kills, {num_answers} answers under load, {found_after_kill} tokens found "
              f"first thing after a restart, at most {watch.most} of {DISK_CAP} bytes", flush=True)
        self.assertGreater(num_answers, 0)
        self.assertGreater(found_after_kill, 0)
        # The disk was full, so the cap was what held it.
        self.assertGreater(watch.most, DISK_CAP * 3 // 4)
        self.assertLessEqual(watch.most, DISK_CAP)
        check = subprocess.run([QUIRE, "cache", "verify", "--kv-disk", self.directory],
                               capture_output=True, text=True, timeout=120)
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
