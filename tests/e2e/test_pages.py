"""What stands in a block of a page is true: every rule file in one compiles beside the shipped packs and passes its own tests,
every configuration is taken, and every block says what it is."""
import functools
import os
import re
import shutil
import subprocess

import peers
import pytest
from programs import BUILD, ROOT

FENCE = re.compile(r"^ {0,3}(```+|~~~+)[ \t]*([^`]*?)[ \t]*$")
# What a block may be. Of `yaml`, whose it is: without another word profgate's.
KINDS = {"rules", "yaml", "yaml profsend", "yaml collector", "yaml prometheus", "sh", "c", "python", "go", "json", "http", "ebnf", "text"}


def pages():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT,
                            capture_output=True, check=True, text=True).stdout
    return sorted(page for page in listed.split("\0") if page and (ROOT / page).exists())


def blocks_of(text):
    """(line of the fence, what it says it is, what stands in it) of each."""
    found, fence, lines = [], None, []
    for number, line in enumerate(text.splitlines(), 1):
        match = FENCE.match(line)
        if fence is None:
            if match:
                fence, begin, kind, lines = match[1], number, match[2], []
        elif match and match[1].startswith(fence) and not match[2]:
            found.append((begin, kind, "\n".join(lines) + "\n"))
            fence = None
        else:
            lines.append(line)
    assert fence is None, f"the block in line {begin} has no end"
    return found


def blocks(*kinds):
    return [pytest.param(text, id=f"{page}:{line}") for page in pages()
            for line, kind, text in blocks_of((ROOT / page).read_text()) if kind in kinds]


def run(*words):
    done = subprocess.run([BUILD / "profgate", *words], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "TOKEN": "of-the-page", "SECRET": "of-the-page", "KAFKA_PASSWORD": "of-the-page"})
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("page", pages())
def test_every_block_says_what_it_is(page):
    wrong = [f"{page}:{line}: ```{kind}" for line, kind, _ in blocks_of((ROOT / page).read_text()) if kind not in KINDS]
    assert not wrong, "\n".join(wrong)


LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s#]*)(?:#[^)\s]*)?\)")
PATH = re.compile(r"`((?:[\w.-]+/)+[\w-]+\.(?:c|h|py|md|rules|js))`")


@pytest.mark.parametrize("page", pages())
def test_what_a_page_points_at_is_there(page):
    """Links from its folder on; paths between backticks from any folder on. Capitals stand for a name: unit/FOLDER/test_NOUN.c."""
    text, folder = re.sub(r"^ *```.*?^ *```", "", (ROOT / page).read_text(), flags=re.S | re.M), (ROOT / page).parent
    files = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True,
                           text=True).stdout.split()
    links = [link for link in LINK.findall(text) if link and "://" not in link and not (folder / link).exists()]
    paths = [path for path in PATH.findall(text) if not re.search("[A-Z]{4}", path.removesuffix(".md")) and not path.startswith("..")
             and not any(f"/{file}".endswith(f"/{path}") for file in files)]
    assert not links + paths, f"{page}: {links + paths}"


@pytest.mark.parametrize("text", blocks("rules"))
def test_rules_compile_and_pass_their_tests(text, tmp_path):
    path = tmp_path / "block.rules"
    path.write_text(text if re.match(r"\s*(#.*\s*)*rules\s", text) else "rules 1\npack page\n" + text)
    code, said = run("rules", "check", path)
    assert code == 0, said
    code, said = run("rules", "test", path)
    assert code == 0 and re.search(r"^[1-9]\d* tests?, ok$", said, re.M), said


@pytest.mark.parametrize("text", blocks("yaml"))
def test_configurations_are_taken(text, tmp_path):
    path = tmp_path / "block.yaml"
    path.write_text(text)
    code, said = run("serve", "--config", path, "--print-config")
    assert code == 0, said


@pytest.mark.parametrize("text", blocks("yaml profsend"))
def test_profsend_takes_its_configurations(text, tmp_path):
    path = tmp_path / "block.yaml"
    path.write_text(text)
    done = subprocess.run([BUILD / "profsend", "--config", path, "--version"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", blocks("yaml prometheus"))
def test_prometheus_takes_what_is_for_it(text, tmp_path):
    """Debian's promtool is one of Prometheus 2, which has no section otlp; the files that are named are not here."""
    if not shutil.which("promtool"):
        pytest.skip("promtool (Debian package prometheus) is not installed")
    path = tmp_path / "block.yaml"
    path.write_text(re.split(r"^otlp:", text, flags=re.M)[0])
    done = subprocess.run(["promtool", "check", "config", "--syntax-only", path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("text", blocks("yaml collector"))
def test_the_collector_takes_what_is_for_it(text, tmp_path):
    """Beside the receiver that it names, which every Collector's configuration has, and with the switch that the block tells of."""
    gate = re.search(r"--feature-gates=(\S+)", text)
    assert gate, "without it a Collector refuses profiles"
    path = tmp_path / "block.yaml"
    path.write_text("receivers: { otlp: { protocols: { grpc: { endpoint: '127.0.0.1:0' } } } }\n" + text)
    done = subprocess.run([peers.collector(), "validate", "--config", f"file:{path}", gate[0]], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def commands_of(text):
    """(program, its words) of each command in a block of a shell or between backticks."""
    lines = [line for _, kind, block in blocks_of(text) if kind == "sh" for line in block.splitlines()] + re.findall(r"`([^`\n]+)`", text)
    for line in lines:
        for program, rest in re.findall(r"(?:^|[\s/;|])(profgate|profsend)((?: [^|;#)]*)?)", line):
            yield program, rest.split()


@functools.cache
def flags_of(*words):
    done = subprocess.run([BUILD / words[0], *words[1:], "--help"], capture_output=True, text=True, timeout=120)
    return {"--help", *re.findall(r"^  (--[\w-]+)", done.stdout, re.M)}


def unknown_flags(text):
    for program, words in commands_of(text):
        command = [program]
        while program == "profgate" and words and re.fullmatch("[a-z-]+", words[0]) and len(command) < (3 if "rules" in command else 2):
            command.append(words.pop(0))
        yield from (f"{' '.join(command)} {word}" for word in words
                    if word.startswith("--") and word.split("=")[0] not in flags_of(*command))


@functools.cache
def keys():
    """limits.memory, exporters.otlp/NAME.sending_queue.storage …"""
    _, said = run("serve", "--help-config")
    found, section = set(), ""
    for line in said.splitlines():
        if match := re.match(r"([a-z][\w./]*(?:/NAME)?): ", line):
            section = match[1]
        elif match := re.match(r"  ([a-z][\w.]*) ", line):
            found.add(f"{section}.{match[1]}")
    return found


def unknown_keys(text):
    # Sections whose names begin no attribute's: service.name is one.
    named = re.findall(r"`((?:receivers|exporters|metrics|profiles|look|admin|limits|tenants|sending_queue|retry_on_failure)(?:\.[a-z_]+)+)"
                       r"(?::[^`]*)?`", text)
    return [key for key in named if not re.search(r"\.(c|h|py|md|rules)$", key)
            and not any(f".{key}." in f".{known}." or f".{key}/" in f".{known}" for known in keys())]


@pytest.mark.parametrize("page", pages())
def test_flags_and_keys_that_a_page_names_are_there(page):
    text = (ROOT / page).read_text()
    assert [*unknown_flags(text), *unknown_keys(text)] == []


def test_there_is_something_to_try():
    assert len(blocks("rules")) > 7 and len(blocks("yaml")) > 2 and blocks("yaml prometheus") and blocks("yaml collector")


def test_a_block_that_is_wrong_is_noticed(tmp_path):
    assert list(unknown_flags("`profgate rules list --leveled` and\n```sh\nprofsend --print --no-such=1  # --nothing\n```\n")) == [
        "profsend --no-such=1", "profgate rules list --leveled"]
    assert unknown_keys("`limits.memory`, `limits.memroy: 1GiB`, `metrics.h`, `sending_queue.storage`") == ["limits.memroy"]
    bad = "counter a.b { on cpu  where leaf is kernel and linked or any frame is go }\n"
    for line, text in ((2, "x\n```rules\n" + bad + "```\n"), (1, "```\n" + bad + "```\n")):
        assert blocks_of(text)[0][0] == line and blocks_of(text)[0][2] == bad
    assert blocks_of("```\n```\n")[0][1] not in KINDS
    with pytest.raises(AssertionError):
        test_rules_compile_and_pass_their_tests(bad, tmp_path)
    with pytest.raises(AssertionError):
        test_configurations_are_taken("receivers: { otlpp: [] }\n", tmp_path)
