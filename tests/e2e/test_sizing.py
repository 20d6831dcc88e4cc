"""The sizing page says what its script works out, and the script's arithmetic agrees with its simulation."""
import importlib.machinery
import importlib.util
import re
import sys

import pytest
from programs import ROOT


@pytest.fixture(scope="module")
def sizing():
    loader = importlib.machinery.SourceFileLoader("sizing", str(ROOT / "scripts/sizing"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("sizing", loader))
    sys.modules["sizing"] = module  # for its dataclasses
    loader.exec_module(module)
    return module


def test_the_pages_arithmetic_is_of_todays_figures(sizing):
    page = sizing.BETWEEN.search(sizing.PAGE.read_text()).group(0)
    hosts = [1_000, 10_000, 100_000]
    wanted = sizing.arithmetic([sizing.plan(n, 5) for n in hosts])
    assert wanted in page, f"./scripts/sizing --write\n{wanted}"
    for n in hosts:
        assert len(re.findall(rf"^\| {n:,} \|", page, re.M)) == 3, n  # once worked out, twice simulated


def test_the_simulation_agrees_with_the_arithmetic_and_with_the_page(sizing):
    """Anew, with another seed: chance has its room, the page's row has not moved."""
    plan, us = sizing.plan(10_000, 5), sizing.costs()[sizing.ROWS["direct"]]
    cores = sizing.CORES * plan.gateways["direct"]
    rows = re.findall(r"^\| 10,000 \| (direct|by Kafka) \| ([\d.]+)% \| ([\d.]+)%, ([\d.]+)% \| ([\d.]+), ([\d.]+) \|", sizing.PAGE.read_text(), re.M)
    for (way, worked_out, busy, busiest, _, p99), partitions in zip(rows, (None, plan.partitions), strict=True):
        seen = sizing.simulate(10_000, 5, us, cores, partitions, seed=7)
        # 20,000 requests whose sizes differ by a fifth
        assert seen.busy == pytest.approx(plan.cores["direct"] / cores, rel=0.02), way
        assert 100 * seen.busy == pytest.approx(float(busy), rel=0.02) and float(worked_out) == pytest.approx(float(busy), rel=0.02)
        assert 100 * seen.busiest == pytest.approx(float(busiest), rel=0.15)
        assert seen.wait_p99 == pytest.approx(float(p99), rel=0.25) and seen.wait_p50 <= seen.wait_p99
        if partitions:
            assert 1 <= seen.skew < 1.5


def test_too_few_gateways_are_seen(sizing):
    """What the tables are for: one core for what needs more than one is behind for ever, and the tables' plan is not."""
    us = sizing.costs()[sizing.ROWS["direct"]]
    needed = sizing.plan(20_000, 5).cores["direct"]
    assert needed > 1.2
    short = sizing.simulate(20_000, 5, us, 1, seconds=5)
    longer = sizing.simulate(20_000, 5, us, 1, seconds=10)
    assert short.busiest > 1 and longer.wait_p99 > 1.5 * short.wait_p99 > 100
    assert sizing.simulate(20_000, 5, us, 4 * sizing.plan(20_000, 5).gateways["direct"], seconds=5).wait_p99 < 5
