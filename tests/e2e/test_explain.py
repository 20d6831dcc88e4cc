"""profgate rules explain: every sample speaks for itself, also of those that share a stack."""
import json
import subprocess

import pytest
from programs import BUILD, PATIENCE

RULES = """rules 1
pack mine
counter mine.orders { on any where sample["tenant"] == "a" label thread = sample["thread.name"] }
test "t" { stack go "x" expect nothing }
"""


@pytest.fixture()
def files(tmp_path):
    """A rule file, and a request of three samples on one stack, each with attributes of its own."""
    pb = pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
    request = pb.ExportProfilesServiceRequest()
    d = request.dictionary
    d.string_table.extend(["", "main", "tenant", "thread.name", "samples", "count", "profile.frame.type"])
    d.mapping_table.add(), d.link_table.add(), d.function_table.add(), d.location_table.add(), d.stack_table.add()
    d.attribute_table.add()
    for key, value in [(2, "a"), (2, "b"), (3, "one"), (3, "two"), (6, "go")]:
        attribute = d.attribute_table.add(key_strindex=key)
        attribute.value.string_value = value
    d.function_table.add(name_strindex=1)
    location = d.location_table.add(attribute_indices=[5])
    location.lines.add(function_index=1)
    d.stack_table.add(location_indices=[1])
    profile = request.resource_profiles.add().scope_profiles.add().profiles.add()
    profile.sample_type.type_strindex, profile.sample_type.unit_strindex = 4, 5
    for attributes in ([2, 3], [1, 3], [1, 4], [1, 4]):
        profile.samples.add(stack_index=1, attribute_indices=attributes, values=[1])
    (tmp_path / "mine.rules").write_text(RULES)
    (tmp_path / "request.pb").write_bytes(request.SerializeToString())
    return [tmp_path / "mine.rules", tmp_path / "request.pb"]


def explain(*arguments):
    done = subprocess.run([BUILD / "profgate", "rules", "explain", *map(str, arguments)], capture_output=True, text=True,
                          timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


def test_samples_of_one_stack_are_told_apart_by_their_attributes(files):
    code, out, _ = explain("--metric", "mine.orders", *files)
    assert code == 0
    assert [line.strip() for line in out.splitlines() if "mine.orders" in line] == [
        'mine.orders { thread="one" }', 'mine.orders { thread="two" }']


def test_why_not_is_of_the_sample_that_is_not_taken(files):
    code, out, _ = explain("--why-not", "mine.orders", *files)
    assert code == 0 and out.count("not mine.orders") == 1
    assert 'fails sample["tenant"] == "a" (' in out


def test_a_metric_that_there_is_not(files):
    assert explain("--metric", "mine.order", *files)[0::2] == (
        2, "profgate rules explain: there is no metric mine.order; did you mean mine.orders?\n")
    code, _, err = explain("--why-not", "samples.frame_type", *files)
    assert code == 2 and "the metric samples.frame_type is off" in err


def test_names_of_a_capture_do_not_reach_the_terminal_as_commands(files):
    """A capture is somebody else's: a name with an escape sequence or a line of its own is shown, not obeyed."""
    rules, request = files
    hostile = request.read_bytes().replace(b"main", b"\x1b[2J").replace(b"count", b"\xc2\x9b2\nJ")
    request.write_bytes(hostile)
    code, out, _ = explain("--stack", "1", rules, request)
    assert code == 0 and "go ?[2J" in out and "samples/?2?J" in out
    assert not [c for c in out if c != "\n" and not c.isprintable()]
    _, said, _ = explain("--json", rules, request)
    assert "go \x1b[2J" in json.loads(said)["stacks"][0]["frames"][0]


def test_a_stack_that_there_is_not(files):
    assert explain("--stack", "7", *files)[:2] == (1, "no sample has stack 7\n")


def test_an_empty_capture_is_said_to_be_empty(tmp_path):
    empty = tmp_path / "empty.pb"
    empty.write_bytes(b"")
    for arguments in ([], ["--why-not", "profile.gc.time"], ["--metric", "profile.gc.time"]):
        code, out, _ = explain(*arguments, empty)
        assert code == 1 and out.startswith("no sample: "), out
