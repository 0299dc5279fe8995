"""Innermost loops of disassembled functions, and the vector registers that they keep on the stack.

What objdump prints (-d -C --no-show-raw-insn, AT&T syntax) is the input. A loop is what a jump to
an earlier instruction of the same function closes: everything from there to the jump. Innermost is
a loop without another one inside. Hot is an innermost loop that multiplies vectors and sums: the
others write a tile's results out or walk lists, once for many of its rounds.

Traffic is an instruction with a ymm or zmm register and an operand in memory whose base is the
stack pointer, or the frame pointer of a function that has one: a move, or an operand that
arithmetic folds in. One element that is broadcast from the stack is a scalar that lies there, not
a vector that lacked a register, and is no traffic.
"""

import re
from dataclasses import dataclass, field

MEMBER = re.compile(r"^(\S+):\s+file format elf64-x86-64")
FUNCTION = re.compile(r"^([0-9a-f]+) <(.*)>:$")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t(.*?)\s*$")
JUMP = re.compile(r"^(?:(?:bnd|notrack) )?j\w+(?:,p[nt])?\s+([0-9a-f]+) <")
ON_STACK = re.compile(r"(?:0x[0-9a-f]+|-0x[0-9a-f]+)?\(%(rsp|rbp)[,)]")
VECTOR = re.compile(r"%[yz]mm\d+")
# Products that are summed: of bytes, of pairs, of floats.
MULTIPLY = re.compile(r"^v(?:pdpb|pdpw|pmaddubsw|pmaddwd|fn?m(?:add|sub)\d+[ps][sdh]|dpbf16ps)")
# One element goes to every lane: a scalar's load.
BROADCAST = re.compile(r"^v(?:p?broadcast\w*)\b|\{1to\d+\}")
FRAME = re.compile(r"^(?:mov\s+%rsp,%rbp|lea\s+\S*\(%rsp\),%rbp)$")


@dataclass
class Instruction:
    address: int
    text: str


@dataclass
class Function:
    member: str
    name: str
    code: list = field(default_factory=list)

    def has_frame_pointer(self):
        return any(FRAME.match(instruction.text) for instruction in self.code)


@dataclass
class Loop:
    function: Function
    begin: int  # index of its first instruction
    end: int    # of the jump that closes it

    def code(self):
        return self.function.code[self.begin:self.end + 1]

    def is_hot(self):
        return any(MULTIPLY.match(instruction.text) and VECTOR.search(instruction.text)
                   for instruction in self.code())

    def traffic(self):
        """Its instructions that move vector registers to or from the stack."""
        bases = {"rsp", "rbp"} if self.function.has_frame_pointer() else {"rsp"}
        found = []
        for instruction in self.code():
            stack = ON_STACK.search(instruction.text)
            if (stack and stack[1] in bases and VECTOR.search(instruction.text)
                    and not BROADCAST.search(instruction.text)):
                found.append(instruction)
        return found


def functions_of(lines):
    """The functions of a disassembly, in its order."""
    member, function, functions = "", None, []
    for line in lines:
        if match := INSTRUCTION.match(line):
            if function is not None:
                text = match[2].split(" # ")[0]
                function.code.append(Instruction(int(match[1], 16), text.strip()))
        elif match := FUNCTION.match(line):
            function = Function(member, match[2])
            functions.append(function)
        elif match := MEMBER.match(line):
            member, function = match[1], None
    return functions


def innermost_loops(function):
    """The loops of a function that hold no other, in the order of their ends."""
    index_of = {instruction.address: i for i, instruction in enumerate(function.code)}
    loops = []
    for end, instruction in enumerate(function.code):
        match = JUMP.match(instruction.text)
        begin = index_of.get(int(match[1], 16)) if match else None
        if begin is not None and begin <= end:
            loops.append(Loop(function, begin, end))
    spans = {(loop.begin, loop.end) for loop in loops}
    return [loop for loop in loops
            if not any(loop.begin <= begin and end <= loop.end and (begin, end) !=
                       (loop.begin, loop.end) for begin, end in spans)]
