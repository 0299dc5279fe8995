"""`quire batch` as a script meets it: requests in, results out, broken off and taken up again.

    python3 batch_test.py PATH_TO_QUIRE PATH_TO_TESTS [unittest arguments]
"""

import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import time
import unittest

QUIRE = sys.argv[1]
TINY = str(pathlib.Path(sys.argv[2]) / "golden" / "models" / "tiny-llama.gguf")
SMOLLM2 = "smollm2-135m-instruct"


def completion(custom_id, prompt, **members):
    body = {"prompt": prompt, "max_tokens": 8, "ignore_eos": True, "return_token_ids": True}
    body.update(members)
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/completions", "body": body}


def chat(custom_id, text, **members):
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 8, "temperature": 0,
            "return_token_ids": True}
    body.update(members)
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body}


def tokens_of(result):
    return [choice["token_ids"] for choice in result["response"]["body"]["choices"]]


def logprobs_of(result):
    return [choice["logprobs"] for choice in result["response"]["body"]["choices"]]


class BatchCase(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)
        self.input = self.folder / "requests.jsonl"
        self.output = self.folder / "requests.out.jsonl"

    def environment(self):
        return dict(os.environ, QUIRE_CACHE=self.scratch.name)

    def write(self, lines, path=None):
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (path or self.input).write_text("".join(text + "\n" for text in texts))

    def command(self, *arguments):
        return [QUIRE, "batch", self.MODEL, *arguments]

    def batch(self, *arguments, code=0, text=None):
        result = subprocess.run(self.command(*(arguments or (str(self.input),))), input=text,
                                capture_output=True, timeout=200, env=self.environment())
        self.assertEqual(result.returncode, code, result.stderr.decode())
        return result

    def results(self, path=None):
        text = (path or self.output).read_text()
        self.assertTrue(text == "" or text.endswith("\n"))
        return [json.loads(line) for line in text.splitlines()]

    def by_id(self, path=None):
        results = self.results(path)
        by_id = {result["custom_id"]: result for result in results}
        self.assertEqual(len(by_id), len(results), "an id has two results")
        return by_id

    def interrupt_when(self, condition, *arguments):
        """Starts a batch and sends SIGINT once `condition` holds; its exit code and output."""
        process = subprocess.Popen(self.command(*arguments), env=self.environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 100
        while not condition() and process.poll() is None:
            self.assertLess(time.monotonic(), deadline, "the batch does not get there")
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=100)[1]
        return process.returncode, error.decode()

    def num_results(self):
        return self.output.read_bytes().count(b"\n") if self.output.exists() else 0


class BatchTest(BatchCase):
    MODEL = TINY

    def test_every_line_gets_one_result_in_openais_form(self):
        self.write([completion("a", "hello"), completion("b", [1, 2, 3]),
                    {"prompt": "bare", "max_tokens": 2}])
        stderr = self.batch().stderr.decode()
        results = self.by_id()
        self.assertEqual(set(results), {"a", "b", "line-3"})
        for result in results.values():
            self.assertEqual(set(result), {"id", "custom_id", "response", "error"})
            self.assertIsNone(result["error"])
            self.assertEqual(result["response"]["status_code"], 200)
            body = result["response"]["body"]
            self.assertEqual(result["response"]["request_id"], body["id"])
            self.assertEqual((body["object"], body["model"]), ("text_completion", "tiny-llama"))
            usage = body["usage"]
            self.assertEqual(usage["total_tokens"],
                             usage["prompt_tokens"] + usage["completion_tokens"])
            self.assertGreaterEqual(usage["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertEqual(results["b"]["response"]["body"]["usage"]["prompt_tokens"], 3)
        self.assertIn("3 requests answered, 0 failed", stderr)
        self.assertNotIn("\r", stderr)

    def test_a_bad_line_is_told_by_number_and_the_rest_is_done(self):
        self.write([completion("a", "x"), "{bad", completion("b", "x", temperature=9),
                    completion("a", "again"), completion("c", "x", suffix="y"),
                    completion("d", [1] * 5000), {"nothing": 1}, completion("s", "x", stream=True),
                    {"custom_id": "u", "url": "/v1/embeddings", "body": {"input": "x"}},
                    completion("e", "x"), '{"prompt":"' + "x" * (17 << 20) + '"}',
                    completion("f", [[1], [2], [1] * 5000])])
        stderr = self.batch(code=3).stderr.decode()
        results = self.results()
        answered = {r["custom_id"] for r in results if r["error"] is None}
        self.assertEqual(answered, {"a", "e"})
        lines = {r["error"]["line"]: r for r in results if r["error"]}
        self.assertEqual(set(lines), {2, 3, 4, 5, 6, 7, 8, 9, 11, 12})
        for number in (2, 4, 7, 11):
            self.assertIsNone(lines[number]["custom_id"])
            self.assertIsNone(lines[number]["response"])
        for number in lines:
            self.assertIn(f"line {number}", stderr)
        error = lines[3]["response"]["body"]["error"]
        self.assertEqual(lines[3]["response"]["status_code"], 400)
        self.assertEqual(error["param"], "temperature")
        self.assertIn("from 0 to 2", error["message"])
        self.assertEqual(lines[4]["error"]["code"], "duplicate_custom_id")
        self.assertEqual(lines[5]["response"]["body"]["error"]["param"], "suffix")
        too_long = lines[6]["response"]["body"]["error"]
        self.assertEqual(too_long["code"], "context_length_exceeded")
        self.assertIn("5000 tokens", too_long["message"])
        self.assertEqual(lines[9]["response"]["status_code"], 404)
        self.assertEqual(lines[11]["error"]["code"], "line_too_long")
        # Two of its prompts had begun.
        self.assertEqual(lines[12]["error"]["code"], "context_length_exceeded")
        # Neither answered nor told twice.
        before = self.output.read_text()
        self.assertIn("2 answered before, 10 failed before", self.batch(code=3).stderr.decode())
        self.assertEqual(self.output.read_text(), before)

    def test_failed_lines_are_tried_again_on_request_alone(self):
        self.write([completion("a", "x"), completion("b", "x", temperature=9), "{bad"])
        self.batch(code=3)
        self.write([completion("a", "x"), completion("b", "x"), completion("c", "x")])
        self.batch(code=3)
        self.assertIn("failed before", self.batch(code=3).stderr.decode())
        self.batch(str(self.input), "--retry-failed")
        self.assertEqual(set(self.by_id()), {"a", "b", "c"})

    def test_an_interrupted_batch_is_finished_by_the_same_command(self):
        lines = []
        for i in range(30):
            prompt = "shared prefix " * 4 + str(i)
            members = [{"temperature": 0}, {"seed": i, "n": 2}, {"seed": i, "temperature": 1.5},
                       {"temperature": 0}][i % 4]
            lines.append(completion(f"r{i}", [prompt, "other"] if i % 4 == 3 else prompt,
                                    max_tokens=20 + 5 * i, **members))
        self.write(lines)
        whole = self.folder / "whole.jsonl"
        self.batch(str(self.input), "-o", str(whole))
        slow = (str(self.input), "--parallel", "2", "-t", "1", "--kernels", "reference")
        code, stderr = self.interrupt_when(lambda: self.num_results() >= 5, *slow)
        self.assertEqual(code, 130, stderr)
        self.assertIn("the same command answers the rest", stderr)
        first = self.by_id()
        self.assertTrue(5 <= len(first) < 30, len(first))
        # A crash leaves the beginning of a line.
        with self.output.open("a") as file:
            file.write('{"id":"batch_req_12')
        self.batch(*slow)
        second = self.by_id()
        expected = self.by_id(whole)
        self.assertEqual(set(second), set(expected))
        for custom_id, result in expected.items():
            self.assertEqual(tokens_of(second[custom_id]), tokens_of(result), custom_id)
        for custom_id, result in first.items():
            self.assertEqual(second[custom_id], result)

    def test_choices_of_a_seed_differ_and_repeat(self):
        body = {"n": 3, "seed": 7, "temperature": 1}
        self.write([completion("a", ["a", "b"], **body), completion("b", ["a", "b"], **body)])
        self.batch()
        results = self.by_id()
        choices = results["a"]["response"]["body"]["choices"]
        self.assertEqual([choice["index"] for choice in choices], list(range(6)))
        self.assertEqual(len({tuple(ids) for ids in tokens_of(results["a"])}), 6)
        self.assertEqual(tokens_of(results["a"]), tokens_of(results["b"]))
        usage = results["a"]["response"]["body"]["usage"]
        self.assertEqual(usage["completion_tokens"], 6 * 8)

    def test_requests_without_a_seed_draw_differently(self):
        self.write([completion(str(i), "x", temperature=1.5) for i in range(8)])
        self.batch()
        draws = {tuple(tokens_of(result)[0]) for result in self.by_id().values()}
        self.assertEqual(len(draws), 8)

    def test_echo_gives_the_same_entries_cold_and_cached(self):
        prompt = [3 + i % 40 for i in range(33)]
        line = {"echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
        self.write([completion("a", prompt, **line), completion("warm", prompt),
                    completion("b", prompt, **line), completion("none", prompt,
                                                                **{**line, "max_tokens": 0})])
        self.batch(str(self.input), "--parallel", "1")
        results = self.by_id()
        body = results["a"]["response"]["body"]
        logprobs = body["choices"][0]["logprobs"]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            self.assertEqual(len(logprobs[name]), 34, name)
        self.assertIsNone(logprobs["token_logprobs"][0])
        self.assertTrue(all(value < 0 for value in logprobs["token_logprobs"][1:]))
        self.assertEqual(body["choices"], results["b"]["response"]["body"]["choices"])
        none = results["none"]["response"]["body"]
        self.assertEqual(none["choices"][0]["logprobs"]["token_logprobs"],
                         logprobs["token_logprobs"][:33])
        self.assertEqual(none["usage"]["completion_tokens"], 0)

    def test_log_probabilities_do_not_depend_on_temperature(self):
        self.write([completion(str(t), "hello", temperature=t, seed=1, logprobs=5, max_tokens=1)
                    for t in (0, 0.5, 1)])
        self.batch()
        tops = []
        for result in self.by_id().values():
            logprobs = result["response"]["body"]["choices"][0]["logprobs"]
            top = sorted(logprobs["top_logprobs"][0].items(), key=lambda item: -item[1])[:5]
            tops.append(top)
        self.assertEqual(tops[0], tops[1])
        self.assertEqual(tops[0], tops[2])

    def test_logit_bias_bans_and_forces(self):
        self.write([completion("plain", "x", temperature=0, max_tokens=4)])
        self.batch()
        token = tokens_of(self.by_id()["plain"])[0][0]
        self.write([completion("ban", "x", temperature=0, logit_bias={str(token): -100}),
                    completion("force", "x", temperature=0, logit_bias={"5": 100}),
                    completion("bad", "x", logit_bias={"999999": -100})])
        self.output.unlink()
        self.batch(code=3)
        results = self.by_id()
        self.assertNotIn(token, tokens_of(results["ban"])[0])
        self.assertEqual(results["bad"]["response"]["body"]["error"]["param"], "logit_bias")
        self.assertEqual(results["bad"]["response"]["status_code"], 400)

    def test_lengths_are_clamped_and_have_defaults(self):
        self.write([{"custom_id": "sixteen", "url": "/v1/completions",
                     "body": {"prompt": "x", "ignore_eos": True}},
                    completion("huge", "x", max_tokens=10**12),
                    completion("both", "x", max_tokens=50, max_completion_tokens=5)])
        self.batch(str(self.input), "-c", "64")
        usage = {name: result["response"]["body"]["usage"] for name, result in self.by_id().items()}
        self.assertEqual(usage["sixteen"]["completion_tokens"], 16)
        self.assertEqual(usage["huge"]["total_tokens"], 64)
        self.assertEqual(usage["both"]["completion_tokens"], 5)
        self.output.unlink()
        self.batch(str(self.input), "-c", "64", "--max-tokens", "3")
        self.assertEqual(self.by_id()["sixteen"]["response"]["body"]["usage"]["completion_tokens"],
                         3)

    def test_beams_answer_in_order_of_their_score(self):
        self.write([completion("a", "hello", use_beam_search=True, n=3, beam_width=4)])
        self.batch()
        self.assertEqual(len({tuple(ids) for ids in tokens_of(self.by_id()["a"])}), 3)

    def test_a_repeated_prompt_reports_what_was_cached(self):
        prompt = list(range(3, 43))
        self.write([completion("cold", prompt), completion("warm", prompt)])
        self.batch(str(self.input), "--parallel", "1")
        cached = {}
        for name, result in self.by_id().items():
            usage = result["response"]["body"]["usage"]
            cached[name] = usage["prompt_tokens_details"]["cached_tokens"]
        self.assertEqual(cached["cold"], 0)
        self.assertGreaterEqual(cached["warm"], 32)

    def test_standard_input_answers_on_standard_output(self):
        text = json.dumps(completion("a", "x")).encode()
        result = self.batch("-", text=text)
        self.assertEqual(json.loads(result.stdout)["custom_id"], "a")

    def test_a_request_is_answered_while_the_writer_waits(self):
        process = subprocess.Popen(self.command("-"), env=self.environment(),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        for name in ("a", "b"):
            process.stdin.write(json.dumps(completion(name, "x")).encode() + b"\n")
            process.stdin.flush()
            self.assertEqual(json.loads(process.stdout.readline())["custom_id"], name)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)

    def test_the_summary_as_json_counts_all(self):
        self.write([completion("a", "x"), completion("b", "x"), "{bad"])
        summary = json.loads(self.batch(str(self.input), "--json", code=3).stdout)
        self.assertEqual((summary["requests"], summary["answered"], summary["failed"]), (3, 2, 1))
        self.assertEqual(summary["generated_tokens"], 16)
        self.assertEqual(summary["output"], str(self.output))

    def test_what_is_passed_over_is_noted_once(self):
        self.write([completion(str(i), "x", model="gpt-4", frobnicate=1) for i in range(3)])
        stderr = self.batch().stderr.decode()
        self.assertEqual(stderr.count("'frobnicate'"), 1)
        self.assertEqual(stderr.count("'gpt-4'"), 1)

    def test_output_that_cannot_be_written_ends_the_batch(self):
        self.write([completion("a", "x")])
        error = self.batch(str(self.input), "-o", "/dev/full", code=4).stderr
        self.assertIn(b"No space left", error)
        self.assertIn(b"both the input and the output",
                      self.batch(str(self.input), "-o", str(self.input), code=2).stderr)
        self.batch(str(self.input), "-o", str(self.folder / "no" / "out"), code=3)
        process = subprocess.Popen(self.command(str(self.input), "-o", "-"),
                                   env=self.environment(), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        process.stdout.close()
        self.assertIn(b"standard output", process.stderr.read())
        process.stderr.close()
        self.assertEqual(process.wait(timeout=60), 5)

    def test_a_trace_over_the_input_or_the_output_is_refused_before_any_work(self):
        self.write([completion("a", "x")])
        text = self.input.read_bytes()
        self.assertIn(b"is the output too",
                      self.batch(str(self.input), "--trace", str(self.output), code=2).stderr)
        self.assertFalse(self.output.exists())
        roundabout = self.folder / "." / self.output.name
        self.batch(str(self.input), "-o", str(roundabout), "--trace", str(self.output), code=2)
        link = self.folder / "link"
        link.symlink_to(self.input)
        self.assertIn(b"is the input too",
                      self.batch(str(self.input), "--trace", str(link), code=2).stderr)
        self.assertEqual(self.input.read_bytes(), text)
        self.batch()
        results = self.output.read_bytes()
        self.batch(str(self.input), "--trace", str(self.output), code=2)
        self.assertEqual(self.output.read_bytes(), results)

    def test_a_second_process_is_kept_out(self):
        self.write([completion(str(i), "x" * 50, max_tokens=200) for i in range(20)])
        def second():
            if self.num_results() == 0:
                return False
            self.assertIn(b"another process", self.batch(code=5).stderr)
            return True
        code, stderr = self.interrupt_when(second, str(self.input), "--parallel", "1", "-t", "1",
                                           "--kernels", "reference")
        self.assertEqual(code, 130, stderr)

    def test_a_terminal_sees_how_far_it_is(self):
        self.write([completion(str(i), "x", max_tokens=100) for i in range(40)])
        pid, terminal = pty.fork()
        if pid == 0:
            flags = ("--parallel", "4", "--kernels", "reference")
            os.execve(QUIRE, self.command(str(self.input), *flags), self.environment())
        seen = b""
        while True:
            try:
                seen += os.read(terminal, 65536)
            except OSError:
                break
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertRegex(seen, rb"\d+ of 40 requests  [\d.]+ tok/s  KV \d+ %  4 running, \d+ wait")
        self.assertIn(b"40 requests answered", seen)

    def test_bad_arguments_are_refused_before_the_model_is_loaded(self):
        self.batch(str(self.folder / "none.jsonl"), code=3)
        self.batch(str(self.folder), code=2)
        self.write([completion("a", "x")])
        self.batch(str(self.input), "--max-tokens", "0", code=2)
        self.output.write_text("notes\n")
        self.assertIn(b"move the file away", self.batch(code=3).stderr)
        self.assertEqual(self.output.read_text(), "notes\n")

    def test_an_empty_file_has_no_results(self):
        self.write([])
        self.batch()
        self.assertEqual(self.results(), [])


class SmolLm2Test(BatchCase):
    MODEL = SMOLLM2

    def environment(self):
        return dict(os.environ)

    def setUp(self):
        super().setUp()
        listed = subprocess.run([QUIRE, "inspect", SMOLLM2], capture_output=True, timeout=60)
        if listed.returncode != 0:
            self.skipTest(f"{SMOLLM2} is not in the model cache")

    def test_chats_share_their_system_prompt_and_end_where_the_model_ends(self):
        system = {"role": "system", "content": "You answer in one short sentence. " * 12}
        self.write([
            chat(str(i), "", messages=[system, {"role": "user", "content": f"What is {i} + 1?"}],
                 max_tokens=40, stop=["zzz"]) for i in range(6)])
        self.batch(str(self.input), "-c", "1024")
        results = self.by_id()
        cached = 0
        for result in results.values():
            body = result["response"]["body"]
            message = body["choices"][0]["message"]
            self.assertEqual(message["role"], "assistant")
            self.assertNotIn("<|im_end|>", message["content"])
            self.assertIn(body["choices"][0]["finish_reason"], ("stop", "length"))
            cached += body["usage"]["prompt_tokens_details"]["cached_tokens"] > 64
        # All but the one that computes it.
        self.assertGreaterEqual(cached, 5)

    def test_mixed_lines_are_the_same_after_an_interruption(self):
        lines = []
        for i in range(30):
            if i % 3 == 0:
                lines.append(completion(f"r{i}", "Once upon a time", seed=i, n=2, max_tokens=12))
            elif i % 3 == 1:
                lines.append(chat(f"r{i}", f"Count to {i}.", max_tokens=16))
            else:
                lines.append(chat(f"r{i}", "Say hello.", temperature=1, seed=i, logprobs=True,
                                  top_logprobs=2))
        self.write(lines)
        whole = self.folder / "whole.jsonl"
        self.batch(str(self.input), "-c", "512", "-o", str(whole))
        few = (str(self.input), "-c", "512", "--parallel", "4")
        code, stderr = self.interrupt_when(lambda: self.num_results() >= 8, *few)
        self.assertEqual(code, 130, stderr)
        self.assertLess(self.num_results(), 30)
        self.batch(*few)
        expected, results = self.by_id(whole), self.by_id()
        self.assertEqual(set(results), set(expected))
        for custom_id, result in expected.items():
            self.assertEqual(tokens_of(results[custom_id]), tokens_of(result), custom_id)
            self.assertEqual(logprobs_of(results[custom_id]), logprobs_of(result), custom_id)

    def test_echo_joins_to_its_text(self):
        self.write([completion("a", "The quick brown fox jumps over", echo=True, logprobs=1,
                               max_tokens=1, temperature=0)])
        self.batch(str(self.input), "-c", "512")
        choice = self.by_id()["a"]["response"]["body"]["choices"][0]
        self.assertEqual("".join(choice["logprobs"]["tokens"]), choice["text"])
        self.assertTrue(choice["text"].startswith("The quick brown fox jumps over"))

    def test_messages_in_a_wrong_form_name_their_field(self):
        self.write([chat("a", "", messages=[{"role": "wizard", "content": "x"}])])
        self.batch(str(self.input), "-c", "512", code=3)
        error = self.by_id()["a"]["response"]["body"]["error"]
        self.assertEqual(error["param"], "messages")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
