"""Real peers, built or found once and kept outside the tree: the Collector, grpcurl, and Python's OTLP messages.

Each function returns the path of a program, or skips the test saying what is missing.
"""
import contextlib
import fcntl
import functools
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD_SECONDS = 1200  # of one peer, the download of its modules included
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "profgate" / "bin"


def once_at_a_time(make):
    """Of all processes: who comes while another makes the peer waits, and finds it made."""
    @functools.wraps(make)
    def alone(*arguments):
        with lock("-".join([make.__module__, make.__name__, *arguments])):
            return make(*arguments)
    return alone


@contextlib.contextmanager
def lock(name):
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE.parent / f"{name}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _go(arguments, cwd, output, what):
    go = shutil.which("go") or "/usr/local/go/bin/go"
    if not os.path.exists(go):
        pytest.skip(f"{what}: no Go toolchain here")
    CACHE.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run([go, *arguments], cwd=cwd, capture_output=True, text=True, timeout=BUILD_SECONDS,
                              env={**os.environ, "CGO_ENABLED": "0", "GOBIN": str(CACHE), "GOFLAGS": "-mod=mod"})
    except subprocess.TimeoutExpired:
        pytest.skip(f"{what}: not built from Go modules within {BUILD_SECONDS} s")
    if done.returncode != 0 or not output.exists():
        pytest.skip(f"{what}: cannot be built from Go modules here: {done.stderr.strip()[-300:]}")
    return output


@once_at_a_time
def collector():
    """The Collector core with its OTLP receiver and exporters and contrib's file exporter."""
    source = ROOT / "tests/interop/collector"
    binary = CACHE / "testcol"
    newest = max(path.stat().st_mtime for path in source.iterdir())
    if binary.exists() and binary.stat().st_mtime >= newest:
        return binary
    return _go(["build", "-o", str(binary), "."], source, binary, "the Collector")


@once_at_a_time
def pprof_judge():
    """google/pprof's own library, comparing and making profiles."""
    source = ROOT / "tests/interop/pprof"
    binary = CACHE / "pprof-judge"
    newest = max(path.stat().st_mtime for path in source.iterdir())
    if binary.exists() and binary.stat().st_mtime >= newest:
        return binary
    return _go(["build", "-o", str(binary), "."], source, binary, "pprof's own library")


@once_at_a_time
def prometheus_otlp():
    """Prometheus's translation of OTLP, which writes on to a Prometheus."""
    source = ROOT / "tests/interop/prometheus_otlp"
    binary = CACHE / "prometheus-otlp"
    newest = max(path.stat().st_mtime for path in source.iterdir())
    if binary.exists() and binary.stat().st_mtime >= newest:
        return binary
    return _go(["build", "-o", str(binary), "."], source, binary, "Prometheus's OTLP receiver")


@once_at_a_time
def grpcurl():
    binary = CACHE / "grpcurl"
    if binary.exists():
        return binary
    return _go(["install", "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4"], "/", binary, "grpcurl")


@once_at_a_time
def h2spec():
    binary = CACHE / "h2spec"
    if binary.exists():
        return binary
    return _go(["install", "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"], "/", binary, "h2spec")
