"""admin.tls and admin.auth: who may ask the admin address, as curl, a browser's and a prober's requests see it."""
import json
import shutil
import subprocess

import pytest
from programs import BUILD, PATIENCE, Gateway, captures, running
from test_access import CAROL, basic, bearer, certificate, has_signing_openssl, reload

LOOK = "look: { memory: 64MiB }\n"
PAGES = ["/", "/metrics", "/api/v1/metrics", "/api/v1/triggers", "/api/v1/look/status"]

pytestmark = pytest.mark.skipif(not shutil.which("curl"), reason="curl is missing")


def curl(gateway, path, *arguments, scheme="http", headers=None, method="GET"):
    """(status, headers, body); status 0: no answer. Over TLS it is called localhost."""
    named = [part for name, value in (headers or {}).items() for part in ("-H", f"{name}: {value}")]
    host = "localhost" if scheme == "https" else "127.0.0.1"
    run = subprocess.run(["curl", "-sS", "-i", "-X", method, "--resolve", f"localhost:{gateway.admin}:127.0.0.1", *named, *map(str, arguments),
                          f"{scheme}://{host}:{gateway.admin}{path}"], capture_output=True, timeout=PATIENCE)
    head, _, body = run.stdout.partition(b"\r\n\r\n")
    if not head:
        return 0, {}, run.stderr
    lines = head.decode().split("\r\n")
    return int(lines[0].split()[1]), {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}, body


def status(*arguments, **options):
    return curl(*arguments, **options)[0]


def start(folder, door, *arguments):
    (folder / "tokens").write_text("alpha prometheus\n")
    (folder / "users").write_text(CAROL)
    return Gateway(*arguments, config=f"{LOOK}admin: {{ {door} }}\n")


def auth(folder):
    return f"auth: {{ bearer_tokens_file: {folder}/tokens, htpasswd_file: {folder}/users }}"


def test_everything_but_a_probe_asks_who_it_is(tmp_path):
    with running(start(tmp_path, auth(tmp_path))) as gateway:
        for path in PAGES:
            answer, headers, _ = curl(gateway, path)
            assert answer == 401 and headers["www-authenticate"].startswith(("Bearer", "Basic")), path
            assert status(gateway, path, headers=bearer("alpha")) == 200, path
            assert status(gateway, path, headers=basic("carol", "secret")) == 200, path
            assert status(gateway, path, "--http2-prior-knowledge", headers=bearer("alpha")) == 200, path
            assert status(gateway, path, headers=bearer("beta")) == status(gateway, path, headers=basic("carol", "x")) == 401
        assert status(gateway, "/nothing") == 401 and status(gateway, "/nothing", headers=bearer("alpha")) == 404
        assert status(gateway, "/api/v1/reload", method="POST") == 401
        assert status(gateway, "/api/v1/reload", method="POST", headers=bearer("alpha")) == 200
        # whoever has credentials is still no page of the web, and calls it by its name
        assert status(gateway, "/api/v1/reload", method="POST", headers={**bearer("alpha"), "Origin": "http://evil.example"}) == 403
        assert status(gateway, "/metrics", headers={**bearer("alpha"), "Host": "evil.example"}) == 421
        assert "alpha" not in gateway.log() and gateway.stop() == 0


def test_a_probe_needs_no_credentials_and_hears_no_more_than_yes_or_no(tmp_path):
    with running(start(tmp_path, auth(tmp_path))) as gateway:
        wants = {"Accept": "application/json"}
        assert [curl(gateway, path, headers=wants)[::2] for path in ("/healthz", "/readyz")] == [(200, b"ok\n")] * 2
        assert json.loads(curl(gateway, "/readyz", headers={**wants, **bearer("alpha")})[2])["checks"]
        assert status(gateway, "/healthz", headers=bearer("wrong")) == 401


def test_reload_changes_who_may(tmp_path):
    with running(start(tmp_path, auth(tmp_path))) as gateway:
        (tmp_path / "tokens").write_text("bad token here\n")
        reload(gateway, "kept=")
        assert status(gateway, "/metrics", headers=bearer("alpha")) == 200, "a bad file changes nothing"
        (tmp_path / "tokens").write_text("gamma\n")
        reload(gateway, "reloaded")
        assert [status(gateway, "/metrics", headers=bearer(t)) for t in ("alpha", "gamma")] == [401, 200]


def test_beyond_loopback_stacks_are_shown_to_those_who_say_who_they_are(tmp_path):
    everywhere = ["--set", "admin.endpoint=0.0.0.0:0"]
    with running(start(tmp_path, "hosts: [x.example]", *everywhere)) as gateway:
        assert status(gateway, "/api/v1/look/status") == 404 and "look is off: " in gateway.log()
        assert "admin.auth" in gateway.log()
    with running(start(tmp_path, auth(tmp_path), *everywhere)) as gateway:
        assert "look is off: " not in gateway.log()
        assert [status(gateway, "/api/v1/look/status", headers=h) for h in ({}, bearer("alpha"))] == [401, 200]


@pytest.mark.skipif(not shutil.which("openssl") or not has_signing_openssl(), reason="no openssl that signs in one go")
def test_tls_and_its_certificate_s_end(tmp_path):
    for name in ("one", "two"):
        certificate(tmp_path, name, names="DNS:localhost")
    for part in ("pem", "key"):
        shutil.copy(tmp_path / f"one.{part}", tmp_path / f"server.{part}")
    tls = f"tls: {{ cert_file: {tmp_path}/server.pem, key_file: {tmp_path}/server.key }}"
    with running(start(tmp_path, f"{tls}, {auth(tmp_path)}")) as gateway:
        one, two = ["--cacert", tmp_path / "one.pem"], ["--cacert", tmp_path / "two.pem"]
        for version in ("--http1.1", "--http2"):
            answer, _, body = curl(gateway, "/metrics", version, *one, scheme="https", headers=bearer("alpha"))
            assert answer == 200 and b"profgate_tls_certificate_expiry_seconds{" in body
            assert curl(gateway, "/", version, *one, scheme="https", headers=basic("carol", "secret"))[0] == 200
            assert curl(gateway, "/metrics", version, *one, scheme="https")[0] == 401
        assert status(gateway, "/metrics", *two, scheme="https") == 0
        answer, _, body = curl(gateway, "/metrics")
        assert answer == 400 and b"TLS only" in body
        for part in ("pem", "key"):
            shutil.copy(tmp_path / f"two.{part}", tmp_path / f"server.{part}")
        reload(gateway, "reloaded")
        assert [status(gateway, "/healthz", *by, scheme="https") for by in (one, two)] == [0, 200]
        (tmp_path / "server.key").write_text("no key\n")
        reload(gateway, "kept=")
        assert status(gateway, "/healthz", *two, scheme="https") == 200
        assert gateway.stop() == 0


@pytest.mark.skipif(not shutil.which("openssl") or not has_signing_openssl(), reason="no openssl that signs in one go")
def test_top_says_who_it_is(tmp_path):
    certificate(tmp_path, "server", names="DNS:localhost")
    (tmp_path / "password").write_text("secret\n")
    door = f"tls: {{ cert_file: {tmp_path}/server.pem, key_file: {tmp_path}/server.key }}, {auth(tmp_path)}"
    ca, password = ["--ca-file", tmp_path / "server.pem"], ["--user", "carol", "--password-file", tmp_path / "password"]
    with running(start(tmp_path, door)) as gateway:
        def top(*arguments, scheme="https"):
            done = subprocess.run([BUILD / "profgate", "top", "--url", f"{scheme}://localhost:{gateway.admin}", "--interval", "1s", "--once", *arguments],
                                  capture_output=True, text=True, timeout=PATIENCE)
            return done.returncode, done.stdout + done.stderr

        assert gateway.post(captures()[0].read_bytes())[0] == 200
        for credentials in (password, ["--bearer-token-file", tmp_path / "token"]):
            (tmp_path / "token").write_text("alpha\n")
            code, said = top(*ca, *credentials)
            assert code == 0 and "over 1 s" in said, said
        for wrong, why in ((ca, "--bearer-token-file"), ([*ca, "--bearer-token-file", tmp_path / "password"], "does not take these credentials"),
                           (password, "certificate was not accepted")):
            code, said = top(*wrong)
            assert code != 0 and why in said, said
        assert top(*password, scheme="http")[0] != 0 and top("--user", "carol")[0] == 2


@pytest.mark.skipif(not shutil.which("openssl") or not has_signing_openssl(), reason="no openssl that signs in one go")
def test_certificates_of_clients(tmp_path):
    certificate(tmp_path, "ca")
    for name in ("server", "ops", "other"):
        certificate(tmp_path, name, "ca", "DNS:localhost" if name == "server" else f"URI:spiffe://prod/{name}")
    tls = f"tls: {{ cert_file: {tmp_path}/server.pem, key_file: {tmp_path}/server.key, client_ca_file: {tmp_path}/ca.pem }}"

    def ask(gateway, path, name=None):
        shown = ["--cert", tmp_path / f"{name}.pem", "--key", tmp_path / f"{name}.key"] if name else []
        return status(gateway, path, "--cacert", tmp_path / "ca.pem", *shown, scheme="https")

    with running(start(tmp_path, f"{tls}, auth: {{ identities: ['spiffe://prod/ops'] }}")) as gateway:
        assert ask(gateway, "/metrics") == 0, "none was shown"
        assert [ask(gateway, "/metrics", name) for name in ("ops", "other")] == [200, 403]
    with running(start(tmp_path, tls, "--set", "admin.endpoint=0.0.0.0:0")) as gateway:
        assert ask(gateway, "/api/v1/look/status", "other") == 200, "every verified one, beyond loopback, too"


def test_validate_reads_the_files(tmp_path):
    config = tmp_path / "profgate.yaml"
    config.write_text(f"admin: {{ auth: {{ htpasswd_file: {tmp_path}/none }}, tls: {{ cert_file: {tmp_path}/none.pem }} }}\n")
    done = subprocess.run([BUILD / "profgate", "validate", config], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and f"{tmp_path}/none: No such file" in done.stdout, done.stdout
    assert "tls.cert_file and tls.key_file go together" in done.stdout


def test_a_slow_password_keeps_no_one_waiting(tmp_path):
    """One password is verified for many who say it at once, and whoever has a token goes first."""
    slow = subprocess.run(["openssl", "passwd", "-6", "-salt", "saltsalt", "secret"], capture_output=True, text=True, check=True).stdout.strip()
    with running(start(tmp_path, auth(tmp_path))) as gateway:
        (tmp_path / "users").write_text(f"carol:{slow}\n")
        reload(gateway, "reloaded")
        asking = [subprocess.Popen(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-u", "carol:secret",
                                    f"http://127.0.0.1:{gateway.admin}/api/v1/triggers"], stdout=subprocess.PIPE, text=True) for _ in range(8)]
        assert status(gateway, "/healthz") == status(gateway, "/metrics", headers=bearer("alpha")) == 200
        assert {one.communicate(timeout=PATIENCE)[0] for one in asking} == {"200"}
        assert gateway.stop() == 0
