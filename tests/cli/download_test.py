"""`quire pull` from web servers that behave, break off, redirect and lie.

usage: download_test.py QUIRE TESTS_DIR
"""

import hashlib
import http.server
import os
import signal
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

QUIRE, TESTS_DIR = sys.argv[1], sys.argv[2]
MODELS = os.path.join(TESTS_DIR, "golden", "models")
MODEL = next(os.path.join(MODELS, name) for name in sorted(os.listdir(MODELS))
             if name.startswith("tiny-") and name.endswith(".gguf"))
with open(MODEL, "rb") as model_file:
    CONTENT = model_file.read()
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server:
    """A web server whose answers a test scripts: `answer(handler, path, start)`."""

    def __init__(self, answer):
        self.requests = []  # (path, headers)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.requests.append((self.path, dict(self.headers)))
                answer(self)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        # A client that goes away is what some tests are about.
        self.server.handle_error = lambda *args: None
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def send(handler, status, body=b"", headers=(), length=None):
    handler.send_response(status)
    for name, value in headers:
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    handler.end_headers()
    handler.wfile.write(body)


def serve_content(handler, content=CONTENT, etag='"v1"', headers=(), break_after=None):
    """As a good server does: ranges, If-Range. break_after: closes after so many bytes."""
    start = 0
    wanted = handler.headers.get("Range")
    if wanted and handler.headers.get("If-Range") == etag:
        start = int(wanted.removeprefix("bytes=").rstrip("-"))
    body = content[start:]
    extra = [("ETag", etag), *headers]
    if start:
        extra.append(("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}"))
    if break_after is not None and break_after < len(body):
        send(handler, 206 if start else 200, body[:break_after], extra, len(body))
        handler.close_connection = True
    else:
        send(handler, 206 if start else 200, body, extra)


class PullTest(unittest.TestCase):
    def setUp(self):
        self.cache = tempfile.mkdtemp()
        self.servers = []

    def tearDown(self):
        for server in self.servers:
            server.close()
        shutil.rmtree(self.cache)

    def serve(self, answer):
        self.servers.append(Server(answer))
        return self.servers[-1]

    def environment(self, **extra):
        kept = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        return {**kept, "QUIRE_CACHE": self.cache, **extra}

    def pull(self, address, *flags, **extra):
        return subprocess.run([QUIRE, "pull", address, *flags], env=self.environment(**extra),
                              capture_output=True, text=True, timeout=120)

    def assert_pulled(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        path = result.stdout.strip()
        with open(path, "rb") as pulled:
            self.assertEqual(pulled.read(), CONTENT)
        self.assertEqual([name for name in os.listdir(os.path.dirname(path))
                          if ".part" in name or name.endswith(".lock")], [])
        return path

    def assert_refused(self, result, code, *words):
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        for folder, _, files in os.walk(self.cache):
            self.assertEqual([name for name in files if name.endswith(".gguf")], [], folder)

    def test_a_hub_file_comes_with_token_and_digest_and_is_found_again(self):
        linked = [("X-Linked-Etag", f'"{SHA256}"')]
        server = self.serve(lambda h: serve_content(h, headers=linked))
        address = "hf:owner/repo@v2/sub/tiny.gguf"
        extra = {"HF_ENDPOINT": server.url + "/", "HF_TOKEN": "hf_secret"}
        path = self.assert_pulled(self.pull(address, **extra))
        self.assertTrue(path.endswith("models/hf/owner/repo/@v2/sub/tiny.gguf"), path)
        self.assertEqual(server.requests[0][0], "/owner/repo/resolve/v2/sub/tiny.gguf")
        self.assertEqual(server.requests[0][1]["Authorization"], "Bearer hf_secret")
        self.assert_pulled(self.pull(address, **extra))
        self.assertEqual(len(server.requests), 1)
        shown = subprocess.run([QUIRE, "inspect", address], env=self.environment(**extra),
                               capture_output=True, text=True, timeout=60)
        self.assertEqual(shown.returncode, 0, shown.stderr)

    def test_a_redirect_is_followed_and_the_token_stays_behind(self):
        store = self.serve(serve_content)
        # Another host as names go, though the same machine.
        target = store.url.replace("127.0.0.1", "localhost") + "/blob"
        hub = self.serve(lambda h: send(h, 302, b"moved", [("Location", target)]))
        self.assert_pulled(self.pull("hf:o/r/f.gguf", HF_ENDPOINT=hub.url, HF_TOKEN="hf_secret"))
        self.assertNotIn("Authorization", store.requests[0][1])

    def test_a_redirect_without_end_is_refused(self):
        server = self.serve(lambda h: send(h, 302, b"", [("Location", h.path)]))
        self.assert_refused(self.pull(server.url + "/a.gguf"), 3, "redirects")

    def test_a_connection_that_breaks_off_goes_on_where_it_stopped(self):
        server = self.serve(lambda h: serve_content(h, break_after=len(CONTENT) // 3 + 1))
        self.assert_pulled(self.pull(server.url + "/a.gguf"))
        self.assertGreaterEqual(len(server.requests), 3)
        self.assertIn("Range", server.requests[1][1])

    def test_ctrl_c_keeps_what_came(self):
        def slowly(handler):
            send(handler, 200, CONTENT[:1000], [("ETag", '"v1"')], len(CONTENT))
            handler.wfile.flush()
            time.sleep(20)

        server = self.serve(slowly)
        address = server.url + "/a.gguf"
        process = subprocess.Popen([QUIRE, "pull", address], env=self.environment(),
                                   stderr=subprocess.PIPE, text=True)
        part = os.path.join(self.cache, "models", "web", server.url[7:], "a.gguf.part")
        deadline = time.time() + 20
        while not (os.path.exists(part) and os.path.getsize(part) == 1000):
            self.assertLess(time.time(), deadline)
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130, told)
        self.assertIn("goes on where it stopped", told)
        self.assertEqual(os.path.getsize(part), 1000)

    def test_content_that_changed_meanwhile_comes_anew(self):
        versions = iter(['"old"', '"new"', '"new"', '"new"'])
        old = bytes(CONTENT[:4]) + bytes(len(CONTENT) - 4)

        def answer(handler):
            etag = next(versions)
            content = old if etag == '"old"' else CONTENT
            serve_content(handler, content, etag, break_after=5000 if etag == '"old"' else None)

        self.assert_pulled(self.pull(self.serve(answer).url + "/a.gguf", "--sha256", SHA256))

    def test_a_range_that_is_not_the_one_asked_for_is_not_believed(self):
        calls = []

        def answer(handler):
            calls.append(1)
            if len(calls) == 1:
                serve_content(handler, break_after=5000)
            elif len(calls) == 2:
                send(handler, 206, CONTENT[9000:], [
                    ("ETag", '"v1"'),
                    ("Content-Range", f"bytes 9000-{len(CONTENT) - 1}/{len(CONTENT)}")])
            else:
                serve_content(handler)

        self.assert_pulled(self.pull(self.serve(answer).url + "/a.gguf"))
        self.assertEqual(len(calls), 3)

    def test_other_bytes_than_promised_are_deleted(self):
        damaged = bytearray(CONTENT)
        damaged[len(damaged) // 2] ^= 1
        linked = [("X-Linked-Etag", f'"{SHA256}"')]
        server = self.serve(lambda h: serve_content(h, bytes(damaged), headers=linked))
        self.assert_refused(self.pull("hf:o/r/f.gguf", HF_ENDPOINT=server.url), 3, SHA256)

    def test_a_digest_that_is_asked_for_must_fit(self):
        server = self.serve(serve_content)
        self.assert_refused(self.pull(server.url + "/a.gguf", "--sha256", "0" * 64), 3, "0" * 64,
                            SHA256)
        self.assert_refused(self.pull(server.url + "/a.gguf", "--sha256", "xyz"), 2, "64")

    def test_a_page_in_place_of_a_model_is_named(self):
        server = self.serve(lambda h: send(h, 200, b"<!DOCTYPE html><p>Log in"))
        self.assert_refused(self.pull(server.url + "/a.gguf"), 3, "not a GGUF file", "<!DOCTYPE")

    def test_a_file_cut_short_by_a_server_that_tells_no_length_is_no_model(self):
        def answer(handler):
            handler.send_response(200)
            handler.send_header("Connection", "close")
            handler.end_headers()
            handler.wfile.write(CONTENT[:len(CONTENT) // 2])
            handler.close_connection = True

        self.assert_refused(self.pull(self.serve(answer).url + "/a.gguf"), 3, "deleted")

    def test_compressed_bytes_are_not_the_file(self):
        server = self.serve(lambda h: serve_content(h, headers=[("Content-Encoding", "gzip")]))
        self.assert_refused(self.pull(server.url + "/a.gguf"), 3, "compressed")

    def test_refusals_say_what_to_do(self):
        for status, code, words in [(401, 5, ["HF_TOKEN"]), (403, 5, ["HF_TOKEN"]),
                                    (404, 3, ["check the name"]), (410, 3, ["check the name"])]:
            server = self.serve(lambda h, status=status: send(h, status, b"no"))
            result = self.pull("hf:o/r/f.gguf", HF_ENDPOINT=server.url)
            self.assert_refused(result, code, str(status), *words)
            self.assertEqual(len(server.requests), 1)

    def test_a_server_that_is_busy_is_asked_again(self):
        calls = []

        def answer(handler):
            calls.append(1)
            if len(calls) == 1:
                send(handler, 503, b"busy", [("Retry-After", "1")])
            else:
                serve_content(handler)

        self.assert_pulled(self.pull(self.serve(answer).url + "/a.gguf"))

    def test_a_server_that_is_not_there(self):
        server = self.serve(serve_content)
        server.server.socket.close()
        started = time.time()
        result = self.pull(server.url + "/a.gguf")
        self.assert_refused(result, 5, "a.gguf")
        self.assertLess(time.time() - started, 60)

    def test_addresses_that_are_none(self):
        for address in ["hf:", "hf:owner", "hf:owner/repo", "hf:owner/repo/../../x.gguf",
                        "hf:owner//x.gguf", "hf:o/r/readme.md", "http://", "http://host",
                        "http://host/../x.gguf", "http://host/a b.gguf", "https:///x.gguf",
                        "hf:o/r/x-00003-of-00002.gguf", "hf:o/r/x-00001-of-99999.gguf"]:
            self.assert_refused(self.pull(address), 2, "expected")

    def test_all_files_of_a_split_come(self):
        # Not parts of one set, so that the set as a whole is told to be none.
        server = self.serve(serve_content)
        result = self.pull("hf:o/r/m-00002-of-00003.gguf", HF_ENDPOINT=server.url)
        self.assertEqual([path for path, _ in server.requests],
                         [f"/o/r/resolve/main/m-0000{n}-of-00003.gguf" for n in (1, 2, 3)])
        self.assert_refused(result, 3, "deleted")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
