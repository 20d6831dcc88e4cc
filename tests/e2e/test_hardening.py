"""What checksec asks of a program, read from the ELF files of a release; and the libraries it is made with."""
import platform
import re
import shutil
import subprocess

import pytest
from programs import BUILD, ROOT


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


# What the page calls a library, by what it is asked for with.
PKG_CONFIG = {"libuv": "libuv", "nghttp2": "libnghttp2", "OpenSSL": "openssl", "protobuf-c": "libprotobuf-c", "json-c": "json-c",
              "libyaml": "yaml-0.1", "PCRE2": "libpcre2-8", "zlib": "zlib", "libdeflate": "libdeflate", "ISA-L": "libisal", "zstd": "libzstd", "LZ4": "liblz4", "Snappy": "snappy",
              "SQLite": "sqlite3", "librdkafka": "rdkafka", "xxHash": "libxxhash", "libxcrypt": "libcrypt", "libbpf": "libbpf", "libelf": "libelf",
              "liblzma": "liblzma", "libmd": "libmd", "libseccomp": "libseccomp", "check": "check"}
PACKAGES = {"llhttp": "node-llhttp", "libiberty": "libiberty-dev"}  # without a .pc file


def said_versions():
    """{library: version} of the page's table: "liblzma, libiberty (profsend) | 5.4.1, 20230104" is two."""
    found = {}
    page = (ROOT / "scripts/README.md").read_text()
    for row in page[page.index("## Dependencies"):].splitlines():
        cells = [cell.strip() for cell in row.strip("|").split("|")] if row.startswith("| ") else []
        for names, versions in zip(cells[::2], cells[1::2]):
            found.update(zip(re.sub(r" \(.*?\)", "", names).split(", "), versions.split(", ")))
    return {name: version for name, version in found.items() if version[:1].isdigit()}


@pytest.mark.parametrize("program", ["profgate", "profsend"])
def test_the_packages_that_another_host_needs_are_named(program):
    """Those of the libraries that it is linked with, or loads when something needs them."""
    if not shutil.which("dpkg-query"):
        pytest.skip("no dpkg-query here")
    path = BUILD / program
    if not path.exists():
        pytest.skip(f"{program} is not built")
    if re.search(r"__(asan|tsan|ubsan)_", readelf(path, "--dyn-syms")):
        pytest.skip("a build with sanitizers is linked with what a release loads")
    page = (ROOT / "scripts/deploy/README.md").read_text()
    said = re.search(rf"# {program}\napt-get install --no-install-recommends ((?:.*\\\n)*.*)\n", page).group(1).replace("\\\n", " ").split()
    text = path.read_bytes()
    loaded = {name for source in (ROOT / "proto/base/library").glob("*.S")
              for name in re.findall(r'SONAME "(.*?)"', source.read_text()) if name.encode() + b"\0" in text}
    linked = set(re.findall(r"^\s+(lib\S+) => /", subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout, re.M))
    packages = {"ca-certificates"}
    for name in (loaded | linked) - {"libc.so.6", "libm.so.6", "libasan.so.8"}:
        found = subprocess.run(["dpkg-query", "-S", f"*/{name}"], capture_output=True, text=True).stdout
        packages.add(re.match(r"[\w.+-]+", found).group())
    assert set(said) == packages


def number(version):
    return [int(part) for part in re.findall(r"\d+", version)]


def test_every_library_is_named_with_the_version_that_is_tried():
    """No library is used that the page does not name, and none is tried in another series than the page says (a fix of the
    distribution's is the same one)."""
    if not shutil.which("pkg-config") or not shutil.which("dpkg-query"):
        pytest.skip("no pkg-config or dpkg-query here")
    said = said_versions()
    asked = set()
    for path in [*ROOT.glob("scripts/cmake/*.cmake"), *ROOT.glob("gateway/**/CMakeLists.txt"), *ROOT.glob("sender/**/CMakeLists.txt"),
                 *ROOT.glob("proto/**/CMakeLists.txt")]:
        text = path.read_text()
        if path.name == "Dependencies.cmake":
            asked |= set(re.findall(r'"\w+;([\w.-]+)"', text))
        asked |= set(re.findall(r"IMPORTED_TARGET ([a-z][\w.-]*)\)", text))
    assert len(asked) > 15 and asked <= set(PKG_CONFIG.values()), asked - set(PKG_CONFIG.values())
    assert {*PKG_CONFIG, *PACKAGES} == set(said)
    wrong = []
    for name, version in said.items():
        question = (["pkg-config", "--modversion", PKG_CONFIG[name]] if name in PKG_CONFIG else
                    ["dpkg-query", "-W", "-f=${Version}", PACKAGES[name]])
        have = subprocess.run(question, capture_output=True, text=True)
        if have.returncode != 0:
            continue  # profsend's are not needed where it is not built
        want, got = number(version), number(have.stdout.split("-")[0].split(":")[-1])[:len(number(version))]
        if got < want or got[:2] != want[:2]:
            wrong.append(f"{name}: the page says {version}, here is {have.stdout.strip()}")
    assert not wrong, wrong
