"""`profgate top` where the gateway keeps stacks, as a person uses it: on terminals of tmux, by what stands on the screen."""
import gzip
import json
import re
import subprocess

import pytest
from programs import BUILD, PATIENCE, Gateway, running, wait_for
from test_top import TITLE, Terminal, counting, top

HEAD = "profgate top   last 15 min"


@pytest.fixture(scope="module")
def gateway():
    with counting("--set", "look.memory=64MiB", "--set", "rules.enable=busy") as g:
        wait_for(lambda: '"seen":0' not in g.get("/api/v1/look/status"), "stacks")
        yield g


def press(terminal, *keys):
    terminal.tmux("send-keys", *keys)


@pytest.mark.parametrize("columns, rows", [(50, 18), (80, 24), (160, 50)])
def test_the_first_screen_fits_and_stays(gateway, tmp_path, columns, rows):
    with Terminal(columns, rows, top(gateway), tmp_path) as t:
        screen = t.sees(HEAD, "all: flame graph", "samples", "Enter in")
        assert t.has_screen_of_its_own()
        assert max(map(len, screen.splitlines())) < columns and len(screen.splitlines()) <= rows
        assert re.search(r"^>\s+\d.*100%.* all$", screen, re.M), screen
        press(t, "q")
        left = t.sees("ended 0")
        assert not t.has_screen_of_its_own() and "all: flame graph" in left


def test_what_keys_do(gateway, tmp_path):
    with Terminal(140, 40, top(gateway), tmp_path) as t:
        screen = t.sees(HEAD, "all: flame graph", "%, self")
        services = re.findall(r"^ +[\d.]+k? +\d+%  [ ▁▂▃▄▅▆▇█]+ (\S+)$", screen, re.M)
        assert len(services) >= 3, screen
        press(t, "Down")
        t.sees(f"\n{services[0]}: flame graph\n")
        press(t, "Enter", "Down", "Down")
        inside = t.sees(f"{services[0]}: flame graph\nall\n")
        assert services[1] not in re.findall(r"(\S+)$", inside.splitlines()[2]), inside  # the list makes room
        frame = wait_for(lambda: (m := re.search(r"^[\d.]+%, self [\d.]+%  (\S+)", t.screen(), re.M)) and m[1] != "samples" and m[1], "a frame's name")
        press(t, "Enter", "x")
        t.sees(f"{frame}: callers and callees", "of it")
        press(t, "Escape")
        t.sees("flame graph")
        press(t, "t")
        table = t.sees("functions, by self")
        wait_for(lambda: len(re.findall(r"^.\s*[\d.]+%\s+[\d.]+% ", t.screen(), re.M)) > 10, f"rows of functions: {table}")
        selfs = [float(v) for v in re.findall(r"^.\s*([\d.]+)%\s+[\d.]+% ", t.screen(), re.M)]
        assert selfs == sorted(selfs, reverse=True)
        press(t, "s")
        t.sees("functions, by total")
        press(t, "d")
        t.sees("compared with the time before")
        press(t, "f", "/", "g", "c", "Enter")
        t.sees("/gc")
        press(t, "Escape", "Escape", "g")
        t.sees("all: flame graph")
        press(t, "+")
        t.sees("last 60 min")
        press(t, "p")
        t.sees("paused")
        press(t, "?")
        t.sees("look into whom is chosen")
        press(t, "C-c")
        t.sees("ended 0")


def test_a_terminal_may_change_its_size(gateway, tmp_path):
    with Terminal(120, 30, top(gateway), tmp_path) as t:
        t.sees(HEAD, "all: flame graph", "%, self")
        t.tmux("resize-window", "-x", "70", "-y", "20")
        wait_for(lambda: (s := t.sees(HEAD).splitlines()) and len(s) <= 20 and max(map(len, s)) < 70 and "Enter in" in s[-1], "a screen of that size")


def test_only_what_changes_is_written(gateway, tmp_path):
    with Terminal(120, 40, top(gateway), tmp_path) as t:
        t.sees(HEAD, "%, self")
        press(t, "p")
        t.sees("paused")
        before = t.raw.stat().st_size
        press(t, "/", "x")
        t.sees("/x")
        press(t, "Enter", "Escape")
        wait_for(lambda: "/x" not in t.screen(), "the search is over")
        assert t.raw.stat().st_size - before < 60_000  # four screens would be more


def test_a_profile_is_saved_beside(gateway, tmp_path):
    (tmp_path / "here").mkdir()
    with Terminal(100, 24, f"sh -c 'cd {tmp_path}/here && exec {top(gateway)}'", tmp_path) as t:
        t.sees(HEAD, "%, self")
        press(t, "e")
        name = re.search(r"saved (profgate-all-\S+\.pb\.gz)", t.sees("saved profgate-all-"))[1]
        assert len(gzip.decompress((tmp_path / "here" / name).read_bytes())) > 1000


@pytest.mark.parametrize("arguments, environment", [(["--pack", "busy"], {}), ([], {"NO_COLOR": "1"})])
def test_the_table_of_counters_is_there_for_who_wants_it(gateway, tmp_path, arguments, environment):
    with Terminal(80, 24, top(gateway, *arguments), tmp_path, **environment) as t:
        assert "flame graph" not in t.sees(TITLE)


def test_the_terminal_is_as_it_was(gateway, tmp_path):
    words = f"sh -c 'stty -g > {tmp_path}/a; {top(gateway)}; stty -g > {tmp_path}/b'"
    with Terminal(80, 24, words, tmp_path) as t:
        t.sees(HEAD)
        press(t, "q")
        t.sees("ended 0")
        assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text() != ""


def flame(url, *arguments):
    """What `profgate top --flame` says to a pipe: status, stdout, stderr."""
    done = subprocess.run([BUILD / "profgate", "top", "--url", url, "--flame", *arguments], capture_output=True, text=True, timeout=PATIENCE, env={"LC_ALL": "C.UTF-8"}, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_pipe_gets_the_flame_graph_once(gateway):
    url = f"127.0.0.1:{gateway.admin}"
    service = max((row for row in json.loads(gateway.get("/api/v1/look/services")) if row["service"]), key=lambda row: row["value"])["service"]
    status, whole, said = flame(url)
    assert (status, said) == (0, "") and "\x1b" not in whole
    head, title, root, below, *_, last = whole.splitlines()
    assert head.startswith("profgate top   last 15 min") and title == "all: flame graph" and root == "|all"
    assert re.match(r"100\.00%, self 0\.00%  +\d+ samples", last)
    functions = {row["name"] for row in json.loads(gateway.get("/api/v1/look/top?sort=total&limit=1000"))["rows"]}
    assert any(name in below for name in functions), whole
    assert flame(url, "--service", service)[1].splitlines()[1:3] == [f"{service}: flame graph", "|all"]
    assert "Nothing was kept" in flame(url, "--service", "nobody \"of that\\ name")[1]


def test_without_stacks_a_script_is_told_why():
    with running(Gateway()) as g:
        status, text, said = flame(f"127.0.0.1:{g.admin}")
    assert (status, text) == (3, "") and "look.memory" in said
    assert flame("127.0.0.1:1", "--service", "x")[0] == 3
    assert flame("127.0.0.1:1", "--pack", "busy")[0] == 2
