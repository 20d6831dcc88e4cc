"""The page at the admin address in Chromium, as a person uses it (page/person.mjs): real captures, and names of somebody who means ill."""
import json
import subprocess
import urllib.request

import browser
import pytest
from programs import PATIENCE, ROOT, Gateway, captures, running, wait_for

PERSON = ROOT / "tests/interop/page/person.mjs"
EVIL = ["evil\u202egpj.exe\u0007", "<img src=x onerror=alert(1)>", "a\u001b[31mred", "名前の長い関数" * 9]


def hostile(service=EVIL[0]):
    """A request whose service and functions have such names."""
    attributes = [{"key": "service.name", "value": {"stringValue": service}}]
    return json.dumps({
        "resourceProfiles": [{"resource": {"attributes": attributes}, "scopeProfiles": [{"profiles": [
            {"sampleType": {"typeStrindex": 1, "unitStrindex": 2}, "samples": [{"stackIndex": 1, "values": ["30000000"]}]}]}]}],
        "dictionary": {"stringTable": ["", "cpu", "nanoseconds", *EVIL[1:]], "mappingTable": [{}], "linkTable": [{}], "attributeTable": [{}],
                       "functionTable": [{}, *({"nameStrindex": 3 + i} for i in range(3))],
                       "locationTable": [{}, *({"lines": [{"functionIndex": 1 + i}]} for i in range(3))],
                       "stackTable": [{}, {"locationIndices": [3, 2, 1]}]}}).encode()


def traced():
    """Two samples of one service, each of a trace of its own."""
    attributes = [{"key": "service.name", "value": {"stringValue": "shop"}}]
    traces = "4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c"
    return json.dumps({
        "resourceProfiles": [{"resource": {"attributes": attributes}, "scopeProfiles": [{"profiles": [
            {"sampleType": {"typeStrindex": 1, "unitStrindex": 2}, "samples": [{"stackIndex": i, "linkIndex": i, "values": ["50000000"]} for i in (1, 2)]}]}]}],
        "dictionary": {"stringTable": ["", "cpu", "nanoseconds", "serve", "pay", "list"], "mappingTable": [{}], "attributeTable": [{}],
                       "linkTable": [{}, *({"traceId": trace, "spanId": "00f067aa0ba902b7"} for trace in traces)],
                       "functionTable": [{}, *({"nameStrindex": 3 + i} for i in range(3))],
                       "locationTable": [{}, *({"lines": [{"functionIndex": 1 + i}]} for i in range(3))],
                       "stackTable": [{}, {"locationIndices": [2, 1]}, {"locationIndices": [3, 1]}]}}).encode()


@pytest.fixture(scope="module")
def gateway():
    with running(Gateway(config="look: { memory: 64MiB }\n")) as started:
        for body in [captures(f"ebpf-{name}-*.pb")[0].read_bytes() for name in ("go", "java", "kernel_fsync", "node", "python")]:
            assert started.post(body)[0] == 200
        for body in (hostile(), traced()):
            assert started.post(body, {"Content-Type": "application/json"})[0] == 200
        n = started.total("profgate_samples_total")
        wait_for(lambda: json.loads(started.get("/api/v1/look/status"))["seen"] >= n > 0, "all samples in the store")
        yield started


@pytest.fixture(scope="module")
def done(gateway):
    """What came of everything a person does, by name: one browser for all of it."""
    node, playwright = browser.node()
    ran = subprocess.run([node, PERSON, playwright, f"http://127.0.0.1:{gateway.admin}/"], capture_output=True, text=True, timeout=5 * PATIENCE)
    assert ran.returncode == 0, ran.stderr
    return {one["name"]: one["error"] for one in map(json.loads, ran.stdout.splitlines())}


@pytest.mark.parametrize("name", [line.split()[1].split("(")[0] for line in PERSON.read_text().splitlines()
                                  if line.startswith("  async ") and line.endswith("() {")])
def test_a_person(done, name):
    assert done.get(name, "it did not run") is None, done.get(name)


def get(gateway, path, **headers):
    with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{gateway.admin}{path}", headers=headers), timeout=PATIENCE) as answer:
        return answer.read().decode(), answer.headers


def test_a_browser_has_the_page_and_a_script_the_list(gateway):
    page, headers = get(gateway, "/", Accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert page.startswith("<!doctype html>") and "trusted-types" in headers["Content-Security-Policy"]
    script = next(part for part in page.split('"') if part.endswith("page.js"))
    assert "immutable" in get(gateway, "/" + script)[1]["Cache-Control"]
    listed, headers = get(gateway, "/")
    assert "/healthz" in listed and "/ui/" not in listed and headers["Content-Type"].startswith("text/plain")


def test_services_with_endless_names_leave_the_page_whole():
    """Each is asked for by its name, which has to fit into an address."""
    node, playwright = browser.node()
    ask = ("const { chromium } = require('playwright-core'); (async () => { const b = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });"
           "const p = await b.newPage(); await p.goto(process.argv[1]); await p.waitForSelector('body[data-loads], #message:not([hidden])');"
           "console.log(await p.textContent('#message'), await p.evaluate(() => document.getElementById('graph').flame.rows[1].length)); await b.close(); })()")
    with running(Gateway(config="look: { memory: 64MiB }\n")) as gateway:
        for name in ("長" * 3000, '"\\\n' * 3000, "x" * 5000):
            assert gateway.post(hostile(name), {"Content-Type": "application/json"})[0] == 200
        wait_for(lambda: len(json.loads(gateway.get("/api/v1/look/services"))) == 3, "all in the store")
        said = subprocess.run([node, "-e", ask, f"http://127.0.0.1:{gateway.admin}/"], cwd=playwright, capture_output=True, text=True, timeout=PATIENCE)
    assert said.stdout.split() == ["3"], said


def test_without_stacks_the_page_says_how_to_have_them():
    node, playwright = browser.node()
    ask = ("const { chromium } = require('playwright-core'); (async () => { const b = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });"
           "const p = await b.newPage(); await p.goto(process.argv[1]); await p.waitForSelector('#message:not([hidden])'); console.log(await p.textContent('#message')); await b.close(); })()")
    with running(Gateway()) as off:
        said = subprocess.run([node, "-e", ask, f"http://127.0.0.1:{off.admin}/"], cwd=playwright, capture_output=True, text=True, timeout=PATIENCE)
    assert "keeps no stacks" in said.stdout and "look.memory=64MiB" in said.stdout, said
