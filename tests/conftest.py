"""What every Python test shares: which run together and in what order, results and times for scripts/test, an end on demand."""
import os
import pathlib
import signal
import sys
import time

import pytest

# Files use what others of any folder begin with, also when they are run alone.
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent / folder) for folder in ("lib", "e2e", "interop", "kernel")]

# A file's tests share its fixtures and run one after the other, files beside each other. Those that look at the whole machine
# from below (BPF, perf) are one group, and so are what is timed or loads the machine, so that neither meets its own kind; and whole
# machines under qemu. Who has profsend look at a program of its own alone (--pid, --include) and judges no time is none of them.
# Long ones first: whoever begins last should not be who takes longest.
GROUPS = {
    "profsend": ("e2e/test_unwind.py", "e2e/test_absence.py", "e2e/test_kinds_lock.py", "e2e/test_profsend",
                 "kernel/test_restrictions.py"),
    "load": ("e2e/test_load.py", "e2e/test_attack.py", "e2e/test_stress.py", "e2e/test_operated.py", "e2e/test_soak.py", "e2e/test_cost.py"),
    "guests": ("kernel/",),
    "page": ("interop/test_page.py",),
    "kafka": ("interop/test_kafka.py",),
}


def pytest_addoption(parser):
    parser.addoption("--soak", action="store_true", help="also run what takes longer than the everyday suite may")


def _end(number, _):
    raise KeyboardInterrupt(f"told to end by {signal.Signals(number).name}")


def pytest_configure(config):
    if config.getoption("--soak"):
        os.environ["PG_SOAK"] = "1"
    config.addinivalue_line("markers", "soak: takes longer than the everyday suite may; runs with --soak")
    for number in (signal.SIGTERM, signal.SIGHUP):  # so that every test ends what it has started
        signal.signal(number, _end)


def _file(nodeid):
    return nodeid.split("::")[0].removeprefix("tests/")


def _group(file):
    return next((name for name, parts in GROUPS.items() if file.startswith(parts)), file)


@pytest.hookimpl(tryfirst=True)  # before xdist, which reads the groups in its own
def pytest_collection_modifyitems(config, items):
    for item in items:
        if "soak" in item.keywords and not config.getoption("--soak"):
            item.add_marker(pytest.mark.skip(reason="runs with ./scripts/test --soak"))
        item.add_marker(pytest.mark.xdist_group(_group(_file(item.nodeid))))
    first = list(GROUPS)
    items.sort(key=lambda item: first.index(group) if (group := _group(_file(item.nodeid))) in first else len(first))


def _cpu():
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    began, cpu = time.monotonic(), _cpu()
    try:
        return (yield)
    finally:
        if path := os.environ.get("PG_TIMES"):
            with open(path, "a", encoding="utf-8") as times:
                times.write(f"{time.monotonic() - began:.1f} {_cpu() - cpu:.1f} {_name(item.nodeid)}\n")


def _name(nodeid):
    """Without the group that xdist puts behind it."""
    return nodeid.removesuffix("@" + _group(_file(nodeid))).replace(" ", "_")


def pytest_runtest_logreport(report):
    path = os.environ.get("PG_RESULTS")
    if not path or "PYTEST_XDIST_WORKER" in os.environ:  # the one who hears of all of them writes
        return
    if report.when == "call" or (report.when == "setup" and report.outcome != "passed") or (
            report.when == "teardown" and report.outcome == "failed"):
        word = {"passed": "pass", "failed": "fail", "skipped": "skip"}[report.outcome]
        with open(path, "a", encoding="utf-8") as results:
            results.write(f"{word} {_name(report.nodeid)}\n")
        failed = os.environ.get("PG_FAILED")
        if failed and word == "fail":
            with open(failed, "a", encoding="utf-8") as again:
                again.write(report.nodeid.removesuffix("@" + _group(_file(report.nodeid))) + "\n")
        skips = os.environ.get("PG_SKIPS")
        if skips and word == "skip" and report.longrepr:
            with open(skips, "a", encoding="utf-8") as reasons:
                why = report.longrepr[2] if isinstance(report.longrepr, (tuple, list)) else str(report.longrepr)
                reasons.write(f"{_name(report.nodeid)}: {' '.join(why.removeprefix('Skipped: ').split())}\n")
