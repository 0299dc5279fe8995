"""`--trace` of a real server and of a batch: its counts beside /metrics, its requests' lives, and
what `quire explain` prints of them.

    python3 trace_serve_test.py PATH_TO_QUIRE PATH_TO_TESTS [unittest arguments]
"""

import http.client
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

QUIRE = sys.argv[1]
TESTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(TESTS / "support"))

from serve_process import ServeProcess  # noqa: E402

TINY = TESTS / "golden" / "models" / "tiny-llama.gguf"
NUM_REQUESTS = 1000
NUM_CLIENTS = 16


def quire(*words):
    return subprocess.run([QUIRE, *map(str, words)], capture_output=True, text=True, timeout=120)


def body_of(i):
    prompt = [3 + (i % 7 + 7 * j * j) % 200 for j in range(10 + i % 40)] + [i % 250]
    return {"prompt": prompt, "max_tokens": 1 + i % 6, "n": 2 if i % 25 == 0 else 1,
            "seed": i, "ignore_eos": True, "request_id": f"mine-{i}"}


class ServedTrace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.trace = pathlib.Path(cls.directory) / "run.trace"
        with ServeProcess(QUIRE, TINY, "--trace", cls.trace, "--trace-detail", "all",
                          "--kv-size", "128KiB", "--parallel", "8") as server:
            cls.names = {}
            numbers = iter(range(NUM_REQUESTS))
            lock = threading.Lock()

            def client():
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                while True:
                    with lock:
                        i = next(numbers, None)
                    if i is None:
                        connection.close()
                        return
                    connection.request("POST", "/v1/completions", json.dumps(body_of(i)),
                                       {"Content-Type": "application/json"})
                    answer = json.loads(connection.getresponse().read())
                    with lock:
                        cls.names[i] = answer

            threads = [threading.Thread(target=client) for _ in range(NUM_CLIENTS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            server.wait_for_metric("vllm:num_requests_running", 0)
            cls.metrics = server.metrics()
            cls.exit_code = server.stop()
        result = quire("explain", "trace", cls.trace, "--json")
        cls.counts = json.loads(result.stdout)

    def test_the_server_ends_well(self):
        self.assertEqual(self.exit_code, 0)
        self.assertEqual(self.counts["dropped_events"], 0)

    def test_counts_equal_the_metrics(self):
        for count, metric in {
            "prompt_tokens": "vllm:prompt_tokens_total",
            "cached_tokens": "vllm:prompt_tokens_cached_total",
            "completion_tokens": "vllm:generation_tokens_total",
            "prefix_cache_queries": "vllm:prefix_cache_queries_total",
            "prefix_cache_hits": "vllm:prefix_cache_hits_total",
            "preemptions": "vllm:num_preemptions_total",
            "draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
            "accepted_draft_tokens": "vllm:spec_decode_num_accepted_tokens_total",
            "requests_finished": "vllm:request_success_total",
            "steps": "quire_steps_total",
            "computed_tokens": "quire_computed_tokens_total",
            "generated_tokens": "quire_sampled_tokens_total",
        }.items():
            self.assertEqual(self.counts[count], self.metrics[metric], count)
        self.assertEqual(self.counts["requests_finished"], NUM_REQUESTS)
        self.assertGreater(self.counts["cached_tokens"], 0)
        changes = self.counts["block_changes"]
        self.assertEqual(changes["copy_on_write"], self.metrics["quire_kv_copied_blocks_total"])
        self.assertEqual(changes["fill"], self.metrics["quire_kv_filled_blocks_total"])
        self.assertEqual(changes["evict"], self.metrics["quire_kv_evicted_blocks_total"])
        for reason in ("never_seen", "differs", "evicted", "not_read"):
            metric = next(value for name, value in self.metrics.items()
                          if name.startswith("quire_prefix_misses_total{")
                          and f'reason="{reason}"' in name)
            self.assertEqual(self.counts["misses"].get(reason, 0), metric, reason)

    def test_a_life_accounts_for_all_of_a_requests_time(self):
        for i in range(0, NUM_REQUESTS, 111):
            name = self.names[i]["id"]
            result = quire("explain", "request", name, "--trace", self.trace, "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            (request,) = json.loads(result.stdout)["requests"]
            total = request["end"]["total_ms"]
            self.assertAlmostEqual(request["sum_ms"], total, delta=0.01 * total + 0.002)
            at = request["request"]["ms"]
            for span in request["spans"]:
                self.assertEqual(span["begin_ms"], at)
                at = span["end_ms"]
            self.assertEqual(request["end"]["prompt_tokens"],
                             self.names[i]["usage"]["prompt_tokens"])

    def test_explain_prints_lives_misses_and_the_trace(self):
        text = quire("explain", "request", "500", "--trace", self.trace)
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertRegex(text.stdout, r"request 500 \(.*\): \d+ prompt tokens, \d+ cached")
        self.assertRegex(text.stdout, r"prefill +\d+ +\d+\.\.\d+")
        text = quire("explain", "miss", "500", "--trace", self.trace)
        self.assertRegex(text.stdout, r"of \d+ prompt tokens were found: \d+ in memory")
        text = quire("explain", "trace", self.trace)
        self.assertIn(f"the 20 slowest of {NUM_REQUESTS} requests", text.stdout)
        rows = quire("explain", "trace", self.trace, "-n", "0").stdout.split("first ms")[1]
        self.assertEqual(len(rows.splitlines()) - 1, NUM_REQUESTS)

    def test_a_request_that_is_not_there_is_said_to_be_missing(self):
        result = quire("explain", "request", "nobody", "--trace", self.trace)
        self.assertEqual(result.returncode, 3)
        self.assertIn("has no request 'nobody'", result.stderr)
        for subject in ("request", "miss"):
            result = quire("explain", subject, "", "--trace", self.trace)
            self.assertEqual(result.returncode, 3)
            self.assertIn("has no request ''", result.stderr)

    def test_chromes_form_is_well_nested(self):
        out = pathlib.Path(self.directory) / "chrome.json"
        result = quire("explain", "trace", self.trace, "--chrome", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        open_slices = {}
        lanes = set()
        for event in json.loads(out.read_text())["traceEvents"]:
            lane = (event["pid"], event["tid"])
            if event["ph"] == "B":
                open_slices.setdefault(lane, []).append(event["ts"])
                lanes.add(lane)
            elif event["ph"] == "E":
                self.assertGreaterEqual(event["ts"], open_slices[lane].pop())
        self.assertFalse(any(open_slices.values()))
        self.assertEqual(len([lane for lane in lanes if lane[0] == 2]), NUM_REQUESTS)


class FileTest(unittest.TestCase):
    def test_a_full_disk_is_an_error_at_the_end_and_the_answer_is_there(self):
        result = quire("run", TINY, "--raw", "-p", "abc", "-n", "4", "--trace", "/dev/full")
        self.assertEqual(result.returncode, 5)
        self.assertIn("/dev/full: No space left on device", result.stderr)
        self.assertIn("tok/s", result.stderr)

    def test_a_place_that_cannot_be_written_is_told_before_the_model_is_loaded(self):
        result = quire("run", TINY, "--raw", "-p", "abc", "-n", "4", "--trace", "/nonexistent/x")
        self.assertEqual(result.returncode, 5)
        self.assertIn("/nonexistent/x", result.stderr)

    def test_detail_needs_a_trace(self):
        result = quire("run", TINY, "-p", "abc", "-n", "1", "--trace-detail", "all")
        self.assertEqual(result.returncode, 2)

    def test_a_batchs_requests_are_known_by_their_custom_id(self):
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            lines = [{"custom_id": f"line-{i}", "method": "POST", "url": "/v1/completions",
                      "body": {"model": "m", "prompt": "abc", "max_tokens": 3}} for i in range(3)]
            source = directory / "requests.jsonl"
            source.write_text("".join(json.dumps(line) + "\n" for line in lines))
            result = quire("batch", TINY, source, "--trace", directory / "t")
            self.assertEqual(result.returncode, 0, result.stderr)
            result = quire("explain", "request", "line-2", "--trace", directory / "t")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("(line-2)", result.stdout)

    def test_a_file_that_is_no_trace_is_refused_and_kept(self):
        with tempfile.TemporaryDirectory() as name:
            model = pathlib.Path(name) / "model.gguf"
            model.write_bytes(TINY.read_bytes())
            result = quire("run", model, "--raw", "-p", "abc", "-n", "1", "--trace", model)
            self.assertEqual(result.returncode, 2)
            self.assertIn("is not a trace", result.stderr)
            self.assertEqual(model.read_bytes(), TINY.read_bytes())

    def test_a_start_that_fails_keeps_the_last_trace_and_explain_never_writes_over_it(self):
        with tempfile.TemporaryDirectory() as name:
            trace = pathlib.Path(name) / "t"
            words = ["--raw", "-p", "abc", "-n", "1", "--trace", trace]
            for _ in range(2):
                self.assertEqual(quire("run", TINY, *words).returncode, 0)
            text = trace.read_text()
            self.assertEqual(text.count('{"event":"run"'), 1)
            result = quire("run", pathlib.Path(name) / "missing.gguf", *words)
            self.assertNotEqual(result.returncode, 0)
            self.assertEqual(trace.read_text(), text)
            link = pathlib.Path(name) / "link"
            link.hardlink_to(trace)
            for command in (["trace", trace, "--chrome", link],
                            ["request", "1", "--trace", trace, "--html", link],
                            ["miss", "1", "--trace", trace, "--html", trace]):
                result = quire("explain", *command)
                self.assertEqual(result.returncode, 2, command)
                self.assertIn("would be lost", result.stderr)
                self.assertEqual(trace.read_text(), text)

    def test_what_never_ran_was_queued_all_its_life_and_missed_nothing(self):
        events = [
            {"event": "run", "version": 1},
            {"event": "request", "ms": 1, "request": 1, "prompt_tokens": 36},
            {"event": "request", "ms": 2, "request": 2, "is_pin": True, "prompt_tokens": 32},
            {"event": "request", "ms": 3, "request": 3, "prompt_tokens": 40},
            {"event": "end", "ms": 41, "request": 1, "reason": "abort", "prompt_tokens": 36,
             "miss": "none", "queue_ms": 40, "total_ms": 40},
            {"event": "end", "ms": 42, "request": 2, "is_pin": True, "reason": "stop",
             "prompt_tokens": 32, "miss": "never_seen", "miss_text": "nothing cached",
             "queue_ms": 1, "total_ms": 40},
            {"event": "end", "ms": 43, "request": 3, "reason": "stop", "prompt_computed": True,
             "prompt_tokens": 40, "completion_tokens": 2, "cached_memory": 16, "miss": "differs",
             "miss_position": 16, "miss_text": 'other text: "<|im_end|>\\n\u001b[2J"',
             "queue_ms": 1, "first_token_ms": 30, "decode_ms": 10, "total_ms": 40}]
        times = {"tier_wait_ms": 0, "first_token_ms": 0, "decode_ms": 0}
        with tempfile.TemporaryDirectory() as name:
            trace = pathlib.Path(name) / "t"
            trace.write_text("".join(
                json.dumps((times if event["event"] == "end" else {}) | event) + "\n"
                for event in events))

            def explained(subject, request):
                result = quire("explain", subject, request, "--trace", trace)
                self.assertEqual(result.returncode, 0, result.stderr)
                return result.stdout

            text = explained("miss", "1")
            self.assertIn("it ended before its prompt was computed", text)
            self.assertNotIn("found", text)
            text = explained("request", "1")
            self.assertIn("queued 40.000 ms", text)
            self.assertIn("no token came", text)
            self.assertNotIn("first token", text)
            self.assertIn("why not more, from token 0 on: nothing cached", explained("miss", "2"))
            self.assertNotIn("token after", explained("request", "2"))
            self.assertNotIn("no token", explained("request", "2"))
            # The text was made printable when it was told; what a file adds drives no terminal.
            self.assertIn('"<|im_end|>\\n\\u{1b}[2J"', explained("miss", "3"))
            self.assertIn("the first token after 30.000 ms", explained("request", "3"))
            rows = quire("explain", "trace", trace).stdout.splitlines()
            (row,) = [row.split() for row in rows if row.split()[:1] == ["1"]]
            self.assertEqual(row[1:4], ["40.0", "40.0", "-"])

    def test_what_is_no_trace_is_refused(self):
        result = quire("explain", "trace", TINY)
        self.assertEqual(result.returncode, 3)
        self.assertIn("line 1", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
