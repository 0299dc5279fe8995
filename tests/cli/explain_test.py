"""`quire explain shapes`, `roofline` and `growth` from outside, over the tiny models.

    python3 explain_test.py PATH_TO_QUIRE PATH_TO_TESTS [unittest arguments]
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

QUIRE = sys.argv[1]
GOLDEN = pathlib.Path(sys.argv[2]) / "golden" / "models"
LLAMA = str(GOLDEN / "tiny-llama.gguf")
GEMMA = str(GOLDEN / "tiny-gemma3.gguf")
CLASSIC = str(GOLDEN / "tiny-classic.gguf")


class ExplainTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def quire(self, *arguments):
        return subprocess.run([QUIRE, *arguments], capture_output=True, timeout=120,
                              env=dict(os.environ, QUIRE_CACHE=self.folder.name))

    def text_of(self, *arguments):
        result = self.quire("explain", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.decode()

    def json_of(self, *arguments):
        return json.loads(self.text_of(*arguments, "--json"))

    def data_of_page(self, view, *arguments):
        path = pathlib.Path(self.folder.name) / "page.html"
        self.text_of(view, *arguments, "--html", str(path))
        page = path.read_text(encoding="utf-8")
        data = re.search(r'<script id="quire-data" type="application/json">(.*?)</script>', page,
                         re.DOTALL)
        self.assertIsNotNone(data)
        return json.loads(data.group(1))


class ShapesTest(ExplainTest):
    def test_parameters_of_a_published_shape_need_no_file(self):
        graph = self.json_of("shapes", "smollm2-135m")
        self.assertEqual(graph["parameters"], 134_515_008)
        self.assertEqual(graph["version"], 1)
        self.assertEqual(graph["num_layers"], 30)
        self.assertTrue(graph["tied_output"])
        self.assertEqual([part["num_layers"] for part in graph["parts"]], [0, 30, 0])

    def test_sums_over_the_stages_are_the_totals(self):
        for model in sorted(GOLDEN.glob("*.gguf")):
            with self.subTest(model=model.name):
                graph = self.json_of("shapes", str(model), "-p", "20")
                stages = [stage for part in graph["parts"] for stage in part["stages"]]
                for name in ("parameters", "held_bytes"):
                    self.assertEqual(sum(stage[name] for stage in stages), graph[name])
                for phase in ("prefill", "decode"):
                    for name in ("ops", "weight_bytes", "kv_bytes", "elementwise_ops"):
                        self.assertEqual(sum(stage[phase][name] for stage in stages),
                                         graph[phase][name], (phase, name))

    def test_decode_is_one_row_wherever_it_is(self):
        graph = self.json_of("shapes", LLAMA, "-p", "20", "-d", "40")
        layers = graph["parts"][1]
        stages = {stage["name"]: stage for stage in layers["stages"]}
        heads, key_heads = layers["num_heads"], layers["num_kv_heads"]
        self.assertEqual(stages["query"]["prefill"]["out"], [20, heads, layers["key_dim"]])
        self.assertEqual(stages["key"]["decode"]["out"], [1, key_heads, layers["key_dim"]])
        self.assertEqual(stages["scores"]["prefill"]["out"], [heads, 20, 20])
        self.assertEqual(stages["scores"]["decode"]["out"], [heads, 1, 41])

    def test_the_table_names_every_stage(self):
        text = self.text_of("shapes", CLASSIC)
        for word in ("position embedding", "queries", "softmax", "residual", "output layer",
                     "learned positions"):
            self.assertIn(word, text)
        self.assertIn("the last", self.text_of("shapes", GEMMA))

    def test_a_page_holds_what_the_json_tells(self):
        data = self.data_of_page("shapes", LLAMA)
        self.assertEqual(data, {"view": "shapes", "shapes": self.json_of("shapes", LLAMA)})

    def test_refusals_say_what_to_do(self):
        for arguments, words in ((["no-such-model"], b"known shapes"),
                                 ([LLAMA, "-p", "0"], b"expected 1 to"),
                                 ([LLAMA, "--weight-bits", "nan"], b"expected a number, got nan"),
                                 ([LLAMA, "--html", "/no/such/folder/page.html"], b"cannot write")):
            result = self.quire("explain", "shapes", *arguments)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(words, result.stderr)


class PageFileTest(ExplainTest):
    def test_a_page_replaces_a_page_and_nothing_else(self):
        folder = pathlib.Path(self.folder.name)
        page = folder / "page.html"
        for _ in range(2):
            self.text_of("shapes", LLAMA, "--html", str(page))
        model = folder / "model.gguf"
        model.write_bytes(pathlib.Path(LLAMA).read_bytes())
        notes = folder / "notes.html"
        notes.write_text("<!DOCTYPE html>\n<html><title>Notes</title></html>")
        for subject in ("shapes", "roofline", "growth"):
            for target in (model, notes):
                before = target.read_bytes()
                result = self.quire("explain", subject, str(model), "--html", str(target))
                self.assertEqual(result.returncode, 2, (subject, result.stderr))
                self.assertIn(f"{target} is there and is not a page".encode(), result.stderr)
                self.assertEqual(result.stdout, b"")
                self.assertEqual(target.read_bytes(), before)

    def test_no_name_is_refused_and_a_full_disk_is_told(self):
        for target, code, words in (("", 2, b"got no name"),
                                    ("/dev/full", 5, b"/dev/full: No space left on device")):
            result = self.quire("explain", "shapes", LLAMA, "--html", target)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(words, result.stderr)
            self.assertNotIn(b"QUIRE_CACHE", result.stderr)


class TraceTest(ExplainTest):
    def setUp(self):
        super().setUp()
        self.trace = str(pathlib.Path(self.folder.name) / "trace")
        result = self.quire("run", LLAMA, "--raw", "-p", "hello", "-n", "2", "-t", "1", "--trace",
                            self.trace)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_chrome_trace_replaces_a_chrome_trace_and_nothing_else(self):
        folder = pathlib.Path(self.folder.name)
        chrome = folder / "chrome.json"
        for _ in range(2):
            self.text_of("trace", self.trace, "--chrome", str(chrome))
        settings = folder / "settings.json"
        settings.write_text('{"theme":"dark"}')
        for target, words in ((settings, "is not a Chrome trace"), ("", "got no name")):
            result = self.quire("explain", "trace", self.trace, "--chrome", str(target))
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(words, result.stderr.decode())
        self.assertEqual(settings.read_text(), '{"theme":"dark"}')

    def test_the_list_says_what_it_leaves_out_and_marks_pins(self):
        with open(self.trace, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        end = next(line for line in lines if line["event"] == "end")
        for number in range(100, 124):
            is_pin = number == 100
            lines.append({"event": "request", "ms": 1.0, "request": number, "name": f"n{number}",
                          **({"is_pin": True} if is_pin else {})})
            lines.append({**end, "ms": 2e6, "request": number, "total_ms": 1e6 - number})
        with open(self.trace, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        text = self.text_of("trace", self.trace)
        self.assertIn("1 thread,", text)
        self.assertIn("the 20 slowest of 24 requests and 1 pin, longest first; -n 0 shows all", text)
        self.assertRegex(text, r" 100 .*\(pin\) n100\n")
        self.assertNotIn("n123", text)
        text = self.text_of("trace", self.trace, "-n", "0")
        self.assertIn("\n24 requests and 1 pin, longest first (", text)
        self.assertIn("n123", text)


class RooflineTest(ExplainTest):
    FLAGS = ("-p", "16", "-n", "4", "-d", "0,32", "-t", "1")

    def test_every_operator_has_a_point_in_each_phase_and_depth(self):
        roofline = self.json_of("roofline", LLAMA, *self.FLAGS)
        points = roofline["points"]
        self.assertEqual({(p["phase"], p["depth"]) for p in points},
                         {("prefill", 0), ("prefill", 32), ("decode", 0), ("decode", 32)})
        for phase, depth in (("prefill", 0), ("decode", 32)):
            here = {p["operators"]: p for p in points
                    if (p["phase"], p["depth"]) == (phase, depth)}
            self.assertEqual(set(here), {"all", "embed", "norm", "project", "store_kv", "attend",
                                         "feed_forward", "output"})
            every = here.pop("all")
            for name in ("ops", "weight_bytes", "kv_bytes"):
                self.assertEqual(sum(p[name] for p in here.values()), every[name])
            total = sum(p["ms"] for p in here.values())
            self.assertLessEqual(total, every["ms"])
            self.assertGreater(here["attend"]["fraction"], 0)

    def test_ceilings_are_there_for_memory_and_arithmetic(self):
        roofline = self.json_of("roofline", LLAMA, *self.FLAGS)
        memory = roofline["ceilings"]["memory"]
        self.assertEqual(memory[-1]["name"], "weights")
        self.assertEqual(roofline["limits"]["bytes_per_second"], memory[-1]["bytes_per_second"])
        self.assertEqual([kind["name"] for kind in roofline["ceilings"]["arithmetic"]],
                         ["int8", "f32"])
        self.assertTrue(all(level["bytes_per_second"] > 0 for level in memory))

    def test_the_plot_is_drawn(self):
        text = self.text_of("roofline", LLAMA, *self.FLAGS)
        self.assertIn("operations a byte", text)
        self.assertIn("G operations a second", text)

    def test_a_page_holds_the_points(self):
        data = self.data_of_page("roofline", LLAMA, *self.FLAGS)
        self.assertEqual(data["view"], "roofline")
        self.assertEqual(len(data["roofline"]["points"]), 4 * 8)

    def test_depths_beyond_the_context_are_refused(self):
        result = self.quire("explain", "roofline", LLAMA, "-d", "1000000")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(b"context", result.stderr)


class GrowthTest(ExplainTest):
    def test_the_engine_uses_the_blocks_that_are_expected(self):
        for model, flags in ((LLAMA, ["--prefill-chunk", "24"]), (GEMMA, ["--prefill-chunk", "16"]),
                             (CLASSIC, [])):
            with self.subTest(model=model):
                growth = self.json_of("growth", model, "-p", "100", "-n", "20", *flags)
                measured = growth["measured"]
                self.assertGreaterEqual(len(measured), 20)
                for point in measured:
                    self.assertEqual(point["used_blocks"], point["expected_blocks"], point)
                    self.assertEqual(point["used_bytes"],
                                     point["used_blocks"] * growth["block_bytes"])
                self.assertEqual([p["tokens"] for p in measured],
                                 sorted({p["tokens"] for p in measured}))
                self.assertEqual(measured[-1]["tokens"], 119)

    def test_curves_are_of_the_same_tokens(self):
        growth = self.json_of("growth", GEMMA, "-n", "0", "--points", "9")
        self.assertEqual(growth["measured"], [])
        series = {one["name"]: one for one in growth["series"]}
        for one in series.values():
            self.assertEqual(len(one["bytes"]), len(growth["tokens"]))
        for tokens, formula, grouped, blocks in zip(growth["tokens"], series["formula"]["bytes"],
                                                    series["grouped"]["bytes"],
                                                    series["blocks"]["bytes"]):
            self.assertEqual(grouped, tokens * growth["bytes_per_token"])
            self.assertLessEqual(formula, grouped)
            self.assertLessEqual(formula, blocks)

    def test_the_table_tells_the_formula_and_the_run(self):
        text = self.text_of("growth", LLAMA, "-p", "40", "-n", "4")
        self.assertIn("a token takes, in f16", text)
        self.assertIn("0 of ", text)
        self.assertIn("multi_head", text)

    def test_a_page_holds_the_curves(self):
        data = self.data_of_page("growth", LLAMA, "-n", "0")
        self.assertEqual(data, {"view": "growth",
                                "growth": self.json_of("growth", LLAMA, "-n", "0")})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
