"""profgate check: what it says of captures and of what others wrote, in each of its formats; and the same of live requests."""
import gzip
import json
import pathlib
import re
import resource
import struct
import subprocess

import pytest
from programs import BUILD, DATA, PATIENCE, Gateway, running, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOREIGN = ROOT.parent / "shared/data/foreign"
EBPF = sorted((DATA / "connector").glob("ebpf-*.pb"))
SYNTH = DATA / "connector/synth-kernel.pb"


def check(*arguments, stdin=None):
    return subprocess.run([BUILD / "profgate", "check", *arguments], input=stdin, capture_output=True, timeout=PATIENCE)


def rules_of(*arguments, stdin=None):
    """{rule: count} of one file, and the exit code."""
    done = check("--format", "json", "--severity", "note", *arguments, stdin=stdin)
    files = json.loads(done.stdout)["files"]
    return {f["rule"]: f["count"] for file in files for f in file["findings"]}, done.returncode


def test_requests_of_the_ebpf_profiler_pass():
    """As profcheck says. Notes are true: its codec writes fields from the last to the first, and the processes have no service.name."""
    assert len(EBPF) > 10
    for file in EBPF:
        found, code = rules_of(file)
        assert code == 0 and set(found) <= {"field-order", "no-service-name", "location-hollow", "frame-type"}, (file, found)
    done = check(*EBPF)
    assert done.returncode == 0 and done.stdout.count(b"rules broken: 0 errors, 0 warnings") == len(EBPF)


def test_what_profcheck_refuses_is_refused_for_the_same():
    """sig-profiling's own profile: timestamps equal to the end of theirs. Of 1.8, so the layout is said as well."""
    file = FOREIGN / "dialects/profile.otlp"
    if not file.exists():
        pytest.skip("sig-profiling's data is not beside the repository")
    found, code = rules_of(file)
    assert code == 1 and found["timestamp-outside"] > 0 and found["old-layout"] > 0
    done = check(file)
    assert b"not in [1761887343253558841, 1761887349103469265)" in check("--places", "100", file).stdout, done.stdout
    assert not {"malformed", "wire-type", "stack-index", "attribute-index"} & set(found)


def test_a_finding_says_where_which_rule_and_what_to_do():
    done = check(SYNTH)
    text = done.stdout.decode()
    assert done.returncode == 1 and not done.stderr
    assert "error: a timestamp outside of its profile [timestamp-outside]" in text
    assert "resource_profiles[0].scope_profiles[0].profiles[0].samples[0].timestamps_unix_nano[0]: 17703" in text
    assert "profiles.proto, Sample.timestamps_unix_nano: they SHOULD fall within" in text
    assert "to mend it: end the profile" in text and re.search(r"and \d+ more", text)


def test_every_form_of_a_file_says_the_same(tmp_path):
    plain = SYNTH.read_bytes()
    want, code = rules_of(SYNTH)
    (tmp_path / "a.gz").write_bytes(gzip.compress(plain))
    (tmp_path / "two").write_bytes(2 * (struct.pack(">I", len(plain)) + plain))
    assert rules_of(tmp_path / "a.gz") == (want, code)
    assert rules_of("-", stdin=plain) == (want, code)
    assert rules_of(tmp_path / "two") == ({rule: 2 * n for rule, n in want.items()}, code)
    assert b"two: request 1: resource_profiles[0]" in check(tmp_path / "two").stdout
    subprocess.run([BUILD / "profgate", "convert", "--to", "json", SYNTH, tmp_path / "a.json"], check=True, timeout=PATIENCE)
    found, _ = rules_of(tmp_path / "a.json")
    assert found["timestamp-outside"] == want["timestamp-outside"]
    assert "field-order" in rules_of(EBPF[0])[0], "its writer's own order"
    subprocess.run([BUILD / "profgate", "convert", "--to", "json", EBPF[0], tmp_path / "b.json"], check=True, timeout=PATIENCE)
    assert "field-order" not in rules_of(tmp_path / "b.json")[0], "JSON has none"


@pytest.mark.parametrize("flags, code, told", [
    ([], 1, {"error", "warning"}), (["--severity", "error"], 1, {"error"}), (["--severity", "note"], 1, {"error", "warning", "note"})])
def test_severities(flags, code, told):
    done = check("--format", "json", *flags, DATA / "connector/rand-04.pb")
    assert done.returncode == code
    found = {f["severity"] for f in json.loads(done.stdout)["files"][0]["findings"]}
    assert found == told


def test_exit_codes(tmp_path):
    assert check(EBPF[0]).returncode == 0
    assert check("--fail", "note", EBPF[0]).returncode == 1
    assert check(SYNTH).returncode == 1
    (tmp_path / "bad").write_bytes(b"\x0a\x7f\x00\x01")
    found, code = rules_of(tmp_path / "bad")
    assert code == 1 and found["malformed"] == 1
    for wrong in ([], ["--format", "xml", SYNTH], ["--places", "0", SYNTH], [tmp_path / "nothing"], [DATA / "pprof/go-cpu.pb.gz"]):
        done = check(*wrong)
        assert done.returncode == 2 and done.stderr.startswith(b"profgate check: "), wrong
    done = check(tmp_path / "nothing", SYNTH, EBPF[0])
    assert done.returncode == 2 and b"timestamp-outside" in done.stdout, "one bad file stops none"


def cpu_seconds(*arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    return check(*arguments), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def test_many_requests_with_nothing_in_them_are_soon_done(tmp_path):
    """Zeros are lengths of empty requests, a quarter of a million in a MB: about what four times all captures take, not the
    eightfold of that which setting up for each takes."""
    (tmp_path / "zeros").write_bytes(bytes(1 << 20))
    _, captures = cpu_seconds(*EBPF * 4)
    done, zeros = cpu_seconds(tmp_path / "zeros")
    assert done.returncode == 1 and b"and 262139 more" in done.stdout, done.stdout
    assert zeros < 3 * captures, (zeros, captures)


def test_a_terminal_is_safe_from_names(tmp_path):
    """A string that is no UTF-8 and has an escape sequence in it."""
    (tmp_path / "a").write_bytes(b"\x12\x0a\x2a\x00\x2a\x06\x1b[31m\xff")
    done = check(tmp_path / "a")
    assert b"[utf8]" in done.stdout and b"\x1b" not in done.stdout
    done.stdout.decode()


def test_sarif_is_what_code_hosts_take(tmp_path):
    """By what SARIF 2.1.0 (OASIS) requires of each object that is written."""
    odd = tmp_path / "a b%ü.pb"
    odd.write_bytes(SYNTH.read_bytes())
    done = check("--format", "sarif", "--severity", "note", odd, EBPF[0])
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["version"] == "2.1.0" and document["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] and driver["version"]
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids)) >= 45
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"] and rule["fullDescription"]["text"] and rule["help"]["text"]
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
    assert run["results"]
    for result in run["results"]:
        assert set(result) == {"ruleId", "ruleIndex", "level", "message", "locations"}
        assert ids[result["ruleIndex"]] == result["ruleId"] and result["message"]["text"]
        (location,) = result["locations"]
        uri = location["physicalLocation"]["artifactLocation"]["uri"]
        assert re.fullmatch(r"(?:[\w.~/-]|%[0-9A-F]{2})+", uri, re.ASCII), uri
        assert location["logicalLocations"][0]["fullyQualifiedName"]
    assert any("a%20b%25%C3%BC.pb" in r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in run["results"])
    many = [r["message"]["text"] for r in run["results"] if r["ruleId"] == "timestamp-outside"]
    assert len(many) == 5 and re.search(r"and \d+ more places$", many[-1])


def test_the_table_of_rules_is_the_page():
    """proto/otlp/check/README.md has it, made by `profgate check --rules`."""
    rules = json.loads(check("--rules", "--format", "json").stdout)
    assert len(rules) >= 45
    page = (ROOT / "proto/otlp/check/README.md").read_text()
    table = re.findall(r"^\| `([a-z0-9-]+)` \| (error|warning|note) \| (.*?) \| (.*?) \|$", page, re.M)
    assert table == [(r["rule"], r["severity"], r["title"], r["source"]) for r in rules]
    text = check("--rules").stdout.decode()
    for rule in rules:
        assert f"{rule['severity']:8} {rule['rule']} " in text and rule["fix"] in text and rule["says"] in text


@pytest.mark.parametrize("source", ["go-cpu", "go-heap", "go-allocs", "go-mutex"])
def test_what_convert_writes_breaks_no_rule_that_its_source_does_not(tmp_path, source):
    """Go's heap has equal samples, its mappings have no build ids, and one has no location: all that is kept."""
    subprocess.run([BUILD / "profgate", "convert", DATA / f"pprof/{source}.pb.gz", tmp_path / "a.otlp"], check=True, timeout=PATIENCE)
    found, code = rules_of(tmp_path / "a.otlp")
    assert code == 0 and set(found) <= {"mapping-orphan", "mapping-build-id", "sample-identity", "field-order", "no-service-name"}


# ---- live ------------------------------------------------------------------------------------------


def test_live_requests_are_checked_by_producer():
    with running(Gateway("--set", "check.share=100%")) as gateway:
        for file in (SYNTH, EBPF[0]):
            assert gateway.post(file.read_bytes())[0] == 200
        assert gateway.post(b"\x0a\x7f")[0] == 400
        wait_for(lambda: gateway.total("profgate_check_requests_total", outcome="checked") == 3, "three checks")
        want = rules_of(SYNTH)[0]["timestamp-outside"]
        assert gateway.total("profgate_check_findings_total", rule="timestamp-outside", severity="error") == want
        assert gateway.total("profgate_check_findings_total", rule="malformed", producer="unknown") == 1
        page = json.loads(gateway.get("/api/v1/check"))
        by_producer = {p["producer"]: p["rules"] for p in page["producers"]}
        producer = next(p for p, rules in by_producer.items() if "timestamp-outside" in rules)
        assert by_producer[producer]["timestamp-outside"] == want
        last = next(f for f in page["latest"] if f["rule"] == "timestamp-outside")
        assert last["producer"] == producer and last["path"].startswith("resource_profiles[0].") and last["fix"]
        assert gateway.total("profgate_requests_by_producer_total", producer=producer) == 1


def test_nothing_is_checked_unless_asked_for():
    with running(Gateway()) as gateway:
        assert gateway.post(SYNTH.read_bytes())[0] == 200
        assert gateway.total("profgate_check_requests_total") == 0
        assert json.loads(gateway.get("/api/v1/check")) == {"producers": [], "latest": []}


def test_a_reload_switches_it_on(tmp_path):
    config = tmp_path / "profgate.yaml"
    config.write_text("check: { share: 0% }\n")
    with running(Gateway("--config", config)) as gateway:
        assert gateway.post(SYNTH.read_bytes())[0] == 200
        config.write_text("check: { share: 50% }\n")
        gateway.process.send_signal(1)
        wait_for(lambda: gateway.post(SYNTH.read_bytes())[0] == 200 and gateway.total("profgate_check_requests_total", outcome="checked") > 0,
                 "a check")
