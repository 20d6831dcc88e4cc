"""`scripts/run` where a Java, a Python and a Node.js program are at work: what a person sees, and what Prometheus is told."""
import re
import shutil
import subprocess
import time

import pytest
from programs import BUILD, ROOT, Process, parse_prometheus, running, wait_for
from test_top import TITLE, Terminal, processes

COUNT = "long x = 0; for (int i = 0; i < n; i++) x = (x * 31 + i) % 1000003; return x;"
AT_WORK = {
    "jvm": ("Work.java", "java", "public class Work {\n static long javaAtWork(int n) { " + COUNT + " }\n"
            " public static void main(String[] a) { for (long x = 0;;) x += javaAtWork(20000000); }\n}\n"),
    "cpython": ("work.py", "/usr/bin/python3", "def python_at_work(n):\n    x = 0\n    for i in range(n):\n        x = (x * 31 + i) % 1000003\n"
                "while True:\n    python_at_work(1000000)\n"),
    "v8js": ("work.js", "node", "function nodeAtWork(n) { " + COUNT.replace("long", "let").replace("int", "let") + " }\n"
             "for (;;) nodeAtWork(20000000);\n"),
}
SHOWN = ("Work.javaAtWork", "python_at_work", "nodeAtWork")


def test_each_language_is_shown_by_function_and_counted(tmp_path):
    if BUILD != ROOT / "build":
        pytest.skip("scripts/run runs what is in build/")
    for _, command, _ in AT_WORK.values():
        shutil.which(command) or pytest.skip(f"no {command} here")
    programs = []
    for file, command, source in AT_WORK.values():
        (tmp_path / file).write_text(source)
        programs.append(Process([command, tmp_path / file]))
    # Many lines: each program of a machine that is busy with other things has its own.
    with running(*programs), Terminal(120, 200, f"{ROOT}/scripts/run", tmp_path) as t:
        # Behind it the table has the screen for itself.
        said = wait_for(lambda: t.raw.exists() and "health  " in (s := t.raw.read_text()) and s, "scripts/run at work")
        begun = time.monotonic()
        if "profsend may not profile here" in said:
            pytest.skip("profiling is not permitted here")
        screen = t.sees(TITLE, *SHOWN)
        print(f"\nshown after {time.monotonic() - begun:.1f} s")
        # Below its own program.
        for function, program in zip(SHOWN, ("java", "python", "node")):
            assert processes(screen.partition(function)[0])[-1][2].startswith(program), screen
        series = wait_for(lambda: (s := scraped(said)) and s, "every language's samples on /metrics")
        assert all(n >= 1 for n in series.values()), series
        t.tmux("send-keys", "C-c")
        t.sees("ended ", TITLE)


def scraped(said):
    """Prometheus' names of the languages' samples, when each is there."""
    url = re.search(r"^metrics +(http://\S+/metrics)", said, re.M)[1]
    text = subprocess.run(["curl", "-sf", url], capture_output=True, text=True, check=True).stdout
    names = [f"samples_{language}_count_total" for language in AT_WORK]
    found = {name: sum(n for (series, _), n in parse_prometheus(text).items() if series == name) for name in names}
    return found if all(found.values()) else None
