"""Time waited for locks, by futex(2): as much as the program itself says, with the stack that waited and how it ended."""
import math

import pytest
from test_profsend_kinds import SIGMAS, Kinds, profiled, truth  # noqa: F401: the fixture

KIND = "lock/nanoseconds"
ARGUMENTS = ["--no-cpu", "--lock-wait", "--include", "executable=pg-truth"]


def test_waits_for_a_contended_mutex_add_up(truth):  # noqa: F811
    with Kinds() as receiver:
        (pid, said), = profiled(receiver, [*ARGUMENTS, "--lock-wait-min", "0ms"], [truth, "lock", "3"])
    own = [hit for hit in receiver.of(pid, KIND) if "lock_here" in hit.names]
    waited = sum(hit.value for hit in own) / 1e9
    assert said["locks"] > 50 and said["waited"] > 1, said
    assert said["waited"] * 0.98 <= waited <= said["waited"] * 1.02, (waited, said)
    assert {hit.attributes["profsend.lock.state"] for hit in own} <= {"woken", "changed"}, own[0]
    # user frames alone, from the C library's to the thread's first; the first stacks may come before the tables
    whole = [hit for hit in own if "profsend.stack.incomplete" not in hit.attributes]
    assert len(whole) > len(own) / 2 and all(hit.names.index("lock_here") < hit.names.index("contend") for hit in whole), own[0]
    assert not any(name.startswith(("do_syscall", "__traceiter", "bpf_")) for hit in own for name in hit.names), own[0]


def test_a_wait_says_how_it_ended(truth):  # noqa: F811
    with Kinds() as receiver:
        (pid, said), = profiled(receiver, [*ARGUMENTS, "--lock-wait-min", "0ms"], [truth, "timeout", "2"])
    own = [hit for hit in receiver.of(pid, KIND) if "time_out_here" in hit.names]
    waited = sum(hit.value for hit in own) / 1e9
    assert said["waited"] * 0.98 <= waited <= said["waited"] * 1.02, (waited, said)
    states = [hit.attributes["profsend.lock.state"] for hit in own]
    assert states.count("timeout") >= said["locks"] * 0.9 and states.count("interrupted") >= said["locks"] * 0.5, (states, said)


def test_short_waits_cost_no_stack(truth):  # noqa: F811
    with Kinds() as receiver:
        (pid, said), = profiled(receiver, [*ARGUMENTS, "--lock-wait-min", "20s"], [truth, "lock", "1"])
    assert said["locks"] > 10 and not receiver.of(pid, KIND), receiver.hits[:3]


@pytest.mark.parametrize("hz, seconds, rounds", [
    (19, 3, 1), (97, 1, 1), (999, 1, 1), pytest.param(19, 2, 30, marks=pytest.mark.soak)])
def test_shares_of_functions_are_within_the_binomial_error(truth, hz, seconds, rounds):  # noqa: F811
    """What a function took of the CPU by its own clock, at every rate; SIGMAS standard deviations, as wide as the hits are few."""
    all_first, all_expected, variance = 0, 0.0, 0.0
    for _ in range(rounds):
        with Kinds() as receiver:
            said = profiled(receiver, ["--frequency", str(hz), "--include", "executable=pg-truth"],
                            *[[truth, what, str(seconds)] for what in ("spin", "half", "spin", "half")])
        for pid, own in said:
            expected, got = own["cpu"] * hz, receiver.total(pid, "samples/count")
            assert abs(got - expected) <= SIGMAS * math.sqrt(expected) + 1, (got, expected, own)
            hits = [hit for hit in receiver.of(pid, "samples/count") if {"first", "second"} & set(hit.names)]
            share = own["first"] / (own["first"] + own["second"])
            assert len(hits) > 0.9 * got, (len(hits), got)
            first = sum("first" in hit.names for hit in hits)
            assert abs(first - share * len(hits)) <= SIGMAS * math.sqrt(len(hits) * share * (1 - share)) + 1, (first, len(hits), share)
            all_first += first
            all_expected += share * len(hits)
            variance += len(hits) * share * (1 - share)
    print(f"{hz} Hz: {all_first} hits, {all_expected:.1f} expected, standard deviation {math.sqrt(variance):.1f}")
    assert abs(all_first - all_expected) <= SIGMAS * math.sqrt(variance) + 1
