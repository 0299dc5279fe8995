"""`/metrics` of a real server, before and after what it counts; its memory over many requests.

    python3 metrics_serve_test.py PATH_TO_QUIRE PATH_TO_TESTS [unittest arguments]
"""

import http.client
import json
import pathlib
import re
import socket
import sys
import threading
import time
import unittest

QUIRE = sys.argv[1]
TESTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(TESTS / "support"))

from serve_process import ServeProcess  # noqa: E402

TINY = TESTS / "golden" / "models" / "tiny-llama.gguf"
BLOCK_BYTES = 2048  # of 16 tokens of the tiny model in f16
GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")


def prompt_of(length, first):
    return [3 + (first + 7 * i * i) % 200 for i in range(length)]


class MetricsTest(unittest.TestCase):
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(ServeProcess(QUIRE, TINY, *cls.FLAGS))

    def complete(self, prompt, max_tokens=5, **members):
        """(status, body) of one completion that is not cut short."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
        connection.request("POST", "/v1/completions", json.dumps(body | members),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response.status, answer

    def start_stream(self, prompt, max_tokens):
        """A socket whose answer has begun."""
        body = json.dumps({"prompt": prompt, "max_tokens": max_tokens, "temperature": 0,
                           "ignore_eos": True, "stream": True}).encode()
        stream = socket.create_connection(("127.0.0.1", self.server.port), timeout=60)
        stream.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                       b"Content-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.assertIn(b" 200 ", stream.recv(4096))
        return stream

    def wait_until_idle(self):
        deadline = time.monotonic() + 30
        while True:
            metrics = self.server.metrics()
            if all(metrics[name] == 0 for name in GAUGES):
                return metrics
            self.assertLess(time.monotonic(), deadline, {name: metrics[name] for name in GAUGES})
            time.sleep(0.02)

    def grown(self, before, after):
        return {name: after[name] - before.get(name, 0) for name in after
                if after[name] != before.get(name, 0)}


class CountTest(MetricsTest):
    def test_three_requests_add_their_prompts_and_answers(self):
        before = self.wait_until_idle()
        usages = []
        for i, length in enumerate((10, 20, 30)):
            status, answer = self.complete(prompt_of(length, i))
            self.assertEqual(status, 200, answer)
            usages.append(answer["usage"])
        grown = self.grown(before, self.wait_until_idle())
        self.assertEqual(grown["vllm:prompt_tokens_total"], 60)
        self.assertEqual(grown["vllm:generation_tokens_total"], 15)
        self.assertEqual(grown["vllm:prompt_tokens_total"], sum(u["prompt_tokens"] for u in usages))
        cached = sum(u["prompt_tokens_details"]["cached_tokens"] for u in usages)
        self.assertEqual(grown.get("vllm:prompt_tokens_cached_total", 0), cached)
        self.assertEqual(grown["vllm:prefix_cache_queries_total"], 60)
        self.assertEqual(grown["vllm:request_success_total"], 3)
        self.assertEqual(grown["vllm:time_to_first_token_seconds_count"], 3)
        self.assertEqual(grown["vllm:inter_token_latency_seconds_count"], 12)
        self.assertEqual(grown["vllm:e2e_request_latency_seconds_count"], 3)

    def test_a_second_request_finds_the_first_ones_prefix(self):
        prompt = prompt_of(64, 77)
        self.complete(prompt)
        before = self.wait_until_idle()
        _, answer = self.complete(prompt)
        grown = self.grown(before, self.wait_until_idle())
        cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertGreaterEqual(cached, 48)
        self.assertEqual(grown["vllm:prefix_cache_hits_total"], cached)
        self.assertEqual(grown["vllm:prompt_tokens_cached_total"], cached)
        by_source = [grown[name] for name in grown
                     if name.startswith("vllm:prompt_tokens_by_source_total{")]
        self.assertEqual(sorted(by_source), sorted([cached, 64 - cached]))

    def test_an_aborted_request_is_counted_as_far_as_it_came(self):
        before = self.wait_until_idle()
        stream = self.start_stream(prompt_of(20, 5), 150)
        stream.close()
        grown = self.grown(before, self.wait_until_idle())
        self.assertEqual(grown["vllm:prompt_tokens_total"], 20)
        self.assertLessEqual(grown["vllm:generation_tokens_total"], 150)
        self.assertEqual(grown["vllm:request_success_total"], 1)

    def test_a_refused_request_adds_no_token(self):
        before = self.wait_until_idle()
        status, _ = self.complete(prompt_of(5, 0), temperature=-1)
        self.assertEqual(status, 400)
        grown = self.grown(before, self.wait_until_idle())
        self.assertEqual(grown["quire_refused_requests_total"], 1)
        self.assertEqual([name for name in grown if "tokens" in name or "success" in name], [])

    def test_idle_changes_nothing(self):
        before = self.wait_until_idle()
        time.sleep(3)
        grown = self.grown(before, self.server.metrics())
        self.assertEqual([name for name in grown
                          if not name.startswith(("process_", "quire_http_"))], [])

    def test_scrapes_change_no_count(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        self.addCleanup(connection.close)
        before = self.wait_until_idle()
        spent = []
        for _ in range(21):
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            found = re.search(r"^process_cpu_seconds_total\{.*\} (\S+)$", text, re.MULTILINE)
            spent.append(float(found[1]))
            time.sleep(0.05)
        share = (spent[-1] - spent[0]) / (20 * 0.05)
        print(f"scrapes every 50 ms: {100 * share:.2f} % of a processor")
        grown = self.grown(before, self.wait_until_idle())
        self.assertEqual([name for name in grown
                          if not name.startswith(("process_", "quire_http_"))], [])


class PreemptionTest(MetricsTest):
    # Two answers of 100 tokens do not fit together.
    FLAGS = ("--kv-size", str(10 * BLOCK_BYTES), "--max-model-len", "128", "--parallel", "2")

    def test_a_preemption_is_counted_and_its_tokens_once(self):
        before = self.wait_until_idle()
        # On a busy machine one may have ended before the other begins: then another pair is sent.
        for num_pairs in range(1, 21):
            results = []
            threads = [threading.Thread(target=lambda i=i: results.append(
                self.complete(prompt_of(20, 7 * num_pairs + 50 * i), 90))) for i in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual([status for status, _ in results], [200, 200])
            grown = self.grown(before, self.wait_until_idle())
            if "vllm:num_preemptions_total" in grown:
                break
        self.assertGreater(grown["vllm:num_preemptions_total"], 0)
        self.assertEqual(grown["vllm:prompt_tokens_total"], 40 * num_pairs)
        self.assertEqual(grown["vllm:generation_tokens_total"], 180 * num_pairs)


class MemoryTest(MetricsTest):
    # A pool that is full after the warm-up, as the record of what was evicted is: what is cached,
    # and what was, has an index in memory too, with an upper limit.
    FLAGS = ("--kv-size", str(400 * BLOCK_BYTES), "--max-model-len", "256")
    REQUESTS = 6000
    WARM_UP = 3000

    def assert_flat(self, send):
        samples = []
        for i in range(self.REQUESTS):
            send(i)
            if i % 100 == 99:
                committed = self.wait_until_idle()["quire_kv_committed_bytes"]
                samples.append(self.server.status_bytes("RssAnon") +
                               self.server.status_bytes("VmSwap") - committed)
        settled = samples[self.WARM_UP // 100:]
        third = len(settled) // 3
        growth = min(settled[-third:]) - min(settled[:third])
        print(f"{self.REQUESTS} requests: {settled[0] / 1e6:.1f} MB, {growth / 1e3:+.0f} kB since")
        # 2,000 requests that lost 200 bytes each would be seen.
        self.assertLess(growth, 400_000)

    def test_different_prompts_leave_nothing_behind(self):
        self.assert_flat(lambda i: self.complete(prompt_of(30 + i % 50, 3 * i), 4))

    def test_aborted_requests_leave_nothing_behind(self):
        self.assert_flat(lambda i: self.start_stream(prompt_of(30 + i % 50, i), 100).close())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
