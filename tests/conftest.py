"""What every Python test shares: our programs as processes, free ports, waiting for a condition, results for scripts/test."""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))


def pytest_addoption(parser):
    parser.addoption("--soak", action="store_true", help="also run what takes longer than the everyday suite may")


def pytest_configure(config):
    config.addinivalue_line("markers", "soak: takes longer than the everyday suite may; runs with --soak")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--soak"):
        return
    for item in items:
        if "soak" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="runs with ./scripts/test --soak"))


def pytest_runtest_logreport(report):
    path = os.environ.get("PG_RESULTS")
    if not path:
        return
    if report.when == "call" or (report.when == "setup" and report.outcome != "passed") or (
            report.when == "teardown" and report.outcome == "failed"):
        word = {"passed": "pass", "failed": "fail", "skipped": "skip"}[report.outcome]
        with open(path, "a", encoding="utf-8") as results:
            results.write(f"{word} {report.nodeid.replace(' ', '_')}\n")
