"""h2spec, a stranger's reading of RFC 9113 and RFC 7541: its 145 cases against the running gateway, on two addresses as
by default, plain and in TLS. It asks for "/", which nobody serves: a refusal is a response like any other."""
import collections
import subprocess
import xml.etree.ElementTree as xml

import peers
import pytest
from programs import PATIENCE, PROFILES_PATH, Gateway, running

CASES = 145
ALLOWED_S = 5  # h2spec's patience for one case; the machine may be busy with the other tests

Result = collections.namedtuple("Result", "passed failed output")


@pytest.fixture(scope="module")
def gateways(tmp_path_factory):
    """Ports by kind: two plain addresses and two in TLS."""
    folder = tmp_path_factory.mktemp("h2spec")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                    "-out", cert, "-days", "1", "-subj", "/CN=localhost"], check=True, capture_output=True, timeout=PATIENCE)
    plain = "    - { endpoint: '127.0.0.1:0' }\n"
    tls = f"    - {{ endpoint: '127.0.0.1:0', tls: {{ cert_file: {cert}, key_file: {key} }} }}\n"
    with running(Gateway(config="receivers:\n  otlp:\n" + plain * 2 + tls * 2, listen=0)) as gateway:
        yield {"plain": gateway.ports[:2], "tls": gateway.ports[2:]}
        assert gateway.alive(), gateway.log()


def run(folder, port, kind, path):
    report = folder / "report.xml"
    done = subprocess.run([peers.h2spec(), "-h", "127.0.0.1", "-p", str(port), "-o", str(ALLOWED_S), "-P", path, "-j", report,
                           *(["-t", "-k"] if kind == "tls" else [])], capture_output=True, text=True, timeout=600)
    assert report.exists(), done.stdout + done.stderr
    cases = list(xml.parse(report).iter("testcase"))
    bad = {"failure", "error", "skipped"}
    failed = [f"{c.get('package')} {c.get('classname')}" for c in cases if bad & {x.tag for x in c}]
    return Result(len(cases) - len(failed), failed, done.stdout)


@pytest.mark.parametrize("kind", ["plain", "tls"])
@pytest.mark.parametrize("port, path", [(0, "/"), (1, "/"), (0, PROFILES_PATH)])
def test_all_cases_pass(tmp_path, gateways, kind, port, path):
    result = run(tmp_path, gateways[kind][port], kind, path)
    assert not result.failed, result.output[-3000:]
    assert result.passed == CASES
