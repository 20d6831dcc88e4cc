"""Prints, for every code object of some modules, what tests/runtimes/lines.c wants and, behind a bar, the lines Python itself says;
with a FILE the names of its functions that have instructions without a line.
"""
import dis
import importlib.util
import sys

MODULES = ["argparse", "ast", "asyncio.base_events", "collections", "decimal", "dis", "enum", "inspect", "json.decoder", "logging",
           "pickle", "re", "subprocess", "tarfile", "threading", "typing", "unittest.mock", "zipfile"]


def codes(code):
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from codes(constant)


def lines_of(code):
    """By instruction, in units of two bytes; 0: none."""
    units = len(code.co_code) // 2
    lines = [0] * units
    if sys.version_info >= (3, 10):
        for start, end, line in code.co_lines():
            for i in range(start // 2, end // 2):
                lines[i] = line or 0
    else:
        line, starts = code.co_firstlineno, dict(dis.findlinestarts(code))
        for i in range(units):
            line = starts.get(2 * i, line)
            lines[i] = line
    return lines


def parsed(path):
    with open(path, encoding="utf-8") as f:
        return codes(compile(f.read(), path, "exec"))


if sys.argv[1:]:
    print(*{code.co_name for code in parsed(sys.argv[1]) if 0 in lines_of(code)})
    sys.exit()
for module in MODULES:
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        continue
    for code in parsed(spec.origin):
        lines = lines_of(code)
        table = code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab
        if table:
            print(sys.version_info[1], code.co_firstlineno, ",".join(map(str, range(len(lines)))), table.hex(), "|", *lines)
