"""The connector pack against a model of Elastic's connector (tests/model/connector.py): on what was recorded, on requests that
are made up, and on recorded ones that are changed. Every number, label and resource; nothing may be missing or more."""
import base64
import collections
import json
import re
import subprocess
import sys

import pytest
from programs import BUILD, ROOT, Gateway, captures, json_lines, running

pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
sys.path.insert(0, str(ROOT / "tests/model"))
import connector  # noqa: E402
import generate  # noqa: E402
from google.protobuf import json_format  # noqa: E402
from connector import Configuration, Gauge  # noqa: E402
from generate import seeded, service  # noqa: E402
from lawful import lawful  # noqa: E402

# tests/model/all.yaml is what the recordings NAME.all.json were made with; here in Python's regular expressions.
ALL = Configuration(
    gauges={"samples.frame_type": Gauge(True), "samples.classification": Gauge(True)},
    aggregations=[(re.compile(r"\Aruntime\."), "go-runtime"), (re.compile("lock|futex|mutex", re.ASCII | re.IGNORECASE), "locking"),
                  (re.compile(r"\A(?:tcp|sock|ip|__sock|inet)_"), "net"), (re.compile(r"java\.util\."), "java-util")])
LABEL_MAX = 256  # rules/LANGUAGE.md §9, a deliberate difference: a label's text is cut, at a character
CASE = "model.case"


def cut(text):
    return text.encode()[:LABEL_MAX].decode(errors="ignore")


def of_any(value):
    """An attribute's value, comparable: of the official message."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return kind, tuple(of_any(v) for v in value.array_value.values)
    if kind == "kvlist_value":
        return kind, tuple((kv.key, of_any(kv.value)) for kv in value.kvlist_value.values)
    return (kind, repr(getattr(value, kind)) if kind == "double_value" else getattr(value, kind)) if kind else None


def of_json(value):
    """The same of OTLP/JSON."""
    ways = {"arrayValue": ("array_value", lambda v: tuple(of_json(one) for one in v.get("values", []))),
            "kvlistValue": ("kvlist_value", lambda v: tuple((kv["key"], of_json(kv.get("value", {}))) for kv in v.get("values", []))),
            "intValue": ("int_value", int), "doubleValue": ("double_value", lambda v: repr(float(v))),
            "bytesValue": ("bytes_value", base64.b64decode), "boolValue": ("bool_value", bool), "stringValue": ("string_value", str)}
    return next(((ways[key][0], ways[key][1](found)) for key, found in value.items()), None)


def who(pairs):
    return tuple(sorted(pairs, key=repr))


def of_requests(requests):
    """{(resource's attributes, metric, labels): number} of OTLP/JSON metrics, the connector's or ours."""
    total = collections.Counter()
    for request in requests:
        for resource in request.get("resourceMetrics", []):
            name = who((a["key"], of_json(a.get("value", {}))) for a in resource.get("resource", {}).get("attributes", []))
            for metric in [m for scope in resource["scopeMetrics"] for m in scope["metrics"] if m["name"].startswith("samples.")]:
                for point in metric.get("sum", metric.get("gauge"))["dataPoints"]:
                    labels = tuple(sorted((a["key"], cut(a["value"]["stringValue"])) for a in point.get("attributes", [])))
                    total[name, metric["name"], labels] += int(point["asInt"])
    return total


def of_model(request, configuration=ALL):
    """What the connector would have counted, with labels cut as ours are."""
    total = collections.Counter()
    counted = connector.count(request, configuration, lambda attributes: who((a.key, of_any(a.value)) for a in attributes))
    for (name, metric, labels), number in counted.items():
        total[name, metric, tuple((k, cut(v)) for k, v in labels)] += number
    return total


def numbered(request, case):
    """Its resources say which case they belong to: a thousand cases are then one answer."""
    for resource in request.resource_profiles:
        resource.resource.attributes.add(key=CASE).value.int_value = case
    return request


def differences(want, have):
    """In words, the cases with the fewest first."""
    by_case = collections.defaultdict(list)
    for key in want.keys() | have.keys():
        if want.get(key) != have.get(key):
            case = next((v[1] for k, v in key[0] if k == CASE), None)
            by_case[case].append(f"case {case}: {key[1]} {dict(key[2])}: connector {want.get(key)}, we {have.get(key)}")
    return [line for lines in sorted(by_case.values(), key=len) for line in sorted(lines)]


def same(want, have):
    wrong = differences(want, have)
    assert not wrong, f"{len(wrong)} differences\n" + "\n".join(wrong[:20])


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    """tests/model/all.yaml as rules."""
    path = tmp_path_factory.mktemp("model") / "all.rules"
    path.write_text(convert(ROOT / "tests/model/all.yaml"))
    return path


def convert(config, *arguments):
    done = subprocess.run([BUILD / "profgate", "rules", "from-connector", *arguments, config], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def counted(files, *arguments):
    """What `profgate count` makes of files of requests."""
    done = subprocess.run([BUILD / "profgate", "count", "--builtin", "connector", "--resources", "--json", *arguments, *files],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return of_requests([json.loads(done.stdout)["metrics"]])


def hex_ids(tree):
    """Ids are hex in OTLP/JSON, where protobuf's own mapping has base64 (OTLP specification, "JSON Protobuf Encoding")."""
    if isinstance(tree, list):
        return [hex_ids(one) for one in tree]
    if not isinstance(tree, dict):
        return tree
    return {key: base64.b64decode(value).hex() if key in ("traceId", "spanId", "profileId") else hex_ids(value)
            for key, value in tree.items()}


def json_line(request):
    return json.dumps(hex_ids(json_format.MessageToDict(request, use_integers_for_enums=True)), ensure_ascii=False)


# ---- recorded

RECORDED = [path for pattern in ("ebpf-*.pb", "rand-*.pb", "synth-*.pb") for path in captures(pattern)]
FOREIGN = ROOT.parent / "shared/data/foreign/connector"


@pytest.mark.parametrize("configuration", ["default", "all"])
def test_the_model_answers_what_the_connector_answered(configuration):
    for path in RECORDED + sorted(FOREIGN.glob("*.pb")):
        answer = json.loads(path.with_name(f"{path.stem}.{configuration}.json").read_text())
        request = service.ExportProfilesServiceRequest.FromString(path.read_bytes())
        same(of_requests([answer]), of_model(request, ALL if configuration == "all" else Configuration()))


def test_recorded_requests_give_the_recorded_numbers(rules):
    for path in RECORDED + sorted(FOREIGN.glob("*.pb")):
        answers = [json.loads(path.with_name(f"{path.stem}.{name}.json").read_text()) for name in ("default", "all")]
        same(of_requests(answers[:1]), counted([path]))
        same(of_requests(answers[1:]), counted([path], "--rules", rules))


def test_recorded_requests_as_json_give_the_recorded_numbers(tmp_path, rules):
    for path in RECORDED[::3]:
        line = tmp_path / f"{path.stem}.json"
        line.write_text(json_line(service.ExportProfilesServiceRequest.FromString(path.read_bytes())) + "\n")
        same(of_requests([json.loads(path.with_name(f"{path.stem}.all.json").read_text())]), counted([line], "--rules", rules))


# ---- made up

def made_up(seed, n, tmp_path, as_json=False):
    files, want = [], collections.Counter()
    for case in range(n):
        request = numbered(generate.made_up(seeded(seed, case)), case)
        files.append(tmp_path / f"{case}.pb")
        if as_json:
            files[-1] = files[-1].with_suffix(".json")
            files[-1].write_text(json_line(request) + "\n")
        else:
            files[-1].write_bytes(request.SerializeToString())
        lawful(request)
        want.update(of_model(request))
    return files, want


def check_made_up(seed, n, tmp_path, rules):
    files, want = made_up(seed, n, tmp_path)
    same(want, counted(files, "--rules", rules))
    only = {key: number for key, number in want.items() if key[1] not in connector.GAUGES}
    same(only, counted(files))


def test_made_up_requests(tmp_path, rules):
    check_made_up(1, 2000, tmp_path, rules)


def test_made_up_requests_as_json(tmp_path, rules):
    files, want = made_up(12, 600, tmp_path, as_json=True)
    same(want, counted(files, "--rules", rules))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_more_made_up_requests(tmp_path, rules, seed):
    check_made_up(seed, 2000, tmp_path, rules)


# ---- recorded and changed

GATEWAY = """
receivers: {{ otlp: [{{ endpoint: "127.0.0.1:0", wire_version: "1.10" }}] }}
rules: {{ builtin: connector, files: [{rules}] }}
metrics: {{ flush_interval: 1h, exporters: [file/out], cardinality_limit: 1000000 }}
exporters: {{ file/out: {{ path: {out} }} }}
"""


def changed_requests(seed, n):
    """n recorded requests, cut down, and changed in one of three ways; the official decoder takes each."""
    bases = [generate.cut(seeded(seed, path.stem, i), service.ExportProfilesServiceRequest.FromString(path.read_bytes()))
             for path in RECORDED for i in range(2)]
    for case in range(n):
        r = seeded(seed, case)
        request = service.ExportProfilesServiceRequest()
        request.CopyFrom(r.choice(bases))
        way = r.choice([generate.shuffled, generate.changed, generate.bytes_changed])
        request = way(r, numbered(request, case))
        if request is not None:
            yield case, request


def check_changed(seed, n, tmp_path, rules):
    """Through a running gateway, told that this is wire layout 1.10, as the connector's Collector assumes."""
    out, want, sent, refused = tmp_path / "out.jsonl", collections.Counter(), 0, 0
    with running(Gateway(config=GATEWAY.format(rules=rules, out=out), listen=0)) as gateway:
        for case, request in changed_requests(seed, n):
            status, _, answer = gateway.post(request.SerializeToString())
            if status == 400:  # a known field of another type: Python calls it unknown, pdata and we an error
                assert b"wire type" in answer, (case, answer)
                continue
            assert status == 200, (case, status, answer)
            gone = lawful(request)
            refused += gone
            assert bool(gone) <= bool(answer), f"case {case}: {gone} samples against the rules, and not a word of it"
            sent += 1
            want.update(of_model(request))
        assert gateway.stop() == 0
    same(want, of_requests(json_lines(out)))
    return sent, refused


def test_changed_requests(tmp_path, rules):
    sent, _ = check_changed(1, 600, tmp_path, rules)
    assert sent >= 500


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 8))
def test_many_more_changed_requests(tmp_path, rules, seed):
    check_changed(seed, 600, tmp_path, rules)


def test_tables_in_another_order_change_no_number(tmp_path, rules):
    """The model is not asked: the same request twice, the second time with its tables shuffled."""
    files = {"as it is": [], "shuffled": []}
    for case, path in enumerate(RECORDED):
        request = numbered(service.ExportProfilesServiceRequest.FromString(path.read_bytes()), case)
        for name in files:
            files[name].append(tmp_path / f"{name[0]}{case}.pb")
            files[name][-1].write_bytes(request.SerializeToString())
            request = generate.shuffled(seeded("shuffle", case), request)
    same(counted(files["as it is"], "--rules", rules), counted(files["shuffled"], "--rules", rules))


# ---- the user's configuration, converted

def python(pattern, flags=0):
    return re.compile(pattern, re.ASCII | flags)


# What a user wrote, and what it means: (text of the section, the model's configuration).
CONFIGURATIONS = {
    "nothing said": ("", Configuration()),
    "switches": ("""
        flush_interval: 1m30s
        metrics:
          samples.user.count: { enabled: false }
          samples.kernel.count: { enabled: True }
          samples.v8js.count: { enabled: FALSE }
          samples.custom_aggregation: { enabled: false }
          samples.classification: { enabled: true }
          samples.go.count:
        aggregations: [{ match: a, label: never }]""",
                 Configuration(disabled=frozenset({"samples.user.count", "samples.v8js.count"}),
                               gauges={"samples.classification": Gauge(True), "samples.custom_aggregation": Gauge(False)})),
    "one label twice, one frame for two": ("""
        aggregations:
          - { match: "lock", label: both }
          - { match: "(?:Lock|mutex)", label: both }
          - { match: '^java\\.util', label: "say \\"java\\" \\\\ * /\\t$$" }""",
                                           Configuration(aggregations=[
                                               (python("lock"), "both"), (python("Lock|mutex"), "both"),
                                               (python(r"\Ajava\.util"), 'say "java" \\ * /\t$')])),
    "added up, with fewer attributes": ("""
        metrics:
          samples.frame_type: { enabled: true, aggregation_strategy: sum, attributes: [] }
          samples.classification: { enabled: true, aggregation_strategy: sum, attributes: [classification] }
          samples.custom_aggregation: { aggregation_strategy: sum, attributes: [profile.type_unit] }
        aggregations: [{ match: 'r', label: r }, { match: 'run', label: run }]""",
                                        Configuration(gauges={
                                            "samples.frame_type": Gauge(True, "sum", ()),
                                            "samples.classification": Gauge(True, "sum", ("classification",)),
                                            "samples.custom_aggregation": Gauge(True, "sum", ("profile.type_unit",))},
                                            aggregations=[(python("r"), "r"), (python("run"), "run")])),
    "averaged over types": ("""
        metrics:
          samples.frame_type: { enabled: true, attributes: [frame_type] }
          samples.classification: { enabled: true, aggregation_strategy: avg, attributes: [frame_type, classification] }
          samples.custom_aggregation: { attributes: [frame_type] }
        aggregations: [{ match: 'r', label: r }]""",
                            Configuration(gauges={
                                "samples.frame_type": Gauge(True, "avg", ("frame_type",)),
                                "samples.classification": Gauge(True, "avg", ("frame_type", "classification")),
                                "samples.custom_aggregation": Gauge(True, "avg", ("frame_type",))},
                                aggregations=[(python("r"), "r")])),
    "regular expressions": (r"""
        aggregations:
          - { match: '^.$$', label: one character }
          - { match: '^[^a-z]{2,3}$$', label: two or three }
          - { match: '[^\x00-\x7f]', label: beyond ASCII }
          - { match: '^\w+\.\w+\z', label: dotted }
          - { match: '(?s)a.b', label: dot is all }
          - { match: 'a.b', label: dot }
          - { match: '[/\s]', label: slash or space }
          - { match: '\(\*T\)\.M', label: quoted }
          - { match: 'ä|(?:ö|Ü)+', label: letters }
          - { match: '(?P<x>go|(?:run)+?)\x74?i', label: names }""",
                            Configuration(aggregations=[
                                (python(r"\A[^\n]\Z"), "one character"), (python(r"\A[^a-z]{2,3}\Z"), "two or three"),
                                (python(r"[^\x00-\x7f]"), "beyond ASCII"), (python(r"\A\w+\.\w+\Z"), "dotted"),
                                (python("a.b", re.DOTALL), "dot is all"), (python("a.b"), "dot"),
                                (python(r"[/ \t\n\f\r]"), "slash or space"),
                                (python(r"\(\*T\)\.M"), "quoted"), (python("ä|[öÜ]"), "letters"),
                                (python("(?:go|(?:run)+)t?i"), "names")])),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_converted_configuration_counts_what_it_counted(tmp_path, name):
    text, configuration = CONFIGURATIONS[name]
    config, rules = tmp_path / "collector.yaml", tmp_path / "site.rules"
    config.write_text("receivers: { otlp: { x: \"${env:NOT_OURS}\" } }\nconnectors:\n  forward:\n  profilingmetrics/site:\n"
                      + "".join(f"    {line[8:]}\n" for line in text.splitlines() if line.strip()))
    rules.write_text(convert(config))
    files, want = [], collections.Counter()
    for case in range(250):
        request = numbered(generate.made_up(seeded(name, case)), case)
        files.append(tmp_path / f"{case}.pb")
        files[-1].write_bytes(request.SerializeToString())
        lawful(request)
        want.update(of_model(request, configuration))
    assert all(any(label in str(key) for key in want) for _, label in configuration.aggregations
               if configuration.gauge("samples.custom_aggregation").attributes is None
               and configuration.gauge("samples.custom_aggregation").enabled and "\\" not in label), "an aggregation without a frame"
    same(want, counted(files, "--rules", rules))


@pytest.mark.parametrize("text, says, code", [
    ("connectors: { profilingmetrics: { metric: {} } }", "1:35: metric: unknown key; known here: metrics, aggregations", 2),
    ("profilingmetrics:\n  metrics:\n    samples.rust: {}", "3:5: samples.rust: the connector has no such metric", 2),
    ("metrics: { samples.go.count: { attributes: [] } }", "1:32: attributes: unknown key; known here: enabled", 2),
    ("metrics: { samples.go.count: { enabled: yes } }", "1:41: yes: true or false belongs here", 2),
    ("metrics: { samples.frame_type: { attributes: [shlib_name] } }", "1:47: shlib_name: the metric has no such attribute", 2),
    ("metrics: { samples.frame_type: { aggregation_strategy: max } }", "1:56: max: cannot be said in the rule language", 2),
    ("metrics: { samples.frame_type: { attributes: [] } }", "1:32: samples.frame_type: an average over what", 2),
    ("metrics: { samples.go.count: {}, samples.go.count: {} }", "1:34: samples.go.count: this key stands in line 1 already", 2),
    ("aggregations: [{ match: a }]", "1:16: aggregations: label is missing", 2),
    ("aggregations: [{ match: '', label: b }]", "1:25: match: must not be empty", 2),
    ("aggregations: [{ match: a, label: b, name: c }]", "1:38: name: unknown key; known here: match, label", 2),
    ("aggregations: [{ match: '${env:X}', label: b }]", "1:25: match: ${…} is filled in by the Collector", 2),
    ("aggregations:\n- match: 'a(b'\n  label: b", "2:10: match: at character 4 of a(b: a group is not closed", 1),
    ("aggregations: [{ match: '(?m)^a', label: b }]", "1:25: match: at character 1 of (?m)^a: flags for a part, or (?m), cannot", 1),
    ("aggregations: [{ match: '\\pL', label: b }]", "1:25: match: at character 1 of \\pL: Unicode's classes", 1),
    ("aggregations: [{ match: '*a', label: b }]", "1:25: match: at character 1 of *a: nothing stands before this", 1),
    ("flush_interval: soon", "1:17: flush_interval: a duration belongs here", 2),
    ("connectors: { profilingmetrics: , profilingmetrics/b: }", "1:35: profilingmetrics/b: a second one; say which", 2),
    ("connectors: { forward: }", "1:13: profilingmetrics: there is no such connector", 2),
    ("exporters: { debug: }\nservice: {}", "1:1: profilingmetrics: there is no such connector", 2),
    ("a: [", "2:1: did not find expected node content", 2),
    ("", "1:1: nothing is in it", 2)])
def test_what_is_wrong_with_a_configuration_is_said_with_its_place(tmp_path, text, says, code):
    config = tmp_path / "c.yaml"
    config.write_text(text + "\n" if text else "")
    done = subprocess.run([BUILD / "profgate", "rules", "from-connector", config], capture_output=True, text=True)
    assert f"{config}:{says}" in done.stderr and done.returncode == code and done.stdout == "", done.stderr


def test_one_of_several_connectors_is_chosen_by_name(tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("connectors: { profilingmetrics: { wrong: 1 }, profilingmetrics/b: { flush_interval: 0s } }\n")
    text = convert(config, "--connector", "profilingmetrics/b", "--pack", "mine")
    assert "pack  mine\n" in text and "flush_interval: 0s" in text


# ---- regular expressions, with Go as the judge

ATOMS = ["a", "b", "J", "k", "0", "_", "/", " ", "é", "ß", ".", "..", r"\.", r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\b", r"\B", "^", "$",
         r"\A", r"\z", "[ab]", "[^ab]", "[a-c0]", "[^a-c]", r"[\w.]", r"[^\s]", r"[\W]", "[[:alpha:]]", "[[:^digit:]]", "[é]", "[^é]", "[a-é]",
         "[]a]", "[^]a]", "[a-]", r"[\]\-]", "[/]", r"\x61", r"\x{e9}", r"\141", r"\n", r"\v", r"\Qa.b\E", r"\Q.\E", r"\pL", "(?i)", "(?s)",
         "(?U)", "(?i-s)", "(?m)", "-", "{", "}", "]", "{2", "{,2}", r"\/", "\u00e9b", r"[^\x00-\x{10FFFF}]", "\t", r"\_", r"[\d\D]", r"\8", "#", '"']
REPEATS = [""] * 8 + ["*", "+", "?", "*?", "+?", "{2}", "{1,2}", "{2,}", "{0}", "{1,2}?", "**", "{1001}"]
TEXTS = ["", "a", "b", "ab", "aab", "a.b", "a\nb", "é", "aé", "éa", "ééé", "aéb", "J", "j", "JaVa", "0", "_", "/", " ", "a b", "\n", "\t", "\v", "]",
         "-", "{", "{2", "{,2}", "}", "ß", "ẞ", "é/ß", "abc", "ba", "k", "K", "A", "B", "AB", "a.b.c", "xaéyb", "日本", "a日b", "#", '"', "\\", "8"]
CANNOT = ["cannot be said in the rule language"]


def pattern(r, depth=0):
    found = []
    for _ in range(r.choice([1, 1, 2, 3])):
        if depth < 2 and r.random() < 0.25:
            found.append(r.choice(["(", "(?:", "(?P<n>", "(?i:", "(?s:"]) + pattern(r, depth + 1) + r.choice([")"] * 9 + [""]) + r.choice(REPEATS))
        else:
            found.append(r.choice(ATOMS) + r.choice(REPEATS))
    return ("|" if r.random() < 0.05 else "").join(found) + (("|" + pattern(r, depth + 1)) if depth < 2 and r.random() < 0.15 else "")


def judged(tmp_path, patterns):
    import peers
    program = peers._go(["build", "-o", tmp_path / "judge", ROOT / "tests/model/regexp.go"], tmp_path, tmp_path / "judge", "Go's regexp")
    done = subprocess.run([program], input=json.dumps({"patterns": patterns, "texts": TEXTS}), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def requests_of_texts(tmp_path):
    """One request a text, with one frame of that name."""
    for case, text in enumerate(TEXTS):
        t = generate.Tables(seeded("texts"))
        function = t.add("function", name_strindex=t.string(text))
        location = t.add("location", lines=[generate.profiles.Line(function_index=function)])
        stack = t.add("stack", location_indices=[location])
        request = service.ExportProfilesServiceRequest(dictionary=t.d)
        profile = request.resource_profiles.add().scope_profiles.add().profiles.add()
        profile.samples.add(stack_index=stack, values=[1])
        path = tmp_path / f"text{case}.pb"
        path.write_bytes(numbered(request, case).SerializeToString())
        yield path


def check_patterns(seed, n, tmp_path):
    patterns = [pattern(seeded("pattern", seed, i)) for i in range(n)]
    config = tmp_path / "one.yaml"
    taken, refused = [], 0
    for one, answer in zip(patterns, judged(tmp_path, patterns)):
        config.write_text(json.dumps({"aggregations": [{"match": one.replace("$", "$$"), "label": "x"}]}, ensure_ascii=False))
        done = subprocess.run([BUILD / "profgate", "rules", "from-connector", config], capture_output=True, text=True)
        if answer["error"]:
            assert done.returncode == 1, f"{one!r}: Go says {answer['error']}, we {done.stdout}"
        elif done.returncode == 0:
            taken.append((one, answer["found"]))
        else:
            assert any(reason in done.stderr for reason in CANNOT), f"{one!r}: Go takes it: {done.stderr}"
            refused += 1
    config.write_text(json.dumps({"aggregations": [{"match": one.replace("$", "$$"), "label": f"p{i}"} for i, (one, _) in enumerate(taken)]},
                                 ensure_ascii=False))
    rules = tmp_path / "all.rules"
    rules.write_text(convert(config))
    found = {(next(v[1] for k, v in who if k == CASE), dict(labels)["frame_type"])
             for who, metric, labels in counted(list(requests_of_texts(tmp_path)), "--rules", rules) if metric == "samples.custom_aggregation"}
    wrong = [f"{one!r} on {TEXTS[case]!r}: Go {answer[case]}" for i, (one, answer) in enumerate(taken) for case in range(len(TEXTS))
             if answer[case] != ((case, f"p{i}") in found)]
    assert not wrong, f"{len(wrong)} of {len(taken)} × {len(TEXTS)}\n" + "\n".join(wrong[:20])
    assert len(taken) > n // 4 and refused > 0


def test_regular_expressions_find_what_go_finds(tmp_path):
    check_patterns(1, 150, tmp_path)


@pytest.mark.soak
def test_many_more_regular_expressions(tmp_path):
    check_patterns(2, 1500, tmp_path)


def test_what_is_written_is_what_was_read_through(tmp_path):
    """tests/golden/connector/full.rules, byte for byte; read the difference before it is changed."""
    golden = ROOT / "tests/golden/connector"
    done = subprocess.run([BUILD / "profgate", "rules", "from-connector", "tests/golden/connector/full.yaml"], cwd=ROOT,
                          capture_output=True, text=True, check=True)
    assert done.stdout == (golden / "full.rules").read_text()
    checked = subprocess.run([BUILD / "profgate", "rules", "check", golden / "full.rules"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
