"""`profgate top` and `scripts/run` as a person sees them: on terminals of tmux, by what stands on the screen."""
import contextlib
import os
import re
import shutil
import subprocess
import threading

import pytest
from programs import BUILD, PATIENCE, ROOT, Gateway, captures, running, wait_for

TITLE, KERNEL = "CPU by process and function", "Kernel time by what it is for"
SURROUNDINGS = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "LC_ALL", "LANG", "LC_CTYPE", "TERM", "TMUX")}


@contextlib.contextmanager
def counting(*arguments):
    """A gateway to which captured requests are sent all the time."""
    with running(Gateway(*arguments)) as gateway:
        bodies, over = [path.read_bytes() for path in captures()[:4]], threading.Event()

        def send():
            while not over.is_set():
                for body in bodies:
                    assert gateway.post(body)[0] == 200
                over.wait(0.2)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            yield gateway
        finally:
            over.set()
            sender.join()


@pytest.fixture(scope="module")
def gateway():
    with counting("--set", "rules.enable=busy") as g:
        yield g


class Terminal:
    """with Terminal(columns, rows, command) as t: a shell's command in a terminal of that size, then "ended STATUS"."""

    def __init__(self, columns, rows, command, folder, **environment):
        self.socket, self.size, self.raw = folder / "tmux", (columns, rows), folder / "raw"
        environment = {"LC_ALL": "C.UTF-8", **environment}
        setting = " ".join(f"{k}={v}" for k, v in environment.items())
        self.command = f"sleep 0.5; {setting} {command}; echo ended $?; sleep {PATIENCE}"

    def tmux(self, *words):
        done = subprocess.run(["tmux", "-u", "-S", self.socket, *words], capture_output=True, text=True, timeout=PATIENCE,
                              env={**SURROUNDINGS, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}, check=True)
        return done.stdout

    def __enter__(self):
        columns, rows = self.size
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), self.command)
        self.tmux("pipe-pane", f"cat > {self.raw}")
        return self

    def __exit__(self, *_):
        self.tmux("kill-server")

    def screen(self, *how):
        return self.tmux("capture-pane", "-p", *how)

    def sees(self, *words):
        """Waits until all of them stand on the screen; the screen."""
        found = wait_for(lambda: (s := self.screen()) and all(w in s for w in words) and s, f"{words} on the screen")
        return found.rstrip("\n")

    def has_screen_of_its_own(self):
        return self.tmux("display-message", "-p", "#{alternate_on}").strip() == "1"


def top(gateway, *arguments):
    return " ".join(map(str, (BUILD / "profgate", "top", "--url", f"127.0.0.1:{gateway.admin}", *arguments)))


def processes(screen):
    """The rows between the two headings, of what is no function: (cores, share, the rest)."""
    rows = re.findall(r"^ +(\d+\.\d\d) +(?:<?(\d+))%  (?:[█▏▎▍▌▋▊▉#]+ *)?(\S.*)$", screen.split(KERNEL)[0], re.M)
    return [(float(cores), int(share), rest) for cores, share, rest in rows]


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_the_first_screen_answers_at_any_width_and_stays(gateway, tmp_path, columns):
    with Terminal(columns, 24, top(gateway), tmp_path) as t:
        screen = t.sees(TITLE, KERNEL)
        assert t.has_screen_of_its_own()
        lines = screen.splitlines()
        assert max(map(len, lines)) < columns and len(lines) <= 22
        rows = processes(screen)
        assert len(rows) >= 10 and rows[0][0] > 0, screen
        assert ("█" in screen) == (columns >= 73)
        # What it is for, in words: of functions, and of the kernel.
        assert re.search(r"kernel: |allocation|json|garbage|compression|regex|crypto", screen), screen
        assert not re.search(r"profile\.|_total|samples_", screen), screen
        t.tmux("send-keys", "C-c")
        last = t.sees("ended 0")
        assert not t.has_screen_of_its_own() and TITLE in last and KERNEL in last and "profgate top" in last


def test_after_a_time_it_ends_and_the_table_stays(gateway, tmp_path):
    with Terminal(80, 40, top(gateway, "--for", "6s", "--note", '"from far away"'), tmp_path) as t:
        screen = t.sees(TITLE, "ended 0", "from far away")
        assert not t.has_screen_of_its_own()
        # With forty lines there is room for functions below their processes.
        assert re.search(r"^ +\d+\.\d\d +\d+%  [█▏▎▍▌▋▊▉]+ *\S.*\n +\d+\.\d\d +\d+%   {12}", screen, re.M), screen


@pytest.mark.parametrize("environment,codes,colours", [
    ({"TERM": "xterm-256color"}, True, True),
    ({"TERM": "xterm-256color", "NO_COLOR": "1"}, True, False),
    ({"TERM": "xterm-256color", "NO_COLOR": ""}, True, True),
    ({"TERM": "dumb"}, False, False),
])
def test_escape_codes_are_for_who_wants_them(gateway, tmp_path, environment, codes, colours):
    with Terminal(80, 24, top(gateway, "--for", "6s"), tmp_path, **environment) as t:
        t.sees("ended 0")
        raw = t.raw.read_bytes()
        assert TITLE.encode() in raw
        assert (b"\x1b" in raw) == codes and bool(re.search(rb"\x1b\[[\d;]*m", raw)) == colours


def test_a_locale_without_utf_8_has_ascii(gateway, tmp_path):
    with Terminal(80, 24, top(gateway, "--for", "6s"), tmp_path, LC_ALL="C") as t:
        screen = t.sees(TITLE, "ended 0")
        assert t.raw.read_bytes().isascii() and "##" in screen


def test_a_pipe_has_plain_tables(gateway):
    done = subprocess.run([BUILD / "profgate", "top", "--url", f"127.0.0.1:{gateway.admin}", "--for", "5s"], text=True,
                          capture_output=True, timeout=PATIENCE, env={**SURROUNDINGS, "TERM": "xterm"})
    assert done.returncode == 0 and done.stdout.count(TITLE) >= 2 and done.stdout.isascii() and "\x1b" not in done.stdout


def test_a_gateway_that_counts_no_functions_says_how(tmp_path):
    with counting() as g:
        done = wait_for(lambda: (d := subprocess.run(top(g, "--once").split(), text=True, capture_output=True, timeout=PATIENCE))
                        and "cores" in d.stdout and d, "a table")
        assert "rules.enable=busy" in done.stdout and "CPU time" in done.stdout


def test_a_pack_that_nothing_is_counted_of(gateway):
    done = subprocess.run([BUILD / "profgate", "top", "--url", f"127.0.0.1:{gateway.admin}", "--once", "--pack", "bussy"], text=True,
                          capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0 and "nothing of the pack of --pack" in done.stdout and "rules.enable" not in done.stdout


def test_the_page_says_what_the_rules_say(gateway):
    import json
    page = wait_for(lambda: (p := json.loads(gateway.get("/api/v1/metrics?pack=busy")))["resources"] and p, "series")
    assert [m["name"] for m in page["metrics"]] == ["profile.busy.time", "profile.kernel.time"]
    assert page["metrics"][0] == {"name": "profile.busy.time", "pack": "busy", "describe": TITLE, "unit": "s", "on": "cpu",
                                  "kind": "counter", "labels": ["function", "category"]}
    everything = json.loads(gateway.get("/api/v1/metrics"))
    assert len(everything["metrics"]) > 30 and everything["samples"] > 0
    # The same numbers as on /metrics.
    for name, translated in (("profile.kernel.time", "profile_kernel_time_seconds_total"),
                             ("samples.kernel.count", "samples_kernel_count_total")):
        number = [m["name"] for m in everything["metrics"]].index(name)
        total = sum(s["value"] for r in everything["resources"] for s in r["series"] if s["metric"] == number)
        assert 0 < total <= gateway.total(translated)
    assert json.loads(gateway.get("/api/v1/metrics?pack=nobody"))["metrics"] == []
    for wrong in ("?x=1", "?pack=" + "x" * 64, "?pack=%zz"):
        assert subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}",
                               f"http://127.0.0.1:{gateway.admin}/api/v1/metrics{wrong}"], capture_output=True,
                              text=True, check=True).stdout == "400"


# ---- scripts/run and what it is made of


@pytest.mark.parametrize("script, arguments, says", [
    ("run", ["--nonsense"], "usage: scripts/run"), ("run", ["--for"], "--for wants a number of seconds"),
    ("run", ["--for", "10s"], "--for wants a number of seconds"), ("setup", ["--tests"], "usage: scripts/setup"),
    ("build", ["nonsense"], "./scripts/build PRESET"), ("test", ["--nonsense"], "usage: scripts/test")])
def test_a_script_that_is_called_wrongly_says_how_and_does_nothing(script, arguments, says):
    done = subprocess.run([ROOT / "scripts" / script, *arguments], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2 and done.stdout == "" and says in done.stderr, (done.returncode, done.stderr)


def test_a_replay_says_so(tmp_path):
    if BUILD != ROOT / "build":
        pytest.skip("scripts/run runs what is in build/")
    with Terminal(80, 24, f"{ROOT}/scripts/run --replay --for 8", tmp_path) as t:
        screen = t.sees(TITLE, "ended 0")
        assert re.search(r"REPLAY.*not this machine", screen), screen


def test_phases_count_and_failures_show_the_log(tmp_path):
    log = tmp_path / "log"
    words = f". {ROOT}/scripts/phases; log={log}; phase making bash -c 'seq 100; echo [1/2] x; echo it is broken; exit 7'"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 7 and done.stdout == ""
    assert str(log) in done.stderr and "it is broken" in done.stderr and "[1/2]" not in done.stderr
    assert "\n1\n" not in done.stderr and "\n99\n" in done.stderr
    words = f"bash -c '. {ROOT}/scripts/phases; log={log}; phase making bash -c \"echo [5/9]; while [ ! -e {tmp_path}/go ]; do sleep 0.1; done\"'"
    with Terminal(80, 24, words, tmp_path, TERM="xterm") as t:
        wait_for(lambda: re.search(r"making \.\.\. ([2-9]|[1-9]\d+) s \[5/9\]", t.screen()), "seconds and a step")
        (tmp_path / "go").touch()
        assert "[5/9]" not in t.sees("making: ", "ended 0")


def test_a_tree_that_was_moved_builds(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    (first / "scripts").mkdir(parents=True)
    for name in ("build", "phases"):
        shutil.copy(ROOT / "scripts" / name, first / "scripts")
    (first / "scripts/setup").write_text("#!/bin/sh\n")
    (first / "scripts/setup").chmod(0o755)
    shutil.copy(ROOT / "CMakePresets.json", first)
    (first / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(x NONE)\n"
                                          "add_custom_target(all_of_it ALL COMMAND pwd)\n")

    def build(folder):
        done = subprocess.run([folder / "scripts/build"], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
    assert "anew" not in build(first)
    first.rename(second)
    assert f"in {first}: building anew" in build(second)
    assert "anew" not in build(second)
    assert str(second) in (second / "build/build.log").read_text()


def test_a_host_whose_name_nobody_knows(tmp_path):
    alone = ["unshare", "--uts", "sh", "-c", 'hostname nobody-knows-me && exec "$@"', "sh"]
    if os.geteuid() != 0 or subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
        pytest.skip("may not have a host name of its own")
    with running(Gateway("--set", "rules.enable=busy", "--listen", "localhost:0")) as g:
        done = subprocess.run([*alone, BUILD / "profgate", "top", "--url", f"localhost:{g.admin}", "--once"], text=True,
                              capture_output=True, timeout=PATIENCE)
        assert done.returncode == 0 and "Nothing was counted" in done.stdout, done.stdout + done.stderr
