"""docs/how-inference-works.md: its commands run as written and print what the page shows.

    python3 how_inference_works_test.py PATH_TO_QUIRE PATH_TO_SOURCE [unittest arguments]

TextTest needs no program, ExactTest the blocks whose figures are exact and quick, RunTest all.
"""

import pathlib
import sys
import tempfile
import unittest

QUIRE = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(sys.argv[2])
PAGE = SOURCE / "docs" / "how-inference-works.md"
MODEL = "smollm2-135m-instruct"
sys.path.insert(0, str(SOURCE / "tests" / "support"))

import page_commands  # noqa: E402
from serve_process import model_is_here  # noqa: E402


def fence(check, shown, command="quire x"):
    return f"<!-- check: {check} -->\n```console\n$ {command}\n{shown}\n```\n"


def faults_of(check, shown, output):
    [block] = page_commands.parse_page(fence(check, shown))
    return page_commands.check(block, output.splitlines())


class ConventionTest(unittest.TestCase):
    """What the checks notice, and what they let pass."""

    def test_an_exact_block_is_the_output(self):
        self.assertEqual(faults_of("exact", "a 1\nb", "a 1\nb"), [])
        for output in ("a 2\nb", "a 1", "a 1\nb\nc", "x\na 1\nb", "a  1\nb"):
            self.assertEqual(len(faults_of("exact", "a 1\nb", output)), 1, output)

    def test_dots_stand_for_lines_in_their_place(self):
        shown = "a\n...\nd\n...\nf"
        self.assertEqual(faults_of("exact", shown, "a\nb\nd\ne\nf"), [])
        self.assertEqual(faults_of("exact", shown, "a\nd\nf"), [])
        for output in ("b\na\nd\nf", "a\nd\nf\ng", "a\nf\nd", "d\nf"):
            self.assertEqual(len(faults_of("exact", shown, output)), 1, output)

    def test_counts_are_exact_where_times_are_not(self):
        self.assertEqual(faults_of("counts", "step 3   1.50 ms", "step 3 12.75 ms"), [])
        self.assertEqual(len(faults_of("counts", "step 3 1.50 ms", "step 4 1.50 ms")), 1)
        self.assertEqual(faults_of("timed", "step 3 1.50 ms", "step 4 12 ms"), [])
        self.assertEqual(len(faults_of("timed", "step 3 1.50 ms", "step 3 1.50 s")), 1)

    def test_a_figure_out_of_its_range_is_noticed_on_either_side(self):
        check = "timed\n in 2..4: x (\\S+)\n"
        self.assertEqual(faults_of(check, "x 2.5", "x 3.5"), [])
        self.assertIn("the page: 1.5", faults_of(check, "x 1.5", "x 3.5")[0])
        self.assertIn("the run: 4.5", faults_of(check, "x 2.5", "x 4.5")[0])
        ratio = "timed\n in 9..11: (\\S+) to (\\S+)\n"
        self.assertEqual(faults_of(ratio, "100 to 1,000", "2.0 to 20"), [])
        self.assertEqual(len(faults_of(ratio, "100 to 1,000", "4.0 to 20")), 1)
        self.assertIn("has no", faults_of(check, "x 2.5", "y 2.5")[0])

    def test_words_may_be_free(self):
        self.assertEqual(faults_of("exact\n free: avx\\w+\n", "avx2 x", "avx512 x"), [])
        self.assertEqual(len(faults_of("exact", "avx2 x", "avx512 x")), 1)

    def test_nothing_but_quire_runs(self):
        for command in ("rm -rf x", "quire x | sh", "quire x ; ls", "quire x > file"):
            [block] = page_commands.parse_page(fence("exact", "", command))
            with self.assertRaises(page_commands.Fault):
                block.arguments()

    def test_a_block_without_a_check_is_noticed(self):
        for text in ("```\n$ quire x\n```\n", fence("perhaps", "a"), fence("exact\n odd: 1\n", "a"),
                     "<!-- check: exact -->\ntext\n" + fence("exact", "a")):
            with self.assertRaises(page_commands.Fault):
                page_commands.parse_page(text)

    def test_lines_are_chosen_by_place(self):
        self.assertEqual(page_commands.chosen(list("abcdefg"), "first 2, 4, last 1"),
                         ["a", "b", "...", "d", "...", "g"])
        self.assertEqual(page_commands.chosen(list("abc"), "first 5"), ["a", "b", "c"])
        self.assertEqual(page_commands.chosen(list("abcde"), "2-3"), ["...", "b", "c", "..."])

    def test_figures_in_the_text_come_from_somewhere(self):
        blocks = page_commands.parse_page(fence("exact", "weights 1,234 bytes"))
        self.assertEqual(page_commands.check_text("It takes 1,234 bytes.", blocks), [])
        self.assertEqual(len(page_commands.check_text("It takes 1,235 bytes.", blocks)), 1)
        self.assertEqual(page_commands.check_text("That is `30 * (64 + 64) = 3,840`: 3,840.",
                                                  blocks), [])
        self.assertEqual(len(page_commands.check_text("`30 * 64 = 1,921`", blocks)), 1)


class TextTest(unittest.TestCase):
    def setUp(self):
        self.text = PAGE.read_text(encoding="utf-8")
        self.blocks = page_commands.parse_page(self.text)

    def test_every_block_is_a_command_of_quire(self):
        self.assertGreater(len(self.blocks), 8)
        for block in self.blocks:
            block.arguments()

    def test_every_figure_of_the_text_is_printed_by_a_command(self):
        self.assertEqual(page_commands.check_text(self.text, self.blocks, PAGE.parent), [])

    def test_timed_figures_state_their_range(self):
        for block in self.blocks:
            faults = page_commands.check_ranges(block, block.shown, "the page")
            self.assertEqual(faults, [], block.command)
            if block.mode == "timed":
                self.assertTrue(block.ranges, block.command)


@unittest.skipUnless(model_is_here(MODEL), f"{MODEL} is not in the model cache")
class RunCase(unittest.TestCase):
    maxDiff = None

    def run_blocks(self, wanted, check):
        blocks = page_commands.parse_page(PAGE.read_text(encoding="utf-8"))
        count = 0
        with tempfile.TemporaryDirectory() as folder:
            for block in filter(wanted, blocks):
                count += 1
                with self.subTest(command=block.command):
                    output = page_commands.run(QUIRE, block, folder)
                    faults = check(block, output)
                    self.assertEqual("\n\n".join(filter(None, faults)), "")
        self.assertGreater(count, 0)


class ExactTest(RunCase):
    def test_the_quick_commands_print_what_the_page_shows(self):
        # No time is held against a machine that also builds and tests.
        self.run_blocks(lambda block: block.mode == "exact" and not block.is_slow,
                        lambda block, output: [page_commands.compare(block, output)])


class RunTest(RunCase):
    def test_every_command_prints_what_the_page_shows(self):
        self.run_blocks(lambda block: True, page_commands.check)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
