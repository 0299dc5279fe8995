"""What decides in bench/compare: what is noise, what a ratio is, which rows are run again."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "compare"))

import engines  # noqa: E402
import idle  # noqa: E402
import models  # noqa: E402
import results  # noqa: E402
import rounds  # noqa: E402
import rows  # noqa: E402

DECODE = next(row for row in rows.ROWS if row.name == "decode@0")
LOAD = next(row for row in rows.ROWS if row.name == "load")


class FakeClock:
    """Readings that a test sets; `own` is part of `busy`, as in the system's count."""

    def __init__(self):
        self.at = {"wall": 0.0, "busy": 100.0, "own": 7.0}

    def pass_time(self, wall, own, others):
        self.at["wall"] += wall
        self.at["busy"] += own + others
        self.at["own"] += own

    def wall(self):
        return self.at["wall"]

    def busy(self):
        return self.at["busy"]

    def own(self):
        return self.at["own"]


class FakeEngine:
    def __init__(self, name, values, log=None, error=None):
        self.name, self.values, self.log, self.error = name, list(values), log, error

    def measure(self, row, file):
        if self.log is not None:
            self.log.append(self.name)
        if self.error:
            raise rounds.NotMeasured(self.error)
        return rounds.Measured(self.values.pop(0))


class FakeMeters:
    """Each new meter says the next of these."""

    def __init__(self, others):
        self.others_left = list(others)

    def __call__(self):
        value = self.others_left.pop(0)
        meter = idle.Meter(FakeClock())
        meter.others = lambda: value
        return meter


def run(engines_, others, row=DECODE, **rules):
    return rounds.run_rounds(row, "file", engines_, lambda file: 1e9, rounds.Rules(**rules),
                             lambda words: None, FakeMeters(others))


class IdleTest(unittest.TestCase):
    def test_busy_time_leaves_out_idle_iowait_and_guests(self):
        stat = "cpu  100 20 30 4000 500 6 7 8 90 10\ncpu0 1 2 3\n"
        self.assertEqual((100 + 20 + 30 + 6 + 7 + 8) / 100, idle.busy_seconds(stat, 100))

    def test_a_file_that_is_not_proc_stat_is_refused(self):
        with self.assertRaises(ValueError):
            idle.busy_seconds("intr 5\n", 100)

    def test_what_this_process_and_its_children_take_is_not_others(self):
        clock = FakeClock()
        meter = idle.Meter(clock)
        clock.pass_time(wall=10, own=20, others=0)
        self.assertAlmostEqual(0, meter.others())

    def test_others_are_counted_in_processors(self):
        clock = FakeClock()
        meter = idle.Meter(clock)
        clock.pass_time(wall=10, own=12, others=5)
        self.assertAlmostEqual(0.5, meter.others())

    def test_the_real_clock_sees_its_own_work_as_its_own(self):
        meter = idle.Meter()
        before = meter.clock.own()
        while meter.clock.own() - before < 0.1:
            sum(range(10000))
        self.assertGreaterEqual(meter.clock.busy() - meter.start[1], 0.05)


class RoundsTest(unittest.TestCase):
    def test_engines_take_turns_with_a_read_before_each(self):
        log = []
        reads = []
        pair = [FakeEngine("quire", [1, 2], log), FakeEngine("peer", [1, 2], log)]
        rounds.run_rounds(DECODE, "file", pair, lambda file: reads.append(len(log)) or 1.0,
                          rounds.Rules(rounds=2), lambda words: None, FakeMeters([0, 0]))
        self.assertEqual(["quire", "peer", "quire", "peer"], log)
        self.assertEqual([0, 1, 2, 3], reads)

    def test_a_noisy_round_is_run_again_and_its_values_dropped(self):
        found, _ = run([FakeEngine("quire", [5, 100]), FakeEngine("peer", [1, 50])], [0.9, 0.0],
                       rounds=1)
        self.assertEqual([{"quire": 100, "peer": 50}], [row["values"] for row in found])
        self.assertFalse(found[0]["noisy"])

    def test_a_round_that_stays_noisy_is_kept_and_marked(self):
        found, _ = run([FakeEngine("quire", [1, 2, 3])], [0.9, 0.8, 0.7], rounds=1, retries=2)
        self.assertEqual({"quire": 3}, found[0]["values"])
        self.assertTrue(found[0]["noisy"])
        self.assertEqual(1, rounds.summarize(DECODE, found, [])["noisy_rounds"])

    def test_at_the_limit_is_quiet(self):
        found, _ = run([FakeEngine("quire", [1])], [0.1], rounds=1, idle_limit=0.1)
        self.assertFalse(found[0]["noisy"])

    def test_an_engine_that_cannot_is_named_and_not_asked_again(self):
        log = []
        peer = FakeEngine("peer", [], log, error="does not load")
        found, not_measured = run([FakeEngine("quire", [1, 2], log), peer], [0, 0], rounds=2)
        self.assertEqual({"peer": "does not load"}, not_measured)
        self.assertEqual(["quire", "peer", "quire"], log)
        self.assertEqual(2, len(found))

    def test_the_first_start_of_servers_is_not_counted(self):
        found, _ = run([FakeEngine("quire", [9.0, 1.0])], [0, 0], row=LOAD, rounds=1)
        self.assertEqual([{"quire": 1.0}], [row["values"] for row in found])


def rounds_of(*pairs):
    return [{"values": {"quire": ours, "peer": theirs}, "shares": {},
             "read_bytes_per_second": [1.0], "noisy": False} for ours, theirs in pairs]


class FiguresTest(unittest.TestCase):
    def test_the_ratio_is_the_median_of_the_rounds_ratios(self):
        # Not the ratio of the medians, which is 20 / 30.
        found = rounds_of((10, 5), (20, 30), (90, 30))
        self.assertEqual(2, rounds.ratio_of(found, "quire", "peer", lower_is_better=False))

    def test_less_is_better_for_time_and_memory(self):
        self.assertEqual(4, rounds.ratio_of(rounds_of((2, 8)), "quire", "peer", True))
        self.assertEqual(4, rounds.summarize(LOAD, rounds_of((2, 8)), ["peer"])["ratios"]["peer"])

    def test_a_peer_without_values_has_no_ratio(self):
        found = rounds_of((1, 2))
        del found[0]["values"]["peer"]
        figures = rounds.summarize(DECODE, found, ["peer"])
        self.assertEqual({}, figures["ratios"])
        self.assertEqual(["quire"], list(figures["engines"]))

    def test_the_spread_is_lowest_and_highest(self):
        figures = rounds.summarize(DECODE, rounds_of((3, 1), (1, 1), (2, 1)), ["peer"])
        self.assertEqual({"median": 2, "lowest": 1, "highest": 3}, figures["engines"]["quire"])


def record_of(row="decode@0", model="1.5b-q4_k_m", num_rounds=5, value=10.0, **others):
    found = rounds_of(*[(value, 5.0)] * num_rounds)
    return {"model": model, "row": row, "unit": "tok/s", "threads": 2, "kernels": "",
            "peers": ["peer"], "machine": "a machine", "date": "2026-01-02T03:04:05",
            **rounds.summarize(DECODE, found, ["peer"]), "not_measured": {}, "rounds": found,
            **others}


class ResumeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "deeper" / "results.jsonl"

    def read(self):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            found = results.Results(self.path)
        return found, said.getvalue()

    def test_a_row_that_is_there_is_known_after_a_restart(self):
        results.Results(self.path).add(record_of())
        again, _ = self.read()
        self.assertTrue(again.has(record_of(), 5))
        self.assertFalse(again.has(record_of(row="decode@2048"), 5))

    def test_other_threads_kernels_or_peers_are_another_row(self):
        results.Results(self.path).add(record_of())
        again, _ = self.read()
        for change in ({"threads": 1}, {"kernels": "avx2"}, {"peers": ["peer", "other"]}):
            self.assertFalse(again.has(record_of(**change), 5), change)

    def test_fewer_rounds_than_asked_are_run_again(self):
        results.Results(self.path).add(record_of(num_rounds=1))
        self.assertFalse(self.read()[0].has(record_of(), 5))

    def test_the_last_of_two_measurements_counts(self):
        store = results.Results(self.path)
        store.add(record_of(value=10.0))
        store.add(record_of(value=20.0))
        records = list(self.read()[0].records.values())
        self.assertEqual([20.0], [record["engines"]["quire"]["median"] for record in records])

    def test_a_line_that_was_cut_off_is_passed_over_and_what_follows_is_kept(self):
        results.Results(self.path).add(record_of())
        self.path.write_text(self.path.read_text() + json.dumps(record_of(row="load"))[:50])
        again, said = self.read()
        self.assertIn(":2 is no result", said)
        self.assertFalse(again.has(record_of(row="load"), 5))
        again.add(record_of(row="load"))
        self.assertTrue(self.read()[0].has(record_of(row="load"), 5))


class TableTest(unittest.TestCase):
    def test_a_row_shows_median_spread_ratio_share_and_noise(self):
        record = record_of(share_of_read=0.853)
        record["rounds"][0]["noisy"] = True
        record["noisy_rounds"] = 1
        line = results.table([record]).splitlines()[-1]
        for words in ("10.0 (10.0 to 10.0)", "| 2.00 |", "85 %", "noisy: 1 of 5 rounds"):
            self.assertIn(words, line)

    def test_a_peer_that_could_not_is_named_with_the_reason(self):
        record = record_of(peers=["peer", "vLLM"], not_measured={"vLLM": "needs a model folder"})
        line = results.table([record]).splitlines()[-1]
        self.assertIn("not measured", line)
        self.assertIn("vLLM: needs a model folder", line)


class ChoiceTest(unittest.TestCase):
    def test_globs_choose_in_the_order_of_the_table(self):
        names = [row.name for row in rows.ROWS]
        self.assertEqual(["prefill@256", "decode@0"],
                         rows.chosen(names, "decode@0,prefill@256", "row"))

    def test_a_glob_that_names_nothing_is_refused(self):
        with self.assertRaises(SystemExit):
            rows.chosen(["decode@0"], "decode@1", "row")

    def test_the_deepest_row_is_for_the_largest_files_alone(self):
        row = next(row for row in rows.ROWS if row.depth == 8192)
        having = [label for label in models.LABELS if rows.matches(label, [row.only])]
        self.assertEqual(["1.5b-q4_k_m", "1.5b-q4_0", "1.5b-q8_0", "1.5b-f16"], having)


class PeersTest(unittest.TestCase):
    def test_a_program_that_is_not_there_is_not_measured(self):
        with self.assertRaisesRegex(rounds.NotMeasured, "is not there"):
            engines.LlamaCpp(pathlib.Path("/nonexistent"), 2).measure(DECODE, "file.gguf")

    def test_a_program_that_fails_says_its_last_words(self):
        with self.assertRaisesRegex(rounds.NotMeasured, "ended with 3: no such model"):
            engines.output_of([sys.executable, "-c",
                               "import sys; print('no such model', file=sys.stderr); sys.exit(3)"])

    def test_speeds_are_read_from_what_the_peers_print(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            self.script(folder / "llama-bench",
                        '[{"n_gen": 64, "n_prompt": 0, "samples_ts": [1.0, 5.0, 3.0]}]')
            self.script(folder / "llama-batched-bench", 'loading\n{"speed_tg": 7.5}')
            peer = engines.LlamaCpp(folder, 2)
            batch = next(row for row in rows.ROWS if row.kind == "batch")
            self.assertEqual(3.0, peer.measure(DECODE, "file").value)
            self.assertEqual(7.5, peer.measure(batch, "file").value)

    def test_a_table_is_read_where_the_peer_prints_one(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            self.script(folder / "llama-batched-bench",
                        "|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG "
                        "t/s |      T s |    S t/s |\n"
                        "|-------|--------|------|--------|----------|----------|----------|------"
                        "----|----------|----------|\n"
                        "|    16 |     32 |    8 |    384 |    0.300 |   400.00 |    2.000 |   128."
                        "50 |    2.300 |   166.00 |")
            batch = next(row for row in rows.ROWS if row.kind == "batch")
            self.assertEqual(128.5, engines.IkLlamaCpp(folder, 2).measure(batch, "file").value)

    @staticmethod
    def script(path, prints):
        path.write_text(f"#!/bin/sh\ncat <<'END'\n{prints}\nEND\n")
        path.chmod(0o755)


if __name__ == "__main__":
    unittest.main()
