"""The rule language against a model of it (tests/model/language.py) that evaluates naively: rule files and profiles that are made
up, compiled and counted by the program with all that makes it fast. Every number and label; nothing may be missing or more."""
import re
import subprocess
import sys

import pytest
from programs import BUILD, ROOT

pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
sys.path.insert(0, str(ROOT / "tests/model"))
from language import Rules, written  # noqa: E402
from language_cases import Case, Message  # noqa: E402

SEED = 20261121
CASES = 150
SERIES = re.compile(r"^(m\d+) \{(.*)\} (\S+)(?: s)?$")


def counted(case, folder):
    """{(metric, labels): number} as the program counts."""
    (folder / "x.rules").write_text(written(case.rules))
    captures = []
    for i, request in enumerate(case.requests):
        captures.append(folder / f"{i}.pb")
        captures[-1].write_bytes(request.SerializeToString())
    done = subprocess.run([BUILD / "profgate", "count", "--builtin", "none", "--rules", folder / "x.rules", *captures],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr + written(case.rules)
    found = {}
    for line in done.stdout.splitlines():
        if m := SERIES.match(line):
            found[m[1], tuple(sorted(re.findall(r'(\w+)="([^"]*)"', m[2])))] = float(m[3])
    return found


def differences(have, want):
    return [f"{key}: the model says {want.get(key, 0)}, the program {have.get(key, 0)}"
            for key in sorted(want.keys() | have.keys(), key=repr)
            if key not in have or want.get(key, 0) != pytest.approx(have[key], rel=1e-7)]


def check(seed, have, case):
    wrong = differences(have, case.rules.count(case.samples))
    assert not wrong, f"Case({seed}):\n" + "\n".join(wrong[:8]) + "\n" + written(case.rules)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """[(seed, the program's answer, case)]"""
    folder = tmp_path_factory.mktemp("cases")
    cases = ((seed, Case(seed)) for seed in range(SEED, SEED + CASES))
    return [(seed, counted(case, folder), case) for seed, case in cases]


def test_made_up_rules_count_as_the_model_does(answers):
    assert len(answers) == CASES and sum(len(have) for _, have, _ in answers) > CASES * 4
    for seed, have, case in answers:
        check(seed, have, case)


def keeps_going(self, tree, sample):
    return REGION(self, tree and (tree[0], None, *tree[2:]), sample)


def ends_with_it(self, tree, sample):
    return REGION(self, tree and (*tree[:2], tree[2] and "through", tree[3]), sample)


def from_the_leaf(self, tree, sample):
    return REGION(self, tree and (None, *tree[1:]), sample)


def anywhere(self, operands, direct, sample):
    return CALLS(self, operands, [False] * len(direct), sample)


def the_other_way(self, operands, direct, sample):
    return CALLS(self, operands[::-1], direct[::-1], sample)


def by_the_row(self, table, column, sample):
    return STACK_TABLE(self, table._replace(nearest=False), column, sample)


def by_the_leaf(self, table, column, sample):
    return STACK_TABLE(self, table._replace(nearest=True), column, sample)


def without_when(self, row, frame, sample):
    return ROW_HOLDS(self, (row[0], None), frame, sample)


def empty_is_a_value(self, tree, sample, this=None, cell=None):
    value = TEXT(self, tree, sample, this, cell)
    return "" if tree[0] == "or" and TEXT(self, tree[1], sample, this, cell) == "" else value


def none_is_equal(self, tree, sample, this=None):
    negated = tree[0] == "matches" and tree[2] == "!~" and self.text(tree[1], sample, this) is None
    return False if negated else SAMPLE(self, tree, sample, this)


REGION, CALLS, STACK_TABLE, ROW_HOLDS, TEXT, SAMPLE = (
    Rules.region, Rules.calls, Rules.stack_table, Rules.row_holds, Rules.text, Rules.sample)


@pytest.mark.parametrize("name, wrong", [
    ("region", keeps_going), ("region", ends_with_it), ("region", from_the_leaf), ("calls", anywhere), ("calls", the_other_way),
    ("stack_table", by_the_row), ("stack_table", by_the_leaf), ("row_holds", without_when), ("text", empty_is_a_value),
    ("sample", none_is_equal)], ids=lambda value: value.__name__ if callable(value) else value)
def test_a_wrong_reading_would_be_noticed(answers, monkeypatch, name, wrong):
    monkeypatch.setattr(Rules, name, wrong)
    assert any(differences(have, case.rules.count(case.samples)) for _, have, case in answers)


@pytest.mark.soak
def test_many_made_up_rules_count_as_the_model_does(tmp_path):
    for seed in range(SEED + CASES, SEED + CASES + 8_000):
        case = Case(seed)
        check(seed, counted(case, tmp_path), case)


def test_what_walks_find_may_have_no_room(tmp_path):
    """Two packs' worth of what stacks can be found to say: more than there is room for in one, while the other is made anew. Each
    sample is counted by its stack all the same."""
    bits = 17

    def part(of, n):
        return " + ".join(f'(("x" when any frame is "{of}{i}") ?? "-")' for i in range(n))
    (tmp_path / "x.rules").write_text(f"rules 1\npack p\ncounter a {{ on cpu value one label x = {part('A', bits)} limit 1 }}\n" + "".join(
        f"counter b{k} {{ on cpu value one label y = {part('B', 4)} limit 100 }}\n" for k in range(3)))

    def stack(a, b):
        found = [f"A{i}" for i in range(bits) if a >> i & 1] + [f"B{i}" for i in range(4) if b >> i & 1]
        return [("native", None, [(name, "")]) for name in found or ["none"]]

    def request(path, stacks):
        message = Message()
        profile = message.profile({"profile": {}, "scope": {}, "resource": {}}, False)
        for one in stacks:
            message.sample(profile, stack(*one), {}, False, [1], 0)
        path.write_bytes(message.request.SerializeToString())
        return path
    both = [(60000 + v, 1 + v % 15) for v in range(6000)] + [(80000 + v, 1 + v % 15) for v in range(20)]
    captures = [request(tmp_path / "0", ((v, 0) for v in range(73600))), request(tmp_path / "1", both[:6000]), request(tmp_path / "2", both[6000:])]
    done = subprocess.run([BUILD / "profgate", "count", "--builtin", "none", "--rules", tmp_path / "x.rules", *captures],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (done.returncode, done.stderr)
    for k in range(3):
        found = {tuple(c == "x" for c in m[1]): int(m[2]) for m in re.finditer(rf'^b{k} {{y="([^"]*)"}} (\d+)', done.stdout, re.M)}
        want = {tuple(bool(b >> i & 1) for i in range(4)): sum(other == b for _, other in both) for b in range(1, 16)}
        assert {key: n for key, n in found.items() if any(key)} == want
