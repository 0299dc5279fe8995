"""`quire top` beside a real server of a tiny model: on a terminal, in a pipe, and without a server.

    python3 top_test.py PATH_TO_QUIRE PATH_TO_TESTS [unittest arguments]
"""

import contextlib
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest
import urllib.request

QUIRE = str(pathlib.Path(sys.argv[1]).resolve())
TESTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(TESTS / "support"))

from serve_process import ServeProcess, free_port  # noqa: E402
from terminal import Terminal  # noqa: E402

TINY = TESTS / "golden" / "models" / "tiny-llama.gguf"
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "QUIRE_API_KEY"}


def complete(server, length=40, max_tokens=8):
    body = {"prompt": [3 + i % 200 for i in range(length)], "max_tokens": max_tokens,
            "temperature": 0, "ignore_eos": True}
    request = urllib.request.Request(server.url + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def top(*arguments, environment=ENVIRONMENT):
    return subprocess.run([QUIRE, "top", *arguments], capture_output=True, text=True, timeout=60,
                          env=environment)


def screen_of(*arguments, **size):
    """`quire top` on a terminal of its own."""
    return Terminal([QUIRE, "top", *arguments], dict(ENVIRONMENT, TERM="xterm"), **size)


class ServerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(ServeProcess(QUIRE, TINY))

    def test_figures_equal_those_of_the_server(self):
        complete(self.server)
        complete(self.server)
        shown = json.loads(top(self.server.url, "--once", "--json", "--interval", "0.1").stdout)
        cache = json.loads(self.server.get("/quire/cache"))
        metrics = self.server.metrics()
        for state in ("total", "used", "cached", "free"):
            self.assertEqual(shown["kv"][state + "_blocks"], cache["blocks"][state], state)
        self.assertEqual(shown["kv"]["pinned_blocks"], cache["pinned"]["blocks"])
        total = shown["total"]
        self.assertEqual(total["output_tokens"], cache["tokens"]["generated"])
        self.assertEqual(total["prompt_tokens"], cache["tokens"]["prompt"])
        self.assertEqual(total["cached_tokens"], cache["tokens"]["cached"])
        self.assertEqual(total["steps"], metrics["quire_steps_total"])
        self.assertEqual(total["requests_ended"], metrics["vllm:request_success_total"])
        self.assertEqual(total["ttft_ms"]["count"],
                         metrics["vllm:time_to_first_token_seconds_count"])
        self.assertAlmostEqual(total["itl_ms"]["mean"],
                               1000 * metrics["vllm:inter_token_latency_seconds_sum"]
                               / metrics["vllm:inter_token_latency_seconds_count"])
        self.assertEqual(shown["requests"], {"running": 0, "waiting": 0})
        self.assertEqual(shown["model"], self.server.model)
        self.assertEqual(shown["interval"]["output_tokens"], 0)
        self.assertGreaterEqual(shown["interval"]["seconds"], 0.1)

    def test_rates_are_of_the_interval(self):
        watched = subprocess.Popen([QUIRE, "top", self.server.url, "--json", "--interval", "1"],
                                   stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        self.addCleanup(watched.stdout.close)
        first = json.loads(watched.stdout.readline())
        self.assertIsNone(first["interval"])
        complete(self.server, max_tokens=8)
        told = [json.loads(watched.stdout.readline())["interval"] for _ in range(3)]
        watched.send_signal(signal.SIGINT)
        self.assertEqual(watched.wait(10), 0)
        # The answer is in one of them, or parted by a look between two.
        self.assertEqual(sum(interval["output_tokens"] for interval in told), 8)
        self.assertEqual(sum(interval["prompt_tokens"] for interval in told), 40)
        for interval in told:
            self.assertAlmostEqual(interval["output_tokens_per_second"],
                                   interval["output_tokens"] / interval["seconds"])

    def test_a_pipe_gets_plain_text(self):
        result = top(self.server.url, "--once", "--interval", "0.1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("\x1b", result.stdout)
        for words in ("requests: 0 running, 0 waiting", "output tokens", "prefix hit rate", "TTFT",
                      "ITL", "# used", "= cached", ". free", "preemptions", "drafts accepted"):
            self.assertIn(words, result.stdout)

    def test_a_screen_is_drawn_in_place_and_left_with_q(self):
        screen = screen_of(self.server.url, "--interval", "0.2")
        screen.wait_for(re.escape(ENTER))
        screen.wait_for("requests: ")
        screen.wait_for("q ends")
        screen.wait_for(r"\x1b\[H")  # drawn again, from the first line
        screen.wait_for("last 0.")
        screen.send("q")
        rest, status = screen.end()
        self.assertIn(LEAVE, rest)
        self.assertTrue(rest.endswith(LEAVE), rest[-40:])
        self.assertEqual(status, 0)

    def test_control_c_ends_it_and_restores_the_terminal(self):
        screen = screen_of(self.server.url, "--interval", "60")
        before = termios.tcgetattr(screen.fd)
        screen.wait_for("q ends")
        self.assertFalse(termios.tcgetattr(screen.fd)[3] & termios.ECHO)
        screen.send("\x03")
        screen.wait_for(re.escape(LEAVE))
        deadline = time.monotonic() + 10
        while termios.tcgetattr(screen.fd)[3] != before[3] and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(termios.tcgetattr(screen.fd)[3], before[3])
        self.assertEqual(screen.end()[1], 0)

    def test_a_signal_restores_the_terminal_too(self):
        for ending in (signal.SIGTERM, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS):
            screen = screen_of(self.server.url, "--interval", "60")
            screen.wait_for("q ends")
            os.kill(screen.pid, ending)
            rest, status = screen.end()
            self.assertIn(LEAVE, rest, ending)
            self.assertEqual(status, -ending)

    def test_a_resize_draws_at_once_and_never_beyond_the_screen(self):
        screen = screen_of(self.server.url, "--interval", "60")
        screen.wait_for("q ends")
        screen.resize(5, 30)
        screen.wait_for(r"\x1b\[H")
        frame = screen.wait_for(r"\x1b\[J")
        lines = re.split(r"\r+\n", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frame))
        self.assertEqual(len(lines), 5)
        self.assertLessEqual(max(map(len, lines)), 30)
        screen.send("q")
        self.assertEqual(screen.end()[1], 0)


@contextlib.contextmanager
def server_at(port):
    process = subprocess.Popen([QUIRE, "serve", str(TINY), "--port", str(port)],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout.readline().startswith("quire: serving")
        yield
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


class GoneTest(unittest.TestCase):
    def test_a_server_that_goes_is_told_and_one_that_returns_is_shown(self):
        port = free_port()
        with server_at(port):
            screen = screen_of(f"127.0.0.1:{port}", "--interval", "0.2")
            screen.wait_for("requests: ")
        screen.wait_for("NO ANSWER")
        screen.wait_for("the figures are older")
        with server_at(port):
            screen.wait_for(r"q ends\r+\n\x1b\[2Krequests: ")
            screen.send("q")
            self.assertEqual(screen.end()[1], 0)

    def test_without_a_server_it_goes_on_asking(self):
        address = f"http://127.0.0.1:{free_port()}"
        screen = screen_of(address, "--interval", "0.2")
        screen.wait_for("NO ANSWER")
        screen.wait_for("NO ANSWER")
        screen.send("q")
        self.assertEqual(screen.end()[1], 0)

    def test_once_without_a_server_is_an_error(self):
        result = top(f"127.0.0.1:{free_port()}", "--once")
        self.assertEqual(result.returncode, 5)
        self.assertIn("127.0.0.1", result.stderr)
        self.assertEqual(result.stdout, "")


class KeyTest(unittest.TestCase):
    def test_a_server_with_keys_wants_an_admins(self):
        with ServeProcess(QUIRE, TINY, "--api-key", "secret-admin-key",
                          key="secret-admin-key") as server:
            refused = top(server.url, "--once")
            self.assertEqual(refused.returncode, 2)
            self.assertIn("--api-key", refused.stderr)
            wrong = top(server.url, "--api-key", "some-other-key")
            self.assertEqual(wrong.returncode, 2)
            self.assertNotIn("some-other-key", wrong.stderr)
            for extra, environment in ((["--api-key", "secret-admin-key"], ENVIRONMENT),
                                       ([], dict(ENVIRONMENT, QUIRE_API_KEY="secret-admin-key"))):
                result = top(server.url, "--once", "--interval", "0.1", *extra,
                             environment=environment)
                self.assertEqual(result.returncode, 0, result.stderr)


@unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
class SecureTest(unittest.TestCase):
    def test_a_certificate_has_to_be_trusted(self):
        with tempfile.TemporaryDirectory() as folder:
            key, certificate = f"{folder}/key.pem", f"{folder}/certificate.pem"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                            "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                            "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
                            "-out", certificate], check=True, capture_output=True)
            with ServeProcess(QUIRE, TINY, "--ssl-cert-file", certificate, "--ssl-key-file",
                              key) as server:
                self.assertTrue(server.url.startswith("https://"), server.url)
                refused = top(server.url, "--once")
                self.assertEqual(refused.returncode, 3, refused.stderr)
                self.assertIn("certificate", refused.stderr)
                result = top(server.url, "--once", "--interval", "0.1", "--cacert", certificate)
                self.assertEqual(result.returncode, 0, result.stderr)


class StrangerTest(unittest.TestCase):
    """A server that is none of ours."""

    def serve(self, status, body, location=None):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.server.seen.append((self.path, self.headers.get("Authorization")))
                self.send_response(status)
                if location:
                    self.send_header("Location", location)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.seen = []
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server, f"http://127.0.0.1:{server.server_port}"

    def test_is_told_from_a_quire_server(self):
        for status, body, code, words in (
                (404, b"not here", 3, "is it a Quire server?"),
                (200, b"<html>\x1b[2J</html>", 3, "not JSON"),
                (200, b"[" * 100_000, 3, "not JSON"),
                (200, b"x" * (9 << 20), 3, "no Quire server's")):
            with self.subTest(status=status, words=words):
                result = top(self.serve(status, body)[1], "--once")
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn(words, result.stderr)
                self.assertNotIn("\x1b", result.stderr)

    def test_a_redirect_is_not_followed_and_no_key_leaves(self):
        other, address = self.serve(200, b"{}")
        _, first = self.serve(302, b"", location=address + "/quire/cache")
        result = top(first, "--once", "--api-key", "secret-admin-key")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("302", result.stderr)
        self.assertEqual(other.seen, [])


class FlagTest(unittest.TestCase):
    def test_a_bad_value_is_refused(self):
        for arguments in (["ftp://x"], ["--interval", "0"], ["--interval", "x"], ["--interval", "nan"],
                          ["http://user:pw@host"]):
            self.assertEqual(top(*arguments).returncode, 2, arguments)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
