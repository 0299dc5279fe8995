"""`quire plan --verify` and `--floors` as a person meets them.

    python3 plan_verify_test.py PATH_TO_QUIRE PATH_TO_TESTS [TinyTest | ModelsTest] [-v]
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
ITEMS = ["weights", "kv", "tables", "activations", "logits", "text", "process", "rounding", "total",
         "kv_bytes_per_block", "kv_bytes_per_token", "kv_blocks", "sequences"]


def run(*arguments, cache=None):
    environment = dict(os.environ)
    if cache:
        environment["QUIRE_CACHE"] = cache
    return subprocess.run([QUIRE, "plan", *map(str, arguments)], capture_output=True, text=True,
                          env=environment)


def faults(verify):
    return [item for item in verify["items"] if not item["holds"]]


class TinyTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_tiny(self, name, *arguments):
        return run(GOLDEN / f"{name}.gguf", "-t", 2, *arguments, cache=self.folder.name)

    def test_every_item_is_predicted(self):
        for name, shape in (("tiny-llama", ("-c", 128, "--parallel", 3, "--prefill-chunk", 32)),
                            ("tiny-gemma3", ("-c", 256, "--parallel", 2)),
                            ("tiny-qwen3", ("-c", 64, "--parallel", 5, "--kv-type", "f32"))):
            result = self.run_tiny(name, "--verify", *shape, "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            plan = json.loads(result.stdout)
            self.assertEqual([item["name"] for item in plan["verify"]["items"]], ITEMS)
            self.assertTrue(plan["verify"]["holds"])
            for item in plan["verify"]["items"]:
                off = abs(item["measured"] - item["predicted"])
                self.assertLessEqual(off, item["allowed"], item)
                if f"{item['name']}_bytes" in plan["memory"]:
                    self.assertEqual(item["predicted"], plan["memory"][f"{item['name']}_bytes"])

    def test_predicted_and_measured_stand_side_by_side(self):
        result = self.run_tiny("tiny-llama", "--verify", "-c", 64)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"predicted and measured +predicted +measured +off")
        self.assertRegex(result.stdout, r"blocks +4 +4 +\+0 +0.0 %")
        self.assertIn("all hold", result.stdout)
        self.assertEqual(result.stderr, "")  # progress is for terminals

    def test_floors_are_below_what_is_measured(self):
        result = self.run_tiny("tiny-llama", "--verify", "--floors", "-c", 128, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        floors = json.loads(result.stdout)["floors"]
        self.assertEqual([row["depth"] for row in floors["depths"]], [0])
        for row in floors["depths"]:
            for time_name in ("ttft", "tpot"):
                self.assertGreater(row[time_name]["floor_ms"], 0)
                self.assertGreater(row[time_name]["measured_ms"], 0)
        self.assertTrue(floors["holds"])
        ridge = floors["int8_ops_per_second"] / floors["bytes_per_second"]
        self.assertAlmostEqual(floors["ridge_int8_ops_per_byte"], ridge)

    def test_floors_need_no_weights(self):
        result = self.run_tiny("tiny-llama", "--floors", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        for row in json.loads(result.stdout)["floors"]["depths"]:
            self.assertNotIn("measured_ms", row["ttft"])
            self.assertEqual(row["ttft"]["floor_ms"],
                             max(row["ttft"]["memory_ms"], row["ttft"]["compute_ms"]))
        text = self.run_tiny("tiny-llama", "--floors").stdout
        self.assertRegex(text, r"ridge: [\d.]+ int8 or [\d.]+ f32 operations a byte")
        self.assertRegex(text, r"TPOT of one sequence +[\d.]+ ms at least")
        self.assertRegex(text, r"decode is bound by arithmetic (from \d+|at no)")

    def test_what_cannot_be_verified_is_told(self):
        for arguments, words in (
                (["llama-3-8b", "--verify"], "needs a GGUF file"),
                (["llama-3-8b", "--floors"], "needs a GGUF file"),
                ([GOLDEN / "tiny-llama.gguf", "--verify", "-c", 16], "takes 32 or more"),
                ([GOLDEN / "tiny-llama.gguf", "--verify", "--overhead", "1GiB"], "--overhead"),
                ([GOLDEN / "tiny-llama.gguf", "--verify", "--weight-bits", "4"], "--weight-bits"),
                ([GOLDEN / "tiny-llama.gguf", "--verify", "--kv-type", "fp8"], "does not store fp8"),
                ([GOLDEN / "tiny-llama.gguf", "--verify", "-c", 1 << 20], "was made for 1 to")):
            result = run(*arguments, cache=self.folder.name)
            self.assertEqual(result.returncode, 2, (arguments, result.stderr))
            self.assertIn(words, result.stderr)

    def test_an_interrupt_ends_it(self):
        process = subprocess.Popen(
            [QUIRE, "plan", str(GOLDEN / "tiny-llama3-rope.gguf"), "--verify", "-c", "4096",
             "--parallel", "256", "--prefill-chunk", "1"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=dict(os.environ, QUIRE_CACHE=self.folder.name))
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("interrupted", errors)
        self.assertEqual(output, "")


class ModelsTest(unittest.TestCase):
    """Three contexts and three shapes of a batch each: sequences, and tokens a step."""
    CONTEXTS = (256, 512, 1024)
    SHAPES = ((1, 512), (4, 256), (8, 64))

    def test_every_item_of_the_known_models_holds(self):
        listing = json.loads(subprocess.run([QUIRE, "models", "--json"], check=True,
                                            capture_output=True).stdout)
        wanted = os.environ.get("QUIRE_VERIFY_MODELS", "").split(",")
        checked = 0
        for model in listing["models"]:
            name = model["name"]
            if wanted != [""] and name not in wanted:
                continue
            if subprocess.run([QUIRE, "inspect", name], capture_output=True).returncode != 0:
                continue
            for context in self.CONTEXTS:
                for sequences, chunk in self.SHAPES:
                    with self.subTest(model=name, context=context, sequences=sequences,
                                      chunk=chunk):
                        result = run(name, "--verify", "-c", context, "--parallel", sequences,
                                     "--prefill-chunk", chunk, "-t", 2, "--json")
                        self.assertIn(result.returncode, (0, 1), result.stderr)
                        verify = json.loads(result.stdout)["verify"]
                        total = next(i for i in verify["items"] if i["name"] == "total")
                        off = 100 * (total["measured"] / total["predicted"] - 1)
                        print(f"{name:30} {context:5} tokens {sequences} x {chunk:3}: total "
                              f"{off:+.1f} %, {len(faults(verify))} off", flush=True)
                        self.assertEqual(faults(verify), [])
                        checked += 1
        if checked == 0:
            self.skipTest("no model is in the cache")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
