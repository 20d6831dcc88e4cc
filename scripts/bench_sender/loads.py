"""Programs that make this machine busy (tests/sender/load), built once."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent / "tests/sender/load"
SHORT_RATE = 500
# compile again and again, each from its own file of tests/sender/load; the names are the compilers' own executables
COMPILERS = {
    "clang": ["clang++", "-O2", "-DLAYERS=60", "-c", "large.cc"],
    "cc1plus": ["g++", "-O2", "-DLAYERS=60", "-c", "large.cc"],
    "rustc": ["rustc", "-O", "--emit", "obj", "large.rs"],
}
BUILD = ["g++", "-g", "-O1", "-DLAYERS=3", "-c", "large.cc"]


class Loads:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        for source, name in (("busy", "pg-busy"), ("short", "pg-short"), ("short", "pg-spawn"), ("switching", "pg-switching")):
            subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", SOURCE / f"{source}.c", "-o", self.folder / name, "-lpthread"],
                           check=True)
        self.mixed = [("C", [self.folder / "pg-busy"]), ("Python", [sys.executable, SOURCE / "busy.py"])]
        go = shutil.which("go") or "/usr/local/go/bin/go"
        if os.path.exists(go) and subprocess.run([go, "build", "-o", self.folder / "pg-busy-go", SOURCE / "busy.go"]).returncode == 0:
            self.mixed.append(("Go", [self.folder / "pg-busy-go"]))
        if shutil.which("node"):
            self.mixed.append(("Node.js", ["node", SOURCE / "busy.js"]))
        if shutil.which("javac") and subprocess.run(["javac", "-d", self.folder, SOURCE / "Busy.java"]).returncode == 0:
            self.mixed.append(("Java", ["java", "-Xmx256m", "-cp", self.folder, "Busy"]))
        rustup = pathlib.Path.home() / ".cargo/bin"
        os.environ["PATH"] += f":{rustup}" if rustup.is_dir() else ""
        self.compilers = {name: argv for name, argv in COMPILERS.items() if works(argv[0])}

    def start(self, case, seconds):
        """The processes of a case; the one of "short" says at its end what there was (said)."""
        programs = []
        if case == "mixed":
            programs = [argv for _, argv in self.mixed]
        elif case == "short":
            programs = [[self.folder / "pg-spawn", str(SHORT_RATE), str(seconds), self.folder / "pg-short"]]
        elif case == "large":
            programs = [self.again(argv) for argv in self.compilers.values()]
        elif case == "build":
            programs = [self.again(BUILD)] * (2 * os.cpu_count())
        elif case == "switching":
            programs = [[self.folder / "pg-switching"]]
        return [subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE if case == "short" else subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL if case in ("large", "build") else None, text=True,
                                 start_new_session=True) for argv in programs]

    def again(self, argv):
        """A command that compiles the file its last argument names for as long as it lives."""
        return ["sh", "-c", 'while :; do "$@" -o "$0-$$.o"; done', self.folder / argv[0], *argv[:-1], SOURCE / argv[-1]]

    def compiles(self, case):
        """The executables whose stacks count for a case."""
        return {"large": set(self.compilers), "build": {"cc1plus"}}.get(case, set())


def works(program):
    return bool(shutil.which(program)) and subprocess.run([program, "--version"], capture_output=True).returncode == 0


def said(process):
    """What the starter of short processes prints: processes, cpu (seconds), failed."""
    return dict(re.findall(r"(\w+)=(\S+)", process.communicate(timeout=120)[0]))


def stop(processes):
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with what it has started
        process.wait()
