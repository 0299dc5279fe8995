"""The hot loops of the matrix and attention kernels keep their vectors in registers.

    stack_traffic_test.py LIBRARY

Disassembles the library of the kernels (objdump) and looks at the hot loops (loops.py) of every
function of the objects matmul*, attention*, whatever the instruction set. A vector that goes to the
stack and back costs a store, a load and their latency in every round; compilers do that silently,
when registers run out or when they move a sum to where it has to be kept.

KNOWN lists where it is so and why that stands, with the largest share of a loop's instructions.
"""

import pathlib
import re
import subprocess
import sys
import unittest
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from loops import functions_of, innermost_loops  # noqa: E402

LIBRARY = sys.argv.pop() if len(sys.argv) > 1 and sys.argv[-1].endswith(".a") else None
OBJECTS = ("matmul", "attention")


@dataclass
class Known:
    function: str  # a regular expression
    most: float    # of a loop's instructions, those that touch the stack
    reason: str


KNOWN = (
    Known(r"\bAvx2\b|\bavx2::Matmul\(", 0.145,
          "16 registers hold fewer than the sums of a tile and what a group's weights unpack to; a "
          "smaller tile would unpack the weights more often"),
    Known(r"\bAvx512Pairs\b", 0.035,
          "without VNNI a product of bytes takes two registers more on the way to its sum"),
    Known(r"\bavx2::.*(?:AttendQueries|AccumulateAll|Softmax)<", 0.04,
          "one constant or one pointer table's vector in 70 instructions; 16 registers"),
    Known(r"\bavx512::.*AttendQueries<signed char, [23]>", 0.085,
          "the compiler holds integer sums of several keys before it scales them; registers would "
          "suffice, so this may go"),
)


def read(text):
    return functions_of(text.strip("\n").splitlines())


def hot_loops(functions):
    for function in functions:
        if function.member.startswith(OBJECTS):
            for loop in innermost_loops(function):
                if loop.is_hot():
                    yield loop


def fault_of(loop, known):
    """What is wrong with a loop; empty if nothing."""
    traffic = loop.traffic()
    if not traffic:
        return ""
    share = len(traffic) / len(loop.code())
    if any(re.search(place.function, loop.function.name) and share <= place.most
           for place in known):
        return ""
    return (f"{loop.function.member}: {loop.function.name}, loop at "
            f"{loop.code()[0].address:x}: {len(traffic)} of {len(loop.code())} instructions "
            f"({100 * share:.1f} %), such as `{traffic[0].text}` at {traffic[0].address:x}")


class LoopsTest(unittest.TestCase):
    """What is a loop, and what is traffic, on code small enough to read."""

    def one_loop(self, body, prologue="0:\tpush   %rbx"):
        text = f"""
matmul.cc.o:     file format elf64-x86-64
0000000000000000 <Kernel(int)>:
   {prologue}
{body}
"""
        loops = innermost_loops(read(text)[0])
        self.assertEqual(1, len(loops))
        return loops[0]

    def test_a_spilled_sum_is_traffic(self):
        loop = self.one_loop("""
   8:\tvpdpbusd (%rax),%zmm1,%zmm2
   10:\tvmovdqa64 %zmm2,0x40(%rsp)
   18:\tjne    8 <Kernel(int)+0x8>""")
        self.assertTrue(loop.is_hot())
        self.assertEqual([0x10], [instruction.address for instruction in loop.traffic()])
        self.assertIn("matmul.cc.o: Kernel(int)", fault_of(loop, ()))

    def test_an_operand_that_is_folded_in_is_traffic(self):
        loop = self.one_loop("""
   8:\tvfmadd213ps 0x68(%rsp),%ymm5,%ymm3
   10:\tjne    8 <Kernel(int)+0x8>""")
        self.assertEqual(1, len(loop.traffic()))

    def test_scalars_and_broadcasts_from_the_stack_are_none(self):
        loop = self.one_loop("""
   8:\tmov    0x8(%rsp),%rax
   10:\tvbroadcastss 0x10(%rsp),%zmm3
   18:\tvfmadd231ps 0x14(%rsp){1to16},%zmm3,%zmm4
   1c:\tvfmadd231ps (%rax,%rsi,4),%zmm3,%zmm4
   20:\tjne    8 <Kernel(int)+0x8>""")
        self.assertTrue(loop.is_hot())
        self.assertEqual([], loop.traffic())

    def test_the_base_pointer_counts_where_it_is_the_frame(self):
        body = """
   8:\tvfmadd231ps -0x40(%rbp),%zmm3,%zmm4
   10:\tjne    8 <Kernel(int)+0x8>"""
        self.assertEqual([], self.one_loop(body).traffic())
        self.assertEqual(1, len(self.one_loop(body, "0:\tmov    %rsp,%rbp").traffic()))

    def test_only_the_innermost_loops_count(self):
        text = """
attention.cc.o:     file format elf64-x86-64
0000000000000000 <Kernel(int)>:
   0:\tvmovaps %zmm1,(%rsp)
   8:\tvfmadd231ps (%rax),%zmm3,%zmm4
   10:\tjne    8 <Kernel(int)+0x8>
   18:\tjb,pt  0 <Kernel(int)>
   20:\tjmp    30 <Kernel(int)+0x30>
   30:\tret
"""
        loops = innermost_loops(read(text)[0])
        self.assertEqual([(8, 0x10)], [(loop.code()[0].address, loop.code()[-1].address)
                                       for loop in loops])
        self.assertEqual([], loops[0].traffic())

    def test_a_loop_that_multiplies_nothing_is_not_hot(self):
        self.assertFalse(self.one_loop("""
   8:\tvmovaps %zmm2,0x40(%rsp)
   10:\tvaddps 0x40(%rsp),%zmm1,%zmm1
   18:\tjne    8 <Kernel(int)+0x8>""").is_hot())

    def test_a_known_place_has_a_limit(self):
        loop = self.one_loop("""
   8:\tvfmadd213ps 0x68(%rsp),%ymm5,%ymm3
   c:\tvmulps %ymm1,%ymm2,%ymm3
   10:\tjne    8 <Kernel(int)+0x8>""")
        self.assertEqual("", fault_of(loop, (Known(r"Kernel\(", 0.34, "here"),)))
        self.assertNotEqual("", fault_of(loop, (Known(r"Kernel\(", 0.3, "here"),)))
        self.assertNotEqual("", fault_of(loop, (Known("Other", 1, "here"),)))

    def test_a_jump_into_another_function_closes_no_loop(self):
        text = """
matmul.cc.o:     file format elf64-x86-64
0000000000000000 <First(int)>:
   0:\tret
0000000000000008 <Second(int)>:
   8:\tjmp    0 <First(int)>
"""
        self.assertEqual([], innermost_loops(read(text)[1]))


@unittest.skipIf(LIBRARY is None, "no library was given")
class KernelsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        text = subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", LIBRARY], check=True,
                              capture_output=True, text=True).stdout
        cls.loops = list(hot_loops(functions_of(text.splitlines())))

    def test_the_disassembly_has_hot_loops_of_each_kind(self):
        for member in ("matmul.cc.o", "attention.cc.o"):
            for register in ("%ymm", "%zmm"):
                found = [loop for loop in self.loops if loop.function.member == member
                         and any(register in line.text for line in loop.code())]
                self.assertGreater(len(found), 10, f"{member} with {register}")

    def test_hot_loops_have_no_vector_stack_traffic(self):
        faults = [fault for loop in self.loops if (fault := fault_of(loop, KNOWN))]
        self.assertEqual([], faults, "\n" + "\n".join(faults))

    def test_every_known_place_is_still_there(self):
        for place in KNOWN:
            self.assertTrue(any(loop.traffic() and re.search(place.function, loop.function.name)
                                for loop in self.loops), f"delete {place.function}")


if __name__ == "__main__":
    unittest.main()
