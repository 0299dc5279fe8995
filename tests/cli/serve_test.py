"""`quire serve` as sockets and signals meet it: hostile bytes, HTTP's corners, start and end.

    python3 serve_test.py PATH_TO_QUIRE PATH_TO_TESTS [unittest arguments]
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import selectors
import signal
import socket
import shutil
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

QUIRE = sys.argv[1]
TESTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(TESTS / "support"))

import serve_process  # noqa: E402
from serve_process import ServeProcess  # noqa: E402

TINY = TESTS / "golden" / "models" / "tiny-llama.gguf"
BLOCK_BYTES = 2048  # of 16 tokens of the tiny model in f16
SMOLLM2 = "smollm2-135m-instruct"


def completion(**members):
    return json.dumps({"prompt": [1, 2, 3], "max_tokens": 4, "temperature": 0, "ignore_eos": True}
                      | members).encode()


def request_bytes(body, path="/v1/completions", method="POST", version="HTTP/1.1", headers=()):
    lines = [f"{method} {path} {version}", "Host: localhost"]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    head = "\r\n".join([*lines, *headers]) + "\r\n\r\n"
    return head.encode() + (body or b"")


class Wire:
    """A connection as bytes."""

    def __init__(self, port, timeout=20):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.file.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)
        return self

    def head(self):
        """Status and headers of the next answer; None at the connection's end."""
        line = self.file.readline()
        if not line:
            return None
        headers = {}
        while (text := self.file.readline()) not in (b"\r\n", b""):
            name, _, value = text.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        return int(line.split()[1]), headers

    def answer(self, method="POST"):
        """(status, headers, body) of the next answer, by its framing."""
        found = self.head()
        if found is None:
            return None
        status, headers = found
        if method == "HEAD" or status == 204:
            return status, headers, b""
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(self.file.readline(), 16):
                body += self.file.read(size)
                self.file.readline()
            self.file.readline()
        elif "content-length" in headers:
            body = self.file.read(int(headers["content-length"]))
        else:
            body = self.file.read()
        return status, headers, body

    def ask(self, body, **options):
        return self.send(request_bytes(body, **options)).answer()


def ask(server, body, path="/v1/completions", method="POST", headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, path, body, headers or {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read()
    finally:
        connection.close()


class RunningStream:
    """A stream that others must not harm: read to its end in the background."""

    def __init__(self, server, max_tokens):
        self.wire = Wire(server.port, timeout=120)
        self.wire.send(request_bytes(completion(stream=True, max_tokens=max_tokens)))
        self.result = None
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self):
        self.result = self.wire.answer()
        self.wire.__exit__()

    def events(self):
        self.thread.join(120)
        assert self.result is not None and self.result[0] == 200, self.result
        return [line[6:] for line in self.result[2].decode().split("\n\n") if line]


class ServeCase(unittest.TestCase):
    def start(self, *flags, model=TINY, **options):
        server = ServeProcess(QUIRE, model, *flags, **options)
        self.addCleanup(server.close)
        return server

    def refuses(self, *arguments, code, environment=None):
        """A start that must fail; what it says, and after how long."""
        start = time.monotonic()
        result = subprocess.run([QUIRE, "serve", *map(str, arguments)], capture_output=True,
                                text=True, timeout=60, env=dict(os.environ, **(environment or {})))
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stdout, "")
        return result.stderr, time.monotonic() - start

    def scratch(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name)


def expect_error(case, answer, statuses, what):
    """A 4xx in OpenAI's form."""
    case.assertIsNotNone(answer, what)
    status, _, body = answer
    case.assertIn(status, statuses, f"{what}: {body[:300]}")
    error = json.loads(body)["error"]
    case.assertEqual(set(error), {"message", "type", "param", "code"}, what)
    case.assertTrue(error["message"], what)
    return error


class HostileTest(ServeCase):
    """What is no request is refused within the limits, and a running stream goes on."""

    @classmethod
    def setUpClass(cls):
        cls.server = ServeProcess(QUIRE, TINY, "--header-timeout", "1", "--idle-timeout", "2",
                                  "--max-body", "12MiB")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.server.close()

    def setUp(self):
        self.stream = RunningStream(self.server, max_tokens=1000)

    def tearDown(self):
        events = self.stream.events()
        self.assertEqual(events[-1], "[DONE]")
        self.assertIn('"finish_reason":"length"', events[-2].replace(" ", ""))
        self.assertIsNone(self.server.process.poll(), self.server.log())

    def test_bodies_that_are_no_json(self):
        bodies = [b"", b"{", b"[]", b"7", b'"text"', b"null", b"{'prompt': 1}", b'{"prompt": "x"',
                  b'{"prompt": "x"} trailing', b'{"prompt": NaN}', b'{"prompt": 1e999}', b"\xff\xfe",
                  b"\x00" * 100, b'{"prompt": "\\ud800"', b'{"a":' * 50_000, b"[" * 1_000_000]
        for body in bodies:
            for path in ("/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize"):
                with self.subTest(body=body[:20], path=path):
                    expect_error(self, ask(self.server, body, path), {400}, body[:40])

    def test_fields_of_wrong_types_and_sizes(self):
        deep = "x"
        for _ in range(60):
            deep = [deep]
        members = [
            {"prompt": None}, {"prompt": {}}, {"prompt": []}, {"prompt": [[]]}, {"prompt": [-1]},
            {"prompt": [300]}, {"prompt": [1.5]}, {"prompt": [2**70]}, {"prompt": [1, "x"]},
            {"prompt": deep}, {"prompt": [1] * 5000}, {"max_tokens": -1}, {"max_tokens": "7"},
            {"max_tokens": 1e300}, {"temperature": -1}, {"temperature": "nan"},
            {"temperature": [1]}, {"n": 10**9}, {"n": -1}, {"top_p": -0.1}, {"logprobs": 10**6},
            {"stop": ["s"] * 10_000}, {"stop": {"a": 1}}, {"logit_bias": {"-1": 1}},
            {"logit_bias": {"1": 1e9}}, {"seed": 2**80}, {"stream": 1}, {"best_of": 10**6},
            {"model": 7}, {"stop_token_ids": [2**40]}, {"min_tokens": 10**9}, {"echo": "yes"},
            {"cache_salt": []}, {"prompt_logprobs": -5}]
        for member in members:
            with self.subTest(member=str(member)[:60]):
                expect_error(self, ask(self.server, completion(**member)), {400}, member)

    def test_text_of_all_kinds_is_text(self):
        for text in ("\\ud800", "\\udc00\\ud800", "\\u0000", "\\u0000" * 10, "\\uffff", "\\ufffe"):
            with self.subTest(text=text):
                body = b'{"max_tokens": 2, "prompt": "a' + text.encode() + b'b"}'
                status, _, reply = ask(self.server, body)
                self.assertIn(status, (200, 400), reply)
                json.loads(reply)

    def test_a_prompt_of_10_megabytes_is_too_long(self):
        body = json.dumps({"prompt": "word " * 2_000_000}).encode()
        error = expect_error(self, ask(self.server, body), {400}, "10 MB")
        self.assertEqual(error["code"], "context_length_exceeded")

    def test_a_body_beyond_the_limit_is_refused_before_it_is_sent(self):
        with Wire(self.server.port) as wire:
            wire.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n"
                      b"\r\n")
            expect_error(self, wire.answer(), {413}, "length")

    def test_a_chunked_body_beyond_the_limit_is_refused(self):
        with Wire(self.server.port) as wire:
            wire.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                      b"\r\n")
            chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
            with contextlib.suppress(ConnectionError):
                for _ in range(14):
                    wire.send(chunk)
            with contextlib.suppress(ConnectionError):
                expect_error(self, wire.answer(), {413}, "chunks")

    def test_heads_that_are_none(self):
        heads = [b"\r\n\r\n\r\n\r\nGARBAGE\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                 b"GET / HTTP/1.1\r\nHost: x\r\nNo colon here\r\n\r\n", b"\x16\x03\x01\x02\x00" * 9,
                 b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
                 b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
                 b"Content-Length: 2\r\n\r\nab",
                 b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
                 b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                 b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                 b"zz\r\n\r\n",
                 b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
                 b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n"]
        for head in heads:
            with self.subTest(head=head[:60]), Wire(self.server.port) as wire:
                try:
                    wire.send(head)
                    found = wire.head()
                except ConnectionError:
                    continue  # closed while we wrote
                self.assertTrue(found is None or 400 <= found[0] < 600, found)
                if found is not None:
                    self.assertIn(found[0], (400, 413, 414, 431, 505), found)

    def test_slow_writers_of_heads_are_told_and_closed(self):
        start = time.monotonic()
        wires = [Wire(self.server.port) for _ in range(50)]
        with contextlib.ExitStack() as stack:
            for wire in wires:
                stack.enter_context(wire)
                wire.send(b"POST /v1/completions HTTP/1.1\r\nHost: ")
            # Others are served meanwhile.
            self.assertEqual(ask(self.server, completion())[0], 200)
            for wire in wires:
                found = wire.head()
                self.assertTrue(found is None or found[0] == 408, found)
        self.assertLess(time.monotonic() - start, 10)

    def test_silent_connections_are_closed(self):
        with Wire(self.server.port, timeout=10) as wire:
            self.assertEqual(wire.socket.recv(1), b"")


class HttpTest(ServeCase):
    """HTTP's corners, by raw sockets."""

    @classmethod
    def setUpClass(cls):
        cls.server = ServeProcess(QUIRE, TINY, "--cors", "https://app.example,https://b.example")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.server.close()

    def text_of(self, answer):
        self.assertEqual(answer[0], 200, answer)
        return json.loads(answer[2])["choices"][0]["text"]

    def test_every_content_type_is_read_as_json(self):
        body = completion()
        texts = set()
        for line in ("X-None: 1", "Content-Type: text/plain",
                     "Content-Type: application/json; charset=utf-8"):
            data = (f"POST /v1/completions HTTP/1.1\r\nHost: x\r\n{line}\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n").encode() + body
            with Wire(self.server.port) as wire:
                texts.add(self.text_of(wire.send(data).answer()))
        self.assertEqual(len(texts), 1)

    def test_expect_is_answered_before_the_body_comes(self):
        body = completion()
        with Wire(self.server.port, timeout=5) as wire:
            wire.send((f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
                       "Expect: 100-continue\r\n\r\n").encode())
            self.assertEqual(wire.head()[0], 100)
            self.text_of(wire.send(body).answer())

    def test_expect_with_the_body_at_once_is_answered_too(self):
        body = completion()
        with Wire(self.server.port, timeout=5) as wire:
            wire.send(request_bytes(body, headers=["Expect: 100-continue"]))
            answer = wire.answer()
            self.text_of(wire.answer() if answer[0] == 100 else answer)

    def test_another_expectation_is_refused(self):
        with Wire(self.server.port) as wire:
            self.assertEqual(wire.ask(completion(), headers=["Expect: miracles"])[0], 417)

    def test_http_1_0_is_answered_and_closed(self):
        with Wire(self.server.port) as wire:
            self.text_of(wire.ask(completion(), version="HTTP/1.0"))
            self.assertEqual(wire.socket.recv(1), b"")

    def test_a_stream_to_http_1_0_ends_with_the_connection(self):
        with Wire(self.server.port) as wire:
            status, headers, body = wire.ask(completion(stream=True), version="HTTP/1.0")
        self.assertEqual(status, 200)
        self.assertNotIn("transfer-encoding", headers)
        self.assertTrue(body.endswith(b"data: [DONE]\n\n"))

    def test_head_is_get_without_a_body(self):
        with Wire(self.server.port) as wire:
            wire.send(request_bytes(None, "/v1/models", "HEAD"))
            status, headers, _ = wire.answer("HEAD")
            self.assertEqual(status, 200)
            # Nothing of a body stands in the way of the next answer.
            wire.send(request_bytes(None, "/v1/models", "GET"))
            following = wire.answer()
            self.assertEqual(following[0], 200)
            self.assertEqual(int(headers["content-length"]), len(following[2]))

    def test_options_tell_a_page_what_it_may(self):
        with Wire(self.server.port) as wire:
            wire.send(request_bytes(None, "/v1/chat/completions", "OPTIONS", headers=[
                "Origin: https://app.example", "Access-Control-Request-Method: POST"]))
            status, headers, _ = wire.answer()
            self.assertIn(status, (200, 204))
            self.assertEqual(headers["access-control-allow-origin"], "https://app.example")
            wire.send(request_bytes(None, "/v1/models", "GET", headers=["Origin: https://evil"]))
            self.assertNotIn("access-control-allow-origin", wire.answer()[1])

    def test_a_trailing_slash_is_passed_over_or_hinted_at(self):
        status, _, body = ask(self.server, None, "/v1/models/", "GET")
        self.assertTrue(status == 200 or "/v1/models" in json.loads(body)["error"]["message"])

    def test_pipelined_requests_are_answered_in_order(self):
        with Wire(self.server.port) as wire:
            wire.send(b"".join(request_bytes(completion(max_tokens=count)) for count in (9, 1, 5)))
            counts = [json.loads(wire.answer()[2])["usage"]["completion_tokens"] for _ in range(3)]
        self.assertEqual(counts, [9, 1, 5])

    def test_a_request_behind_a_stream_waits_for_its_end(self):
        with Wire(self.server.port) as wire:
            wire.send(request_bytes(completion(stream=True, max_tokens=50)) +
                      request_bytes(completion(max_tokens=2)))
            self.assertTrue(wire.answer()[2].endswith(b"data: [DONE]\n\n"))
            self.assertEqual(json.loads(wire.answer()[2])["usage"]["completion_tokens"], 2)

    def test_a_chunked_body_is_a_body(self):
        body = completion()
        chunks = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(part), part)
                          for part in (body[:7], body[7:8], body[8:]))
        with Wire(self.server.port) as wire:
            wire.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                      b"\r\n" + chunks + b"0\r\nTrailer: x\r\n\r\n")
            self.text_of(wire.answer())
            self.text_of(wire.ask(body))

    def test_a_body_byte_by_byte_is_a_body(self):
        with Wire(self.server.port) as wire:
            wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in request_bytes(completion()):
                wire.send(bytes([byte]))
            self.text_of(wire.answer())

    def test_a_connection_goes_on_after_a_refusal(self):
        with Wire(self.server.port) as wire:
            for body in (b"{", completion(temperature=9), completion(prompt=[])):
                self.assertEqual(wire.ask(body)[0], 400)
                self.text_of(wire.ask(completion()))

    def test_connection_close_is_heeded(self):
        with Wire(self.server.port) as wire:
            self.text_of(wire.ask(completion(), headers=["Connection: close"]))
            self.assertEqual(wire.socket.recv(1), b"")

    def test_what_there_is_not_is_told_in_the_apis_form(self):
        for method, path, status in (("GET", "/nothing", 404), ("POST", "/v1/responses", 404),
                                     ("GET", "/v1/completions", 405), ("DELETE", "/v1/models", 405),
                                     ("GET", "/../../etc/passwd", 404), ("BREW", "/v1/models", 405),
                                     ("GET", "/v1/models/%00", 404)):
            with self.subTest(path=path, method=method):
                expect_error(self, ask(self.server, None, path, method), {status, 501, 400}, path)

    def test_a_stream_is_framed_as_events(self):
        with Wire(self.server.port) as wire:
            status, headers, body = wire.ask(completion(stream=True))
        self.assertEqual((status, headers["transfer-encoding"]), (200, "chunked"))
        self.assertTrue(headers["content-type"].startswith("text/event-stream"))
        for event in body.decode().split("\n\n")[:-1]:
            self.assertRegex(event, r"^data: (\{.*\}|\[DONE\])$")


def with_template(folder, source):
    """The tiny model with a chat template; it has none of its own."""
    data = TINY.read_bytes()
    key, text = b"tokenizer.chat_template", source.encode()
    # A comment fills the entry up, so that what follows stays aligned.
    text += b"{#" + b" " * (-(24 + len(key) + len(text)) % 32) + b"#}"
    entry = struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(text)) + text
    path = folder / "templated.gguf"
    path.write_bytes(data[:16] + struct.pack("<Q", struct.unpack_from("<Q", data, 16)[0] + 1) +
                     entry + data[24:])
    return path


class TemplateTest(ServeCase):
    """What a request's messages become, and what a template's faults are to a client."""

    SOURCE = ("{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}"
              "{% endif %}{{ strftime_now('%Y-%m-%d') }}|"
              "{{ date_string if date_string is defined else 'none' }}|"
              "{{ tools | tojson if tools else '' }}|"
              "{% for m in messages %}{{ m.content }};{% for c in m.tool_calls %}"
              "{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}")
    USER = {"role": "user", "content": "hi"}

    def chat(self, server, *messages, path="/v1/chat/completions", **members):
        body = json.dumps({"messages": messages, "max_tokens": 2} | members).encode()
        return ask(server, body, path)

    def rendered(self, server, *messages, **members):
        status, _, body = self.chat(server, *messages, path="/v1/chat/completions/render",
                                    **members)
        self.assertEqual(status, 200, body)
        return json.loads(body)["data"][0]["text"].split("|", 3)

    def test_its_own_refusal_is_a_400_before_any_event(self):
        server = self.start(model=with_template(self.scratch(), self.SOURCE))
        for stream in (False, True):
            answer = self.chat(server, {"role": "system", "content": "x"}, self.USER,
                               stream=stream)
            error = expect_error(self, answer, {400}, stream)
            self.assertTrue(error["message"].endswith("no system role"), error)
            headers = {name.lower(): value for name, value in answer[1].items()}
            self.assertTrue(headers["content-type"].startswith("application/json"), headers)
            self.assertEqual(server.metrics()["vllm:generation_tokens_total"], 2 * stream)
            self.assertEqual(self.chat(server, self.USER, ignore_eos=True)[0], 200)

    def test_the_date_is_todays_unless_the_request_brings_one(self):
        server = self.start(model=with_template(self.scratch(), self.SOURCE))
        before = time.strftime("%Y-%m-%d")
        date, other, _, _ = self.rendered(server, self.USER)
        self.assertIn(date, (before, time.strftime("%Y-%m-%d")))
        self.assertEqual(other, "none")
        self.assertEqual(self.rendered(server, self.USER, chat_template_kwargs={
            "date_string": "1 Jan 2000"})[1], "1 Jan 2000")

    def test_what_a_request_brings_reaches_it_as_sent(self):
        server = self.start(model=with_template(self.scratch(), self.SOURCE))
        tools = [{"type": "function", "function": {
            "name": "f", "description": "<\u5ba2'&\">", "parameters": {"z": {}, "a": 1.5}}}]
        self.assertEqual(self.rendered(server, self.USER, tools=tools)[2],
                         json.dumps(tools, ensure_ascii=False))
        parts = [{"type": "text", "text": text} for text in ("alpha", "beta")]
        self.assertEqual(self.rendered(server, {"role": "user", "content": parts})[3],
                         "alpha\nbeta;")
        call = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {
            "name": "add", "arguments": '{"b": 2, "a": "x"}'}}]}
        for content in ({}, {"content": None}, {"content": ""}):
            self.assertEqual(self.rendered(server, self.USER, call | content)[3],
                             'hi;;{"b": 2, "a": "x"}')
        expect_error(self, self.chat(server, {"role": "user", "content": [{"type": "video"}]}),
                     {400}, "part")

    def test_without_a_readable_one_a_chat_is_refused_and_a_prompt_is_not(self):
        for source, said in ((None, "no chat template"), ("{% for %}", "line 1"),
                             ("\n{% include 'x' %}", "line 2")):
            with self.subTest(source=source):
                model = TINY if source is None else with_template(self.scratch(), source)
                server = self.start(model=model)
                for stream in (False, True):
                    error = expect_error(self, self.chat(server, self.USER, stream=stream), {400},
                                         source)
                    self.assertIn(said, error["message"])
                    self.assertEqual(error["code"], "no_chat_template")
                self.assertEqual(ask(server, completion())[0], 200)
                # Told at the start, not only to those who ask.
                self.assertIn("no_chat_template", server.log().splitlines()[0])


class ValuesTest(ServeCase):
    """Values of a request from one end of their range to the other."""

    @classmethod
    def setUpClass(cls):
        cls.server = ServeProcess(QUIRE, TINY)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.server.close()

    def answer(self, **members):
        status, _, body = ask(self.server, completion(**members))
        self.assertEqual(status, 200, body)
        return json.loads(body)

    def test_null_is_absent(self):
        plain = self.answer()["choices"]
        names = ("top_p", "n", "stop", "seed", "logit_bias", "stream", "stream_options", "user",
                 "logprobs", "echo", "suffix", "best_of", "model", "response_format")
        for members in [{name: None} for name in names] + [dict.fromkeys(names)]:
            with self.subTest(members=members):
                self.assertEqual(self.answer(**members)["choices"], plain)
        self.assertEqual(self.answer(max_tokens=None)["usage"]["completion_tokens"], 16)
        self.answer(temperature=None)

    def test_a_limit_beyond_the_context_is_the_room_that_is_left(self):
        for limit in (65_535, 10**12):
            answer = self.answer(prompt=[1] * 100, max_tokens=limit)
            self.assertEqual(answer["usage"]["total_tokens"], 1024)
            self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        answer = self.answer(max_tokens=50, max_completion_tokens=5)
        self.assertEqual(answer["usage"]["completion_tokens"], 5)

    def test_bodies_up_to_the_limit_are_read(self):
        for size in (9_000, 1_000_000, 15_000_000):
            self.answer(user="x" * size)
        with Wire(self.server.port) as wire:
            wire.send(request_bytes(None, method="POST", headers=["Content-Length: 20000000"]))
            expect_error(self, wire.answer(), {413}, "20 MB")
        self.answer()

    def test_a_models_file_is_no_name_of_it(self):
        for name in ("no-such", str(TINY), TINY.name):
            error = expect_error(self, ask(self.server, completion(model=name)), {404}, name)
            self.assertIn("tiny-llama", error["message"])

    def test_echoed_log_probabilities_are_those_of_each_next_token(self):
        prompt = [1, 7, 42, 9, 200, 3, 5]
        logprobs = self.answer(prompt=prompt, max_tokens=1, echo=True, logprobs=1)["choices"][0][
            "logprobs"]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            self.assertEqual(len(logprobs[name]), 8)
        self.assertIsNone(logprobs["token_logprobs"][0])
        for end in range(1, 7):
            following = self.answer(prompt=prompt[:end], max_tokens=1, logprobs=0,
                                    allowed_token_ids=[prompt[end]])["choices"][0]["logprobs"]
            self.assertAlmostEqual(logprobs["token_logprobs"][end], following["token_logprobs"][0],
                                   places=3)

    def test_choices_of_several_prompts_come_again_with_their_seed(self):
        members = {"prompt": ["a", "b"], "n": 2, "seed": 7, "temperature": 1, "max_tokens": 8}
        first = self.answer(**members)
        self.assertEqual(self.answer(**members)["choices"], first["choices"])
        texts = [choice["text"] for choice in first["choices"]]
        self.assertEqual([choice["index"] for choice in first["choices"]], [0, 1, 2, 3])
        self.assertEqual(len(set(texts)), 4)
        self.assertEqual(first["usage"]["prompt_tokens"], 2)
        self.assertEqual(first["usage"]["completion_tokens"], 32)
        streamed = [""] * 4
        _, _, body = ask(self.server, completion(stream=True, **members))
        for event in body.decode().split("\n\n")[:-2]:
            for choice in json.loads(event[6:])["choices"]:
                streamed[choice["index"]] += choice["text"]
        self.assertEqual(streamed, texts)

    def test_an_answer_is_the_same_whole_streamed_and_from_its_tokens(self):
        for seed in range(5):
            members = {"seed": seed, "temperature": 1, "max_tokens": 40,
                       "skip_special_tokens": False}
            choice = self.answer(return_token_ids=True, **members)["choices"][0]
            _, _, body = ask(self.server, completion(stream=True, **members))
            streamed = "".join(json.loads(event[6:])["choices"][0]["text"]
                               for event in body.decode().split("\n\n")[:-2])
            _, _, body = ask(self.server, json.dumps({"tokens": choice["token_ids"]}).encode(),
                             "/detokenize")
            self.assertEqual(streamed, choice["text"])
            self.assertEqual(json.loads(body)["prompt"], choice["text"])


class LimitsTest(ServeCase):
    def test_beyond_the_queue_everybody_is_told_at_once_and_nobody_twice(self):
        server = self.start("--parallel", "2", "--max-queue", "50", "--kv-size",
                            f"{64 * BLOCK_BYTES}B", "-c", "512")
        data = request_bytes(completion(max_tokens=60), headers=["Connection: close"])
        selector = selectors.DefaultSelector()
        for number in range(500):
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            connection.sendall(data)
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ, (number, bytearray()))
        replies = []
        while selector.get_map():
            for key, _ in selector.select(timeout=60):
                piece = key.fileobj.recv(65536)
                key.data[1].extend(piece)
                if not piece:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    replies.append(bytes(key.data[1]))
        statuses = [int(reply.split()[1]) for reply in replies]
        served, refused = statuses.count(200), statuses.count(429)
        self.assertEqual(served + refused, 500, statuses)
        self.assertGreaterEqual(served, 50)
        self.assertLess(served, 400)
        for reply in replies:
            self.assertEqual(reply.count(b"HTTP/1.1 "), 1)
            if b" 429 " in reply[:20]:
                self.assertIn(b"retry-after:", reply.lower())

    def test_what_can_never_fit_is_refused_and_what_can_takes_turns(self):
        server = self.start("--kv-size", f"{10 * BLOCK_BYTES}B", "--parallel", "4")
        error = expect_error(self, ask(server, completion(prompt=[1] * 170)), {400}, "11 blocks")
        self.assertEqual(error["code"], "context_length_exceeded")
        results = []

        def one(prompt, max_tokens):
            results.append(ask(server, completion(prompt=prompt, max_tokens=max_tokens))[0])
        threads = [threading.Thread(target=one, args=([2 + i] * 100, 40)) for i in range(2)]
        threads += [threading.Thread(target=one, args=([9 + i] * 30, 8)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(results, [200] * 6)
        server.wait_for_metric("vllm:num_requests_running", 0)

    def test_counters_add_up_and_rest_while_idle(self):
        server = self.start()
        before = server.metrics()
        for length in (10, 20, 30):
            status, _, _ = ask(server, completion(prompt=[length] * length, max_tokens=5))
            self.assertEqual(status, 200)
        ask(server, completion(temperature=9))
        with Wire(server.port) as wire:
            wire.send(request_bytes(completion(prompt=[7] * 8, stream=True, max_tokens=1000)))
            wire.head()
            wire.file.readline()
        server.wait_for_metric("vllm:num_requests_running", 0)
        after = server.metrics()
        grown = {name: after[name] - before.get(name, 0) for name in after}
        self.assertIn(grown["vllm:prompt_tokens_total"], (60, 68))
        self.assertGreaterEqual(grown["vllm:generation_tokens_total"], 15)
        self.assertLess(grown["vllm:generation_tokens_total"], 15 + 1000)
        for name in ("vllm:num_requests_running", "vllm:num_requests_waiting"):
            self.assertEqual(after[name], 0)
        self.assertTrue(0 <= after["vllm:kv_cache_usage_perc"] <= 1)
        time.sleep(1)
        later = server.metrics()
        for name, value in later.items():
            if name.endswith("_total") and name.startswith("vllm:"):
                self.assertEqual(value, after[name], name)

    def test_a_request_deadline_ends_a_request(self):
        server = self.start("--request-timeout", "0.05", "--parallel", "1")
        answers = [ask(server, completion(max_tokens=1000, n=8)) for _ in range(2)]
        for status, _, body in answers:
            self.assertIn(status, (200, 408, 504), body)
        server.wait_for_metric("vllm:num_requests_running", 0)


class StartTest(ServeCase):
    def test_a_port_that_is_taken_is_told_at_once(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            said, seconds = self.refuses(TINY, "--port", port, code=5)
        self.assertIn(f"127.0.0.1:{port}", said)
        self.assertIn("in use", said)
        self.assertLess(seconds, 1)

    def test_two_servers_never_share_a_port(self):
        first = self.start()
        said, _ = self.refuses(TINY, "--port", first.port, code=5)
        self.assertIn(str(first.port), said)

    @unittest.skipIf(os.geteuid() == 0, "root may listen on port 80")
    def test_a_port_of_the_system_is_refused(self):
        said, _ = self.refuses(TINY, "--port", 80, code=5)
        self.assertIn("80", said)

    def test_an_address_that_is_none_is_refused(self):
        result = subprocess.run([QUIRE, "serve", str(TINY), "--host", "256.1.1.1"],
                                capture_output=True, text=True, timeout=30)
        self.assertIn(result.returncode, (2, 3, 5))
        self.assertIn("256.1.1.1", result.stderr)

    def test_ipv6_is_served(self):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError:
            self.skipTest("no IPv6 here")
        server = self.start("--host", "::1")
        self.assertTrue(server.url.startswith("http://[::1]:"))
        with socket.create_connection(("::1", server.port), timeout=10) as connection:
            connection.sendall(request_bytes(None, "/health", "GET"))
            self.assertIn(b" 200 ", connection.recv(100))

    def test_bad_flags_are_told_with_what_is_allowed(self):
        for flags, what in ((("--port", "70000"), "65535"), (("--max-body", "16M"), "16M"),
                            (("--log-format", "xml"), "json"), (("--ssl-cert-file", "a"), "ssl-key"),
                            (("--memory", "lots"), "lots"), (("--max-queue", "-1"), "max-queue"),
                            (("--api-key", "a", "--api-key-file", "b"), "api-key"),
                            (("--allowed-hosts", "http://x"), "without scheme and port"),
                            (("--allowed-hosts", "quire,x:80"), "'x:80'"),
                            (("--api-key", ""), "API key"), (("--api-key", "short"), "API key"),
                            (("--alias", ""), "alias")):
            with self.subTest(flags=flags):
                said, _ = self.refuses(TINY, *flags, code=2)
                self.assertIn(what, said)

    def test_a_key_that_is_set_and_empty_opens_nothing(self):
        said, _ = self.refuses(TINY, code=2, environment={"QUIRE_API_KEY": ""})
        self.assertIn("API key", said)

    def test_a_page_of_another_name_sees_nothing_of_the_cache(self):
        for flags, statuses in (((), (403, 403, 403, 200, 200)),
                                (("--allowed-hosts", "x.example,*.lan"), (403, 200, 200, 200, 200)),
                                (("--allowed-hosts", "*"), (200, 200, 200, 200, 200))):
            server = self.start(*flags)
            hosts = ("evil.example", "x.example:80", "Box.lan", f"localhost:{server.port}", "[::1]")
            for host, status in zip(hosts, statuses):
                with self.subTest(flags=flags, host=host):
                    headers = {"Host": host}
                    for path in ("/", "/quire/blocks", "/quire/cache"):
                        answer = ask(server, None, path, "GET", headers)
                        self.assertEqual(answer[0], status)
                    if status == 403:
                        error = expect_error(self, answer, {403}, host)
                        self.assertIn("--allowed-hosts", error["message"])
                    self.assertEqual(ask(server, completion(), headers=headers)[0], 200)
                    page = headers | {"Origin": "http://" + host}
                    self.assertEqual(ask(server, completion(), headers=page)[0], status)
            server.stop()
        keys = self.start("--api-key", "sk-long-enough")
        headers = {"Host": "evil.example", "Authorization": "Bearer sk-long-enough"}
        self.assertEqual(ask(keys, None, "/quire/cache", "GET", headers)[0], 200)

    def test_a_wrong_flag_points_to_the_verbs_help(self):
        said, _ = self.refuses(TINY, "--prot", "1", code=2)
        self.assertIn("quire serve --help", said)

    def test_a_model_that_is_not_there_is_told(self):
        said, _ = self.refuses("no-such-model", code=3)
        self.assertIn("no-such-model", said)
        said, _ = self.refuses(code=2)
        self.assertIn("MODEL", said)

    def test_a_load_that_fails_was_never_ready(self):
        broken = self.scratch() / "broken.gguf"
        broken.write_bytes(TINY.read_bytes()[:-5000])
        port = serve_process.free_port()
        process = subprocess.Popen([QUIRE, "serve", str(broken), "--port", str(port)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        statuses = self.poll(port, process)
        said = process.communicate(timeout=30)
        self.assertNotIn(200, statuses)
        self.assertEqual((process.returncode, said[0]), (3, ""))
        self.assertIn("broken.gguf", said[1])

    def poll(self, port, process, path="/health"):
        """Statuses until the first 200 or the end of the process; None = refused."""
        statuses = []
        while process.poll() is None:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            try:
                connection.request("GET", path)
                statuses.append(connection.getresponse().status)
            except OSError:
                statuses.append(None)
            finally:
                connection.close()
            if statuses[-1] == 200:
                break
            time.sleep(0.005)
        return statuses

    def test_the_service_manager_is_told_when_it_is_ready_and_when_it_stops(self):
        for name in (str(self.scratch() / "notify"), f"\0quire-test-{os.getpid()}"):
            with self.subTest(name=name), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
                told.bind(name)
                told.settimeout(20)
                server = self.start(environment={"NOTIFY_SOCKET": name.replace("\0", "@")})
                self.assertEqual(told.recv(100), b"READY=1")
                self.assertEqual(server.stop(), 0)
                self.assertEqual(told.recv(100), b"STOPPING=1")

    def test_a_key_is_asked_for(self):
        keys = self.scratch() / "keys.json"
        keys.write_text('{"keys": [{"key": "sk-from-file", "name": "a"}]}')
        keys.chmod(0o600)
        for flags, environment, key in ((("--api-key", "sk-from-flag"), {}, "sk-from-flag"),
                                        ((), {"QUIRE_API_KEY": "sk-from-env"}, "sk-from-env"),
                                        (("--api-key-file", keys), {}, "sk-from-file")):
            with self.subTest(key=key):
                server = self.start(*flags, environment=environment)
                self.assertEqual(ask(server, None, "/v1/models", "GET")[0], 401)
                status, _, _ = ask(server, None, "/v1/models", "GET",
                                   {"Authorization": f"Bearer {key}"})
                self.assertEqual(status, 200)
                self.assertNotIn(key, server.log())
                self.assertEqual(server.stop(), 0)
        keys.write_text('{"keys": 7}')
        said, _ = self.refuses(TINY, "--api-key-file", keys, code=3)
        self.assertIn("keys.json", said)

    def test_tls_is_spoken(self):
        folder = self.scratch()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
                       check=True, capture_output=True)
        server = self.start("--ssl-cert-file", folder / "cert.pem", "--ssl-key-file",
                            folder / "key.pem")
        self.assertTrue(server.url.startswith("https://"))
        context = ssl.create_default_context(cafile=folder / "cert.pem")
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context,
                                                 timeout=20)
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/completions", completion())
        self.assertEqual(connection.getresponse().status, 200)
        # Who speaks no TLS is turned away, and harms nobody.
        with Wire(server.port) as wire:
            with contextlib.suppress(ConnectionError):
                wire.send(request_bytes(None, "/health", "GET"))
                self.assertNotIn(b"200", wire.file.read()[:20])
        self.assertIsNone(server.process.poll())
        said, _ = self.refuses(TINY, "--ssl-cert-file", folder / "none.pem", "--ssl-key-file",
                               folder / "key.pem", code=3)
        self.assertIn("none.pem", said)

    def test_aliases_name_the_model(self):
        server = self.start("--alias", "first,second")
        self.assertEqual(server.model, "first")
        for name, status in (("first", 200), ("second", 200), ("tiny-llama", 404)):
            self.assertEqual(ask(server, completion(model=name))[0], status)
        self.assertEqual(json.loads(ask(server, completion(model="second"))[2])["model"], "first")

    def test_a_memory_budget_sets_the_pool(self):
        sizes = []
        for memory in ("64MiB", "96MiB"):
            server = self.start("--memory", memory)
            sizes.append(float(re.search(r"KV pool ([\d.,]+) MiB", server.ready_line)[1]))
            server.stop()
        self.assertAlmostEqual(sizes[1] - sizes[0], 32, delta=1)
        said, _ = self.refuses(TINY, "--memory", "1MiB", code=4)
        self.assertIn("available", said)


class ConfigTest(ServeCase):
    def config(self, text):
        path = self.scratch() / "quire.toml"
        path.write_text(text)
        return path

    def test_a_file_gives_what_the_command_line_leaves_out(self):
        path = self.config(f'model = "{TINY}"\nalias = ["from-file", "other"]\n# a comment\n'
                           'ctx-size = 256\nlog-text = true\nmax-queue = 3\n')
        server = self.start("-c", "512", "--config", path, model=TINY)
        self.assertEqual(server.model, "from-file")
        self.assertIn("context 512", server.ready_line)
        # MODEL too.
        process = subprocess.Popen([QUIRE, "serve", "--config", str(path), "--port", "0"],
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertIn("from-file", process.stdout.readline())
        process.stdout.close()

    def test_what_is_wrong_in_it_is_told_with_file_and_key(self):
        for text, what in (("prot = 8000\n", "'prot'"), ("port = 70000\n", "'port'"),
                           ("port = \"x\"\n", "'port'"), ("log-text = 7\n", "'log-text'"),
                           ("log-level = \"loud\"\n", "'log-level'"),
                           ("max-queue = 1\nmax-queue = 2\n", "'max-queue'"),
                           ("[server]\nport = 1\n", "'server.port'"),
                           ("config = \"other\"\n", "'config'"),
                           ("api-key = \"a\"\napi-key-file = \"b\"\n", "api-key")):
            with self.subTest(text=text):
                path = self.config(text)
                said, _ = self.refuses(TINY, "--config", path, code=2)
                self.assertIn("quire.toml", said)
                self.assertIn(what, said)
        said, _ = self.refuses(TINY, "--config", "/nowhere/quire.toml", code=3)
        self.assertIn("/nowhere/quire.toml", said)

    def test_every_flag_is_in_the_documentation(self):
        text = (TESTS.parent / "docs" / "serving.md").read_text()
        shown = subprocess.run([QUIRE, "serve", "--help"], capture_output=True, text=True).stdout
        flags = set(re.findall(r"(--[a-z][a-z-]+)", shown)) - {"--help"}
        self.assertGreater(len(flags), 30)
        self.assertEqual({flag for flag in flags if flag not in text}, set())


class EndTest(ServeCase):
    def test_an_idle_server_ends_at_once_and_well(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.start()
            start = time.monotonic()
            server.process.send_signal(number)
            self.assertEqual(server.process.wait(10), 0)
            self.assertLess(time.monotonic() - start, 1.5)

    def test_idle_connections_hold_nothing_up(self):
        server = self.start()
        with Wire(server.port) as wire:
            self.assertEqual(wire.ask(completion())[0], 200)
            start = time.monotonic()
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - start, 1.5)

    def test_a_hangup_ends_nothing(self):
        server = self.start()
        server.process.send_signal(signal.SIGHUP)
        self.assertEqual(ask(server, completion())[0], 200)
        self.assertEqual(server.stop(), 0)

    def test_no_text_is_logged_unless_asked(self):
        body = json.dumps({"prompt": "the secret word", "max_tokens": 2}).encode()
        for flags, is_there in (((), False), (("--log-text",), True)):
            server = self.start("--log-format", "json", *flags)
            self.assertEqual(ask(server, body)[0], 200)
            self.assertEqual(server.stop(), 0)
            log = server.log()
            for line in log.splitlines():
                json.loads(line)
            self.assertIn('"request"', log)
            self.assertEqual("secret word" in log, is_there)


@unittest.skipUnless(serve_process.model_is_here(SMOLLM2), f"{SMOLLM2} is not in the model cache")
class SmolLm2Test(ServeCase):
    def serve(self, *flags, **options):
        return self.start("-c", "4096", "--kv-size", "512MiB", *flags, model=SMOLLM2, **options)

    def open_stream(self, server, max_tokens):
        wire = Wire(server.port, timeout=60)
        self.addCleanup(wire.__exit__)
        wire.send(request_bytes(completion(stream=True, max_tokens=max_tokens, prompt="Once")))
        return wire

    def test_it_is_ready_within_a_second_and_rests_while_idle(self):
        self.serve().stop()  # makes the pack
        start = time.monotonic()
        server = self.serve()
        self.assertLess(time.monotonic() - start, 1)
        time.sleep(0.5)
        before = sum(server.thread_seconds().values())
        time.sleep(3)
        self.assertLessEqual(sum(server.thread_seconds().values()) - before, 0.015 + 0.01)
        self.assertEqual(server.stop(), 0)

    def test_it_answers_503_until_it_is_ready(self):
        port = serve_process.free_port()
        process = subprocess.Popen([QUIRE, "serve", SMOLLM2, "--port", str(port), "--no-pack-cache"],
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        statuses = []
        while not statuses or statuses[-1] != 200:
            self.assertIsNone(process.poll())
            for path in ("/v1/models", "/health"):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
                with contextlib.suppress(OSError):
                    connection.request("GET", path)
                    statuses.append(connection.getresponse().status)
                connection.close()
            time.sleep(0.01)
        self.assertEqual(set(statuses), {503, 200})
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/completions", completion())
        self.assertEqual(connection.getresponse().status, 200)

    def test_sigterm_lets_a_stream_end_and_takes_no_other(self):
        server = self.serve()
        wire = self.open_stream(server, max_tokens=100)
        self.assertEqual(wire.head()[0], 200)
        idle = Wire(server.port)
        self.addCleanup(idle.__exit__)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        refused = None
        with contextlib.suppress(OSError), Wire(server.port) as late:
            refused = late.ask(completion())
        self.assertTrue(refused is None or refused[0] == 503, refused)
        text = wire.file.read().decode()
        self.assertIn("data: [DONE]", text)
        self.assertIn('"finish_reason":"length"', text.replace(" ", ""))
        self.assertEqual(server.process.wait(10), 0)

    def test_the_drain_has_an_end(self):
        server = self.serve("--drain-timeout", "0.3")
        wire = self.open_stream(server, max_tokens=4000)
        self.assertEqual(wire.head()[0], 200)
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        tail = wire.file.read().decode()
        self.assertEqual(server.process.wait(10), 0)
        self.assertLess(time.monotonic() - start, 3)
        self.assertNotIn('"finish_reason":"length"', tail.replace(" ", ""))

    def test_a_second_signal_ends_at_once(self):
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            server = self.serve()
            wire = self.open_stream(server, max_tokens=4000)
            self.assertEqual(wire.head()[0], 200)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.1)
            server.process.send_signal(number)
            self.assertEqual(server.process.wait(2), code)

    def test_a_client_that_goes_frees_its_place_at_once(self):
        server = self.serve("--parallel", "1")
        wire = self.open_stream(server, max_tokens=4000)
        wire.head()
        for _ in range(15):
            wire.file.readline()
        self.assertEqual(server.metrics()["vllm:num_requests_running"], 1)
        wire.file.close()
        wire.socket.close()
        start = time.monotonic()
        status, _, _ = ask(server, completion(max_tokens=2))
        self.assertEqual(status, 200)
        self.assertLess(time.monotonic() - start, 1)
        server.wait_for_metric("vllm:num_requests_running", 0, timeout=1)
        tokens = server.metrics()["vllm:generation_tokens_total"]
        time.sleep(0.5)
        self.assertEqual(server.metrics()["vllm:generation_tokens_total"], tokens)
        self.assertLess(tokens, 1000)

    def test_stop_strings_leave_the_models_own_end(self):
        server = self.serve()
        body = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 300,
                "temperature": 0}
        texts = []
        for stop in (None, ["zzz"]):
            status, _, reply = ask(server, json.dumps(body | {"stop": stop}).encode(),
                                   "/v1/chat/completions")
            self.assertEqual(status, 200, reply)
            choice = json.loads(reply)["choices"][0]
            self.assertEqual((choice["finish_reason"], choice["stop_reason"]), ("stop", None))
            self.assertNotIn("<|im_end|>", choice["message"]["content"])
            texts.append(choice["message"]["content"])
        self.assertEqual(*texts)

    def test_a_cache_that_cannot_be_written_is_told_and_harms_no_request(self):
        models = serve_process.cache_directory() / "models"
        entries = json.loads((TESTS.parent / "scripts" / "models.json").read_text())["models"]
        model = models / next(entry["file"] for entry in entries if entry["name"] == SMOLLM2)
        folder = self.scratch()
        (folder / "file").write_text("x")
        (folder / "closed").mkdir(mode=0o500)
        # Root may write into the closed one.
        cases = [("file", True), ("absent", False), ("removed", None),
                 ("closed", os.geteuid() != 0)]
        for name, is_told in cases:
            with self.subTest(cache=name):
                server = self.start("-c", "512", "--kv-size", "64MiB", model=model,
                                    environment={"QUIRE_CACHE": str(folder / name)})
                if name == "removed":
                    shutil.rmtree(folder / name, ignore_errors=True)
                self.assertEqual(ask(server, completion())[0], 200)
                self.assertEqual(server.stop(), 0)
                if is_told is not None:
                    self.assertEqual("stay in memory only" in server.log(), is_told, server.log())
        for path in folder.rglob("*"):
            self.assertIn(path.suffix, ("", ".pack", ".source"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
