"""The suite's own tools: what a change can touch (scripts/changed), and that nothing is left behind (scripts/contained)."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest
from programs import BUILD, PATIENCE, ROOT, wait_for


def touched(*files):
    """ctest's names, Python files, files for clang-tidy."""
    done = subprocess.run([ROOT / "scripts/changed", "--files", *files], capture_output=True, text=True, check=True, timeout=PATIENCE)
    units, python, tidy = done.stdout.split("\n")[:3]
    return units, python.split(), tidy.split()


def names(units, test):
    return re.search(units, test) is not None


def test_a_page_touches_the_test_of_pages():
    assert touched("README.md") == ("", ["tests/e2e/test_pages.py"], [])


def test_a_folder_touches_its_own_tests_and_of_those_that_need_it():
    units, python, tidy = touched("rules/source/lex.c")
    for test in ("unit/rules/source/test_lex", "unit/gateway/classify/test_classify", "fuzz/rules"):
        assert names(units, test), test
    for test in ("unit/proto/base/test_json", "unit/sender/unwind/test_tables", "fuzz/elf"):
        assert not names(units, test), test
    assert "tests/e2e/test_reload.py" in python and "tests/e2e/test_kinds_lock.py" not in python
    assert tidy == ["rules/source/lex.c"]


def test_the_sender_touches_no_test_of_the_gateway_alone():
    units, python, _ = touched("sender/unwind/cfi.c")
    assert names(units, "unit/sender/unwind/test_tables") and not names(units, "unit/gateway/serve/test_http")
    assert "tests/e2e/test_unwind.py" in python and "tests/e2e/test_reload.py" not in python


def test_a_test_touches_itself():
    assert touched("tests/unit/proto/base/test_json.c")[0] == "(^|/)(unit/proto/base/test_json)$"
    assert "tests/e2e/test_reload.py" in touched("tests/e2e/test_reload.py")[1]
    assert touched("tests/fuzz/corpus/json/x") == ("(^|/)(fuzz/json)$", [], [])


def test_what_is_not_known_touches_everything():
    for file in ("CMakeLists.txt", "scripts/test", "tests/lib/unit.c", "tests/conftest.py", "no/such/folder/x.c"):
        assert touched(file) == (".", ["*"], ["*"]), file


SOMETIMES = """
import pathlib

def test_good_when_alone():
    assert pathlib.Path({0!r}).exists()

def test_never_good():
    assert False
"""


def test_what_fails_beside_others_and_not_alone_is_named(tmp_path):
    """And what fails alone too has failed; five at once are not tried."""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:  # below the root, as pytest's ids are
        shutil.copy(ROOT / "tests/conftest.py", folder)
        test = pathlib.Path(folder, "test_x.py")
        test.write_text(SOMETIMES.format(str(tmp_path / "quiet")), encoding="utf-8")
        results, failed = tmp_path / "results", tmp_path / "failed"
        env = {**os.environ, "PG_FAILED": str(failed), "PG_PYTHON_JOBS": "0", "PG_PYTHON_TESTS": str(test)}
        env.pop("PYTEST_XDIST_WORKER", None)  # this is a run of its own

        def run(*command):
            subprocess.run(command, env=env, capture_output=True, timeout=PATIENCE)
            return sorted(line.split(" ")[0] + " " + line.split("::")[1] for line in results.read_text(encoding="utf-8").splitlines())

        assert run(ROOT / "tests/run-python", results) == ["fail test_good_when_alone", "fail test_never_good"]
        (tmp_path / "quiet").touch()
        alone = ["fail test_never_good", "pass test_good_when_alone", "unsteady test_good_when_alone"]
        assert run(ROOT / "tests/run-alone", results, failed) == alone
        failed.write_text("".join(f"{test}::test_{i}\n" for i in range(5)), encoding="utf-8")
        assert run(ROOT / "tests/run-alone", results, failed) == alone


@pytest.mark.parametrize("how", [{}, {"CK_FORK": "no"}])
def test_what_cases_put_down_goes_with_their_program(how):
    for program in ("gateway_access_test_credentials", "proto_io_test_unix_address"):
        with tempfile.TemporaryDirectory(prefix="pg-") as folder:  # short, for sockets
            done = subprocess.run([BUILD / f"tests/unit_{program}"], env={**os.environ, **how, "TMPDIR": folder},
                                  stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
            assert done.returncode == 0 and os.listdir(folder) == [], done.stdout


def sleeping(seconds):
    """Whether anybody sleeps for that long."""
    for command in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if command.read_bytes() == f"sleep\0{seconds}\0".encode():
                return True
        except OSError:
            continue
    return False


def test_contained_leaves_nothing_behind_whoever_ends_it(tmp_path):
    script = "setsid sleep {0} & (sleep {0} &) ; {1}"
    for _ in range(10):  # who ends at once does so before anybody waits
        ended = subprocess.run([ROOT / "scripts/contained", "sh", "-c", script.format("86399.125", "exit 3")], timeout=PATIENCE)
        assert ended.returncode == 3
        assert not sleeping("86399.125")

    told = subprocess.Popen([ROOT / "scripts/contained", "sh", "-c", script.format("86399.25", f"touch {tmp_path}/begun; sleep 86399.25")])
    wait_for((tmp_path / "begun").exists, "the command has begun")
    wait_for(lambda: sleeping("86399.25"), "it sleeps")
    told.terminate()
    assert told.wait(timeout=PATIENCE) == 128 + 15
    assert not sleeping("86399.25")


@pytest.mark.parametrize("word", ["--help", "relase"])
def test_what_is_no_preset_is_told_how_and_makes_no_folder(word):
    done = subprocess.run([ROOT / "scripts/build", word], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2 and "./scripts/build PRESET" in done.stderr and not done.stdout
    assert not (ROOT / f"build-{word}").exists()
