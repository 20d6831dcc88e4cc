"""What checksec asks of a program, read from the ELF files of a release."""
import platform
import re
import subprocess

import pytest
from programs import BUILD


def readelf(path, *options):
    return subprocess.run(["readelf", "--wide", *options, path], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("program", ["profgate", "profsend"])
def test_a_release_is_hardened(program):
    path = BUILD / program
    if not path.exists():
        pytest.skip(f"{program} is not built")
    symbols, dynamic, headers = readelf(path, "--dyn-syms"), readelf(path, "--dynamic"), readelf(path, "--program-headers")
    if re.search(r"__(asan|tsan|ubsan)_", symbols) or "__gcov" in readelf(path, "--symbols"):
        pytest.skip("a build with sanitizers has checks of its own")
    assert re.search(r"Type:\s+DYN", readelf(path, "--file-header")) and re.search(r"FLAGS_1.*\bPIE\b", dynamic)
    assert "GNU_RELRO" in headers and re.search(r"FLAGS\b.*\bBIND_NOW\b", dynamic)
    assert re.search(r"GNU_STACK\s.*\sRW\s", headers)
    assert not re.search(r"\((RPATH|RUNPATH|TEXTREL)\)", dynamic)
    assert "__stack_chk_fail" in symbols
    fortified = set(re.findall(r"\b__(\w+_chk)@", symbols)) - {"stack_chk_fail"}
    if not fortified and "_FORTIFY_SOURCE" not in (BUILD / "build.ninja").read_text():
        pytest.skip("a build for debugging")
    assert len(fortified) >= 3, fortified
    if platform.machine() == "x86_64":
        assert re.search(r"x86 feature:.*IBT.*SHSTK", readelf(path, "--notes"))
