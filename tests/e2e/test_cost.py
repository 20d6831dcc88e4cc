"""What counting costs, in instructions, which other work on the machine does not disturb: all shipped packs, the default, beside
the connector's work alone (packs `connector` and `cpu`); and user patterns, which are to cost next to nothing once the names in
a request are known. By callgrind, of requests that were met before: rules/README.md."""
import re
import shutil
import subprocess

import pytest
from machine import libc
from programs import BUILD, DATA

BENCH = BUILD / "bench/bench_classify"
CAPTURES = [DATA / f"connector/ebpf-{name}.pb" for name in ("go-0003", "java-0003", "python-0003", "kernel_tcp-0001", "mixed-0003")]
# Measured 2.0; what a new pack may add. Above it somebody pays for a question once a sample instead of once a name.
ALL_PACKS_MAX = 2.5
PATTERNS_MAX = 1.25  # a metric and 1,000 patterns besides; measured 1.1


@pytest.fixture(scope="module")
def valgrind():
    found = shutil.which("valgrind")
    if not found:
        pytest.skip("valgrind is not installed")
    if not BENCH.exists():
        pytest.skip(f"{BENCH} is not built")
    if "asan" in subprocess.run(["ldd", BENCH], capture_output=True, text=True).stdout:
        pytest.skip("valgrind does not run programs built with sanitizers")
    return found


def instructions(valgrind, folder, *arguments):
    """Of a sample, in the rounds after the first."""
    with libc():
        done = subprocess.run([valgrind, "--tool=callgrind", f"--callgrind-out-file={folder / 'out'}",
                               "--toggle-collect=measured_push", BENCH, *arguments, "3", *CAPTURES],
                              capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    counted = re.search(r"Collected : (\d+)", done.stderr)
    samples = re.search(r"^measured (\d+) samples$", done.stdout, re.MULTILINE)
    assert counted and samples, done.stdout + done.stderr
    return int(counted.group(1)) / int(samples.group(1))


@pytest.fixture(scope="module")
def all_packs(valgrind, tmp_path_factory):
    return instructions(valgrind, tmp_path_factory.mktemp("all"))


def test_all_packs_cost_little_more_than_the_connectors_work(valgrind, all_packs, tmp_path):
    few = instructions(valgrind, tmp_path, "--packs", "connector,cpu")
    assert 100 < few < all_packs  # or nothing was measured
    assert all_packs / few <= ALL_PACKS_MAX, f"{all_packs:.0f} instructions a sample, {few:.0f} with connector and cpu"


def test_a_thousand_patterns_cost_next_to_nothing_once_names_are_known(valgrind, all_packs, tmp_path):
    more = instructions(valgrind, tmp_path, "--patterns", "1000")
    assert more / all_packs <= PATTERNS_MAX, f"{more:.0f} instructions a sample, {all_packs:.0f} without the patterns"
