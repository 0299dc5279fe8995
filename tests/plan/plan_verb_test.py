"""`quire plan` as a person or a script meets it.

    python3 plan_verb_test.py PATH_TO_QUIRE PATH_TO_TESTS [unittest arguments]
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

QUIRE = sys.argv[1]
GOLDEN = pathlib.Path(sys.argv[2]) / "golden" / "models"
DOCS = pathlib.Path(sys.argv[2]).parent / "docs"
LLAMA_8B = {"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
            "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
            "vocab_size": 128256, "max_position_embeddings": 131072, "torch_dtype": "bfloat16"}


class PlanVerbTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.environment = dict(os.environ, QUIRE_CACHE=self.folder.name)

    def quire(self, *arguments):
        return subprocess.run([QUIRE, "plan", *arguments], capture_output=True, text=True,
                              timeout=60, env=self.environment)

    def plan(self, *arguments):
        result = self.quire(*arguments, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def write_config(self, config, name="config.json"):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(json.dumps(config), encoding="utf-8")
        return str(path)

    def test_a_published_shape_has_its_golden_numbers(self):
        plan = self.plan("qwen-7b", "-c", "2048")
        self.assertEqual(plan["layers"][0]["kv_bytes"], 33_554_432)
        self.assertEqual(plan["kv"]["sequence_formula_bytes"], 1_073_741_824)
        self.assertEqual(plan["memory"]["weights_bytes"], 15_442_649_088)
        self.assertEqual(self.plan("llama-13b")["kv"]["bytes_per_token"], 819_200)

    def test_a_card_carries_what_its_cache_holds(self):
        for context, half, whole in ((512, 48, 34), (2048, 12, 8), (4096, 6, 4), (8192, 3, 2)):
            plan = self.plan("qwen-7b", "-c", str(context), "--kv-size", "12GiB")
            self.assertEqual(plan["concurrency"]["worst_case"], half)
            plan = self.plan("qwen-7b", "-c", str(context), "--memory", "24GiB", "--overhead",
                             "1GiB", "--weights-bytes", "15.44GB")
            self.assertEqual(plan["fits"]["sequences"], whole)

    def test_the_documented_card_is_what_the_planner_says(self):
        text = (DOCS / "plan.md").read_text(encoding="utf-8")
        table = text.split("### A 24 GiB card and Qwen-7B")[1]
        rows = re.findall(r"^\| ([\d,]+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", table, re.M)
        self.assertEqual([row[0] for row in rows], ["512", "2,048", "4,096", "8,192"])
        for row in rows:
            context = row[0].replace(",", "")
            naive = self.plan("qwen-7b", "-c", context, "--kv-size", "12GiB")["concurrency"]
            true = self.plan("qwen-7b", "-c", context, "--memory", "24GiB", "--overhead", "1GiB")
            there = true["concurrency"]
            self.assertEqual([naive["worst_case"], true["fits"]["sequences"], there["expected"],
                              there["expected_steady"]], [int(number) for number in row[1:]])
            self.assertEqual(there["worst_case"], true["fits"]["sequences"])

    def test_the_whole_sequences_are_those_that_are_accepted(self):
        for size in ("1GiB", "3GB", "16GiB"):
            asked = ("smollm2-135m", "-c", "4096", "--memory", size)
            plan = self.plan(*asked)
            there = plan["fits"]["sequences"]
            self.assertEqual(plan["concurrency"]["worst_case"], there)
            self.plan(*asked, "--parallel", str(there))
            self.assertEqual(self.quire(*asked, "--parallel", str(there + 1)).returncode, 4)

    def test_what_fits_is_told_for_every_type(self):
        plan = self.plan("llama-3-8b", "-c", "4096", "--sequences", "8", "--memory", "24GiB")
        self.assertEqual(plan["sequences"], 8)
        types = {fit["type"]: fit for fit in plan["fits"]["kv_types"]}
        self.assertEqual(list(types), ["f16", "bf16", "f32", "q8_0", "fp8", "q4_0"])
        self.assertEqual(types["f16"]["largest_context"], plan["fits"]["largest_context"])
        self.assertEqual(types["f16"]["sequences"], plan["fits"]["sequences"])
        for name, fit in types.items():
            with self.subTest(type=name):
                asked = self.plan("llama-3-8b", "--kv-type", name, "--sequences", "8", "-c",
                                  str(fit["largest_context"]), "--memory", "24GiB")
                self.assertEqual(asked["fits"]["largest_context"], fit["largest_context"])
                asked = self.plan("llama-3-8b", "--kv-type", name, "-c", "4096", "--sequences",
                                  str(fit["sequences"]), "--memory", "24GiB")
                self.assertEqual(asked["fits"]["sequences"], fit["sequences"])
        text = self.quire("llama-3-8b", "-c", "4096", "--memory", "24GiB").stdout
        self.assertRegex(text, r"q8_0 +69,632 +[\d,]+ +\d+  8 bits of an element")
        self.assertRegex(text, r"q4_0 .*planned only")

    def test_the_api_document_knows_the_same_shapes(self):
        document = json.loads((DOCS / "openapi.json").read_text(encoding="utf-8"))
        parameters = document["paths"]["/quire/plan"]["get"]["parameters"]
        preset = next(each for each in parameters if each["name"] == "preset")
        known = self.quire("no-such-model").stderr.split("known shapes: ")[1].strip()
        self.assertEqual(preset["schema"]["enum"], known.split(", "))

    def test_gigabytes_and_gibibytes_differ_and_are_labelled(self):
        config = self.write_config(LLAMA_8B)
        for size, tokens in (("8GB", 61_035), ("8GiB", 65_536)):
            plan = self.plan(config, "--kv-size", size)
            self.assertEqual(plan["concurrency"]["largest_context_formula"], tokens)
        text = self.quire(config, "--kv-size", "8GB").stdout
        self.assertIn("8,000,000,000 bytes (7,629.4 MiB, 8,000.0 MB)", text)
        self.assertIn("61035 tokens by the formula, 61024 in blocks", text)
        self.assertEqual(self.quire(config, "--kv-size", "8G").returncode, 2)

    def test_concurrency_says_what_it_assumes(self):
        config = self.write_config(LLAMA_8B)
        text = self.quire(config, "--kv-size", f"{302_921 * 131_072}").stdout
        self.assertIn("each reserves 131072 tokens: 2 whole requests at full length (ratio 2.31)",
                      text)
        self.assertIn("lognormal, mean 161 in and 338 out, sigma 1, at most 2048 in all", text)
        shared = self.plan(config, "--kv-size", "8GiB", "-c", "4096", "--shared-prefix", "2048")
        self.assertEqual(shared["concurrency"]["worst_case"], 16)
        self.assertEqual(shared["concurrency"]["shared_prefix"]["worst_case"], 31)

    def test_a_folder_with_a_configuration_is_a_model(self):
        self.write_config(LLAMA_8B)
        self.assertEqual(self.plan(self.folder.name)["kv"]["bytes_per_token"], 131_072)

    def test_a_file_is_planned_from_its_header(self):
        plan = self.plan(str(GOLDEN / "tiny-gemma3.gguf"))
        self.assertTrue(plan["weights_known"])
        lines = [value for key, value in plan["memory"].items() if not key.startswith("total")]
        self.assertEqual(sum(lines), plan["memory"]["total_bytes"])

    def test_types_that_the_engine_does_not_store_are_labelled(self):
        self.assertTrue(self.plan("llama-3-8b", "--kv-type", "fp8")["kv"]["planned_only"])
        self.assertFalse(self.plan("llama-3-8b", "--kv-type", "q8_0")["kv"]["planned_only"])
        self.assertIn("planned only", self.quire("llama-3-8b", "--kv-type", "q4_0").stdout)

    def test_what_does_not_fit_ends_with_what_would(self):
        result = self.quire("llama-3-8b", "-c", "8192", "--parallel", "16", "--memory", "24GiB")
        self.assertEqual(result.returncode, 4)
        self.assertRegex(result.stderr, r"16 sequences of 8192 tokens need .* bytes")
        self.assertRegex(result.stderr, r"a context of at most \d+ tokens")

    def test_loading_is_weighed_against_computing(self):
        table = self.plan("llama-3-8b", "--prefill-speed", "50,100", "--tier-bandwidth", "131.072MB",
                          "--tier-latency-ms", "24")["break_even"]
        self.assertEqual(table["prefix_tokens"], [256, 1024, 4096])  # of a context of 8,192
        self.assertEqual(table["prefix_bytes"], [n * 131_072 for n in table["prefix_tokens"]])
        self.assertEqual(table["tiers"], [{"bytes_per_second": 131_072_000, "latency_ms": 24,
                                           "measured_in": None, "load_ms": [280, 1048, 4120]}])
        slow, fast = table["prefill"]
        self.assertEqual(slow["tokens_per_second"], 50)
        self.assertEqual(fast["compute_ms"], [2560, 10_240, 40_960])
        # 1 ms a token is loaded, 10 are computed: 24 ms are made good with the first block.
        self.assertEqual(fast["tiers"][0]["loads_from_tokens"], 16)
        self.assertAlmostEqual(fast["tiers"][0]["break_even_bytes_per_second"][0],
                               256 * 131_072 / 2.536, delta=1)
        late = self.plan("llama-3-8b", "--prefill-speed", "100", "--tier-bandwidth", "131.072MB",
                         "--tier-latency-ms", "3000")["break_even"]["prefill"][0]["tiers"][0]
        # n * 10 > 3000 + n
        self.assertEqual(late["loads_from_tokens"], 336)
        self.assertIsNone(late["break_even_bytes_per_second"][0])
        self.assertIsNotNone(late["break_even_bytes_per_second"][1])

    def test_windows_make_a_load_smaller(self):
        tokens = self.plan("gemma-3-1b")["break_even"]
        first, *_, last = [b / n for b, n in zip(tokens["prefix_bytes"], tokens["prefix_tokens"])]
        self.assertLess(last, first / 4)

    def test_the_break_even_stands_in_the_text(self):
        text = self.quire("llama-3-8b", "--prefill-speed", "0.1", "--tier-latency-ms", "1e5").stdout
        self.assertRegex(text, r"tokens of the prefix +256 +1,024 +4,096\n")
        self.assertRegex(text, r"computing, 0.1 tokens/s +2,560 s")
        self.assertRegex(text, r"loading, 100 MB/s +100 s")
        text = self.quire("llama-3-8b", "--prefill-speed", "100", "--tier-bandwidth", "1MB").stdout
        self.assertRegex(text, r"beside 100 tokens/s +13.1 MB/s +13.1 MB/s")
        self.assertRegex(text, r"beside 100 tokens/s +never\n")

    def test_a_directory_is_measured_and_left_as_it_was(self):
        plan = self.plan("llama-3-8b", "--kv-disk", self.folder.name, "--tier-bandwidth", "1MB")
        given, measured = plan["break_even"]["tiers"]
        self.assertEqual(given["bytes_per_second"], 1_000_000)
        self.assertIsNone(given["measured_in"])
        self.assertEqual(measured["measured_in"], self.folder.name)
        self.assertGreater(measured["bytes_per_second"], 1_000_000)
        self.assertGreater(measured["latency_ms"], 0)
        self.assertEqual(os.listdir(self.folder.name), [])
        text = self.quire("llama-3-8b", "--kv-disk", self.folder.name).stdout
        self.assertIn(f"measured in {self.folder.name}: ", text)
        self.assertIn("it is the speed of memory", text)

    def test_wrong_input_is_told_and_is_no_crash(self):
        broken = pathlib.Path(self.folder.name) / "broken.json"
        broken.write_text("{", encoding="utf-8")
        unknown = self.write_config({"num_hidden_layers": 2, "hidden_size": 64,
                                     "num_attention_heads": 4, "num_kv_groups": 2}, "unknown.json")
        for arguments, code, words in (
                (["no-such-model"], 3, "known shapes"),
                ([str(broken)], 3, "not JSON"),
                ([unknown], 3, "num_kv_groups"),
                ([self.folder.name + "/missing.gguf"], 3, "no such file"),
                ([self.folder.name + "/missing.json"], 3, "cannot open"),
                (["llama-3-8b", "--kv-type", "q3"], 2, "kv-type"),
                (["llama-3-8b", "--parallel", "0"], 2, "expected 1 to"),
                (["llama-3-8b", "-c", "-1"], 2, "expected 0 to"),
                (["llama-3-8b", "--memory", "lots"], 2, "GiB"),
                (["llama-3-8b", "--memory", "64GiB", "--sigma", "9"], 2, "sigma"),
                (["llama-3-8b", "--sigma", "nan"], 2, "--sigma: expected a number"),
                (["llama-3-8b", "--sigma", "inf"], 2, "sigma of inf; expected 0 to 4"),
                (["llama-3-8b", "--mean-input", "-5"], 2, "mean input of -5"),
                (["llama-3-8b", "--mean-output", "nan"], 2, "--mean-output: expected a number"),
                (["llama-3-8b", "--max-total", "0"], 2, "longest sequence of 0"),
                (["llama-3-8b", "--shared-prefix", "-4"], 2, "shared prefix of -4"),
                (["llama-3-8b", "-c", "100", "--shared-prefix", "100"], 2, "a context of 100"),
                (["llama-3-8b", "--weight-bits", "0"], 2, "weight-bits"),
                (["llama-3-8b", "--weight-bits", "nan"], 2, "--weight-bits: expected a number"),
                (["llama-3-8b", "--prefill-speed", "0"], 2, "--prefill-speed: expected 0.001"),
                (["llama-3-8b", "--prefill-speed", "nan"], 2, "--prefill-speed"),
                (["llama-3-8b", "--tier-bandwidth", "0B"], 2, "--tier-bandwidth: expected 1"),
                (["llama-3-8b", "--tier-bandwidth", "1G"], 2, "1G"),
                (["llama-3-8b", "--tier-latency-ms", "-1"], 2, "--tier-latency-ms: expected 0"),
                (["llama-3-8b", "--kv-disk", self.folder.name + "/none"], 3, "no such directory"),
                (["llama-3-8b", "--kv-disk", str(broken)], 3, "no such directory"),
                ([str(GOLDEN)], None, "")):
            result = self.quire(*arguments)
            if code is None:
                self.assertGreater(result.returncode, 0, arguments)
            else:
                self.assertEqual(result.returncode, code, (arguments, result.stderr))
            self.assertIn(words, result.stderr, arguments)

    def test_no_weights_are_read(self):
        # A file of 16 GiB without a byte on the disk: reading it would take seconds.
        path = pathlib.Path(self.folder.name) / "large.gguf"
        path.write_bytes((GOLDEN / "tiny-llama.gguf").read_bytes())
        os.truncate(path, 16 << 30)
        start = time.monotonic()
        self.plan(str(path))
        self.assertLess(time.monotonic() - start, 2.0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
