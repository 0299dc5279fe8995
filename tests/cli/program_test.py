"""The program as a person or a script meets it: output, exit codes, bad input.

    python3 program_test.py PATH_TO_QUIRE PATH_TO_TESTS [unittest arguments]
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

QUIRE = sys.argv[1]
GOLDEN = pathlib.Path(sys.argv[2]) / "golden" / "models"
LLAMA = str(GOLDEN / "tiny-llama.gguf")
GEMMA = str(GOLDEN / "tiny-gemma3.gguf")


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.cache = tempfile.TemporaryDirectory()
        self.addCleanup(self.cache.cleanup)
        self.environment = dict(os.environ, QUIRE_CACHE=self.cache.name)

    def quire(self, *arguments, text=None, **extra):
        return subprocess.run([QUIRE, *arguments], input=text, capture_output=True, timeout=120,
                              env=dict(self.environment, **extra))

    def answer(self, *arguments, temperature="0"):
        result = self.quire("run", LLAMA, "--raw", "-p", "hello", "--temp", temperature, "-n", "12",
                            "--ignore-eos", "--json", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_standard_output_holds_the_answer_alone(self):
        result = self.quire("run", LLAMA, "--raw", "-p", "hello", "--temp", "0", "-n", "12",
                            "--ignore-eos")
        expected = self.answer()["text"]
        self.assertEqual(result.stdout.decode(), expected + "\n")
        self.assertIn(b"prompt tokens", result.stderr)
        self.assertIn(b"tok/s", result.stderr)

    def test_the_answer_depends_on_no_flag_that_must_not_change_it(self):
        expected = self.answer()["tokens"]
        self.assertEqual(len(expected), 12)
        for flags in (["--kernels", "reference"], ["--threads", "1"], ["--threads", "5"],
                      ["--no-kv-cache"], ["--prefill-chunk", "1"], ["--no-pack-cache"], []):
            self.assertEqual(self.answer(*flags)["tokens"], expected, flags)

    def test_a_seed_repeats_a_draw_and_no_seed_does_not(self):
        def draw(*flags):
            return self.answer("--top-k", "0", "--top-p", "1", "--min-p", "0", *flags,
                               temperature="1.5")["tokens"]
        self.assertEqual(draw("--seed", "3"), draw("--seed", "3"))
        self.assertNotEqual(draw(), draw())

    def test_standard_input_and_files_are_prompts(self):
        path = pathlib.Path(self.cache.name) / "prompt"
        path.write_text("hello")
        common = ["run", LLAMA, "--raw", "--temp", "0", "-n", "4", "--ignore-eos"]
        outputs = {self.quire(*common, "-p", "hello").stdout,
                   self.quire(*common, "-f", str(path)).stdout,
                   self.quire(*common, text=b"hello").stdout}
        self.assertEqual(len(outputs), 1)

    def test_flags_that_repeat_take_one_value_each(self):
        expected = self.answer()
        stop = expected["tokens"][3]
        result = self.quire("run", "--logit-bias", "0=-1", "--stop-token-id", str(stop), "--stop",
                            "no such text", LLAMA, "--raw", "-p", "hello", "--temp", "0", "-n",
                            "12", "--ignore-eos", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assertEqual(answer["finish_reason"], "stop")
        self.assertEqual(answer["tokens"][-1], stop)
        self.assertNotIn(stop, answer["tokens"][:-1])

    def test_a_file_without_a_template_is_continued_with_a_notice(self):
        result = self.quire("run", LLAMA, "-p", "hello", "-n", "2", "--temp", "0")
        self.assertEqual(result.returncode, 0)
        self.assertIn(b"no chat template", result.stderr)

    def test_a_prompt_beyond_the_context_is_refused_with_the_numbers(self):
        result = self.quire("run", LLAMA, "--raw", "-p", "a" * 600, "-c", "64")
        self.assertEqual(result.returncode, 4)
        self.assertIn(b"context of 64", result.stderr)
        self.assertEqual(result.stdout, b"")

    def test_wrong_arguments_exit_with_2_and_say_what_is_accepted(self):
        for arguments, expected in (
                (["run", LLAMA, "-p", "x", "--temp", "9"], b"temperature"),
                (["run", LLAMA, "-p", "x", "--top-p", "1.5"], b"top_p"),
                (["run", LLAMA, "-p", "x", "--kernels", "sse"], b"avx2"),
                (["run", LLAMA, "-p", "x", "-n", "0"], b"max_tokens"),
                (["run", LLAMA, "-p", "x", "--logit-bias", "AI=3"], b"TOKEN_ID=BIAS"),
                (["run", LLAMA, "-p", "x", "--logit-bias", "999999=3"], b"logit_bias"),
                (["run", LLAMA, "-p", "x", "--threads", "-1"], b"threads"),
                (["run", LLAMA, "--nonsense"], b"nonsense"),
                (["frobnicate"], b"frobnicate"),
                ([], b"subcommand")):
            result = self.quire(*arguments)
            self.assertEqual(result.returncode, 2, (arguments, result.stderr))
            self.assertIn(expected.lower(), result.stderr.lower(), arguments)

    def test_missing_and_foreign_files_exit_with_3(self):
        page = pathlib.Path(self.cache.name) / "page.gguf"
        page.write_text("<!DOCTYPE html><html></html>")
        for path in ("no-such-model", "/no/such/file.gguf", str(page)):
            result = self.quire("run", path, "-p", "x")
            self.assertEqual(result.returncode, 3, (path, result.stderr))
        self.assertIn(b"quire pull", self.quire("run", "gemma-3-270m", "-p", "x").stderr)

    def test_every_verb_has_help(self):
        top = self.quire("--help")
        self.assertEqual(top.returncode, 0)
        for verb in ("run", "pull", "models", "inspect", "tokenize", "explain", "perplexity",
                     "packs"):
            self.assertIn(verb.encode(), top.stdout)
            self.assertEqual(self.quire(verb, "--help").returncode, 0, verb)

    def test_explain_steps_counts_entries_and_windows(self):
        result = self.quire("explain", "steps", GEMMA, "-p", "x" * 30 + "yz", "-n", "6",
                            "--ignore-eos", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        table = json.loads(result.stdout)
        prompt = table["prompt_tokens"]
        self.assertEqual(table["sampled_tokens"], 6)
        self.assertEqual(table["entries"], prompt + 6 - 1)
        rows = table["steps"]
        self.assertEqual(len(rows), prompt + 5)
        for position, row in enumerate(rows):
            self.assertEqual(row["position"], position)
            self.assertEqual(row["entries_read"], position + 1)
            self.assertEqual(row["windowed_layers"],
                             [{"window": 32, "entries_read": min(32, position + 1)}])
            self.assertEqual((row["block"], row["slot"]), (position // 16, position % 16))
            self.assertEqual(row["phase"], "prefill" if position < prompt else "decode")
        self.assertGreater(len(rows), 32)
        # A step that gives logits names its candidates; greedy takes the first.
        for row, following in zip(rows[prompt - 1:], rows[prompt:]):
            self.assertEqual(row["candidates"][0]["token"], following["token"])

    def test_tokenize_and_inspect_speak_json(self):
        tokens = json.loads(self.quire("tokenize", LLAMA, "-p", "hi", "--json").stdout)
        self.assertEqual(len(tokens["tokens"]), tokens["count"])
        inspected = json.loads(self.quire("inspect", LLAMA, "--json").stdout)
        self.assertEqual(inspected["metadata"]["general.architecture"], "llama")

    def test_packs_are_listed_verified_and_removed(self):
        self.answer()
        packs = json.loads(self.quire("packs", "--json").stdout)["packs"]
        self.assertEqual(len(packs), 1)
        verified = self.quire("packs", "verify", LLAMA)
        self.assertEqual(verified.returncode, 0, verified.stderr)
        self.assertIn(packs[0]["digest"].encode(), verified.stdout)
        # A pack whose data was changed is found out and deleted.
        path = pathlib.Path(self.cache.name) / "packs" / (packs[0]["digest"] + ".pack")
        damaged = bytearray(path.read_bytes())
        damaged[-100] ^= 1
        path.write_bytes(damaged)
        self.assertEqual(self.quire("packs", "verify", LLAMA).returncode, 3)
        self.assertFalse(path.exists())
        self.answer()
        self.assertEqual(self.quire("packs", "rm", "--all").returncode, 0)
        self.assertEqual(json.loads(self.quire("packs", "--json").stdout)["packs"], [])

    def test_perplexity_compares_with_saved_logits(self):
        text = pathlib.Path(self.cache.name) / "text"
        text.write_text("the quick brown fox jumps over the lazy dog. " * 8)
        logits = str(pathlib.Path(self.cache.name) / "logits")
        first = self.quire("perplexity", LLAMA, str(text), "--window", "64", "--save-logits",
                           logits, "--json")
        self.assertEqual(first.returncode, 0, first.stderr)
        second = json.loads(self.quire("perplexity", LLAMA, str(text), "--window", "64",
                                       "--kl-divergence", logits, "--kernels", "reference",
                                       "--json").stdout)
        self.assertEqual(second["perplexity"], json.loads(first.stdout)["perplexity"])
        self.assertLess(abs(second["mean_kl_divergence"]), 1e-12)

    def test_an_interrupt_ends_an_answer_with_130(self):
        process = subprocess.Popen(
            [QUIRE, "run", LLAMA, "--raw", "-p", "hello", "-n", "-1", "--ignore-eos",
             "--no-kv-cache", "--kernels", "reference"],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertNotEqual(process.stdout.read(1), b"")
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertLess(time.monotonic() - start, 30)

    def test_a_full_disk_behind_standard_output_is_told_once_by_every_verb(self):
        for words in (["plan", LLAMA], ["plan", LLAMA, "--json"], ["explain", "shapes", LLAMA],
                      ["explain", "shapes", LLAMA, "--json"], ["models"], ["plan", "--help"],
                      ["run", LLAMA, "--raw", "-p", "x", "-n", "1", "--json"]):
            with open("/dev/full", "wb") as full:
                result = subprocess.run([QUIRE, *words], stdout=full, stderr=subprocess.PIPE,
                                        timeout=120, env=self.environment)
            self.assertEqual(result.returncode, 5, (words, result.stderr))
            lines = [line for line in result.stderr.splitlines() if line.startswith(b"quire:")]
            self.assertEqual(lines, [b"quire: standard output: No space left on device"], words)

    def test_a_reader_that_goes_away_is_no_error_of_a_report(self):
        for words in (["plan", LLAMA], ["explain", "shapes", LLAMA, "--json"]):
            reader, writer = os.pipe()
            os.close(reader)
            with open(writer, "wb") as pipe:
                result = subprocess.run([QUIRE, *words], stdout=pipe, stderr=subprocess.PIPE,
                                        timeout=120, env=self.environment)
            self.assertEqual((result.returncode, result.stderr), (0, b""), words)

    def test_an_error_comes_behind_what_was_printed(self):
        path = pathlib.Path(self.cache.name) / "both"
        with open(path, "wb") as both:
            code = subprocess.run([QUIRE, "plan", LLAMA, "--verify", "--memory", "1KiB"],
                                  stdout=both, stderr=both, timeout=120,
                                  env=self.environment).returncode
        self.assertNotEqual(code, 0)
        lines = path.read_bytes().splitlines()
        self.assertGreater(len(lines), 1)
        self.assertTrue(lines[-1].startswith(b"quire: "), lines)

    def test_an_empty_name_of_a_file_is_refused(self):
        result = self.quire("run", LLAMA, "--raw", "-p", "x", "-n", "1", "--trace", "")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(b"--trace", result.stderr)

    def test_a_number_that_is_none_is_refused_by_every_flag(self):
        for words in (["explain", "shapes", LLAMA, "--weight-bits", "nan"],
                      ["plan", LLAMA, "--weight-bits", "-NaN"],
                      ["serve", LLAMA, "--drain-timeout", "nan"],
                      ["run", LLAMA, "-p", "x", "--temp", "nan"]):
            result = self.quire(*words)
            self.assertEqual(result.returncode, 2, (words, result.stderr))
            self.assertIn(b"expected a number", result.stderr, words)

    def test_a_subject_that_is_not_there_is_named(self):
        for verb in ("explain", "cache"):
            result = self.quire(verb, "foo")
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"no subject 'foo' of `quire {verb}`; `quire {verb} --help` lists them",
                          result.stderr.decode())

    def test_a_reader_that_goes_away_ends_the_answer(self):
        process = subprocess.Popen(
            [QUIRE, "run", LLAMA, "--raw", "-p", "hello", "-n", "-1", "--ignore-eos",
             "--no-kv-cache", "--kernels", "reference"],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertNotEqual(process.stdout.read(1), b"")
        process.stdout.close()
        self.assertIn(b"standard output", process.stderr.read())
        process.stderr.close()
        self.assertEqual(process.wait(timeout=60), 5)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
