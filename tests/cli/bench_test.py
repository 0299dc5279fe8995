"""`quire bench --limits` as a script meets it.

    python3 bench_test.py PATH_TO_QUIRE PATH_TO_TESTS [unittest arguments]
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

QUIRE = sys.argv[1]
LLAMA = str(pathlib.Path(sys.argv[2]) / "golden" / "models" / "tiny-llama.gguf")


class LimitsTest(unittest.TestCase):
    def setUp(self):
        self.cache = tempfile.TemporaryDirectory()
        self.addCleanup(self.cache.cleanup)

    def bench(self, *words):
        return subprocess.run([QUIRE, "bench", *words], capture_output=True, text=True,
                              timeout=120, env=dict(os.environ, QUIRE_CACHE=self.cache.name))

    def refused(self, *words):
        result = self.bench(*words)
        self.assertEqual(2, result.returncode, result.stderr)
        self.assertEqual("", result.stdout)
        return result.stderr

    def test_the_limits_need_no_model(self):
        result = self.bench("--limits", "--working-set", "64KiB,1MiB", "-t", "2", "-r", "1",
                            "--json")
        self.assertEqual(0, result.returncode, result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual([65536, 1048576], [read["bytes"] for read in report["reads"]])
        for read in report["reads"]:
            self.assertGreater(read["median_bytes_per_second"], 1e6)
        self.assertGreater(report["int8_ops_per_second"], report["f32_ops_per_second"])

    def test_each_speed_test_says_its_share(self):
        result = self.bench(LLAMA, "--limits", "-t", "1", "-r", "2", "-p", "16", "-n", "4",
                            "--npl", "1,2", "--json")
        self.assertEqual(0, result.returncode, result.stderr)
        tests = json.loads(result.stdout)["tests"]
        self.assertEqual([(16, 0, 1), (0, 4, 1), (16, 0, 2), (0, 4, 2)],
                         [(test["n_prompt"], test["n_gen"], test["n_parallel"]) for test in tests])
        for test in tests:
            self.assertEqual(2, len(test["samples_ts"]))
            self.assertGreater(test["limits"]["share_of_read"], 0)
            self.assertIn(test["limits"]["bound_by"], ("memory", "compute"))

    def test_people_read_a_table(self):
        result = self.bench("--limits", "--working-set", "64KiB", "-r", "1")
        self.assertIn("64 KiB", result.stdout)
        result = self.bench(LLAMA, "--limits", "-r", "1", "-p", "16", "-n", "0")
        self.assertIn("of int8 peak", result.stdout)

    def test_what_does_not_go_together_is_refused(self):
        self.assertIn("MODEL is required", self.refused())
        self.assertIn("not with --load", self.refused(LLAMA, "--limits", "--load", "sharegpt"))
        self.assertIn("without a MODEL", self.refused(LLAMA, "--limits", "--working-set", "1MiB"))
        self.assertIn("too small", self.refused("--limits", "--working-set", "100"))
        self.assertIn("nosuch", self.refused("--limits", "--kernels", "nosuch"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
