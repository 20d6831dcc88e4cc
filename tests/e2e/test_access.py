"""Who may send, and how much: tokens, passwords, certificates, tenants and limits of the running gateway."""
import base64
import concurrent.futures
import http.client
import pathlib
import shutil
import signal
import ssl
import subprocess
import threading

import pytest
from programs import BUILD, EXPORT_METHOD, PATIENCE, PROFILES_PATH, Gateway, captures, running, wait_for

GOOD = captures("ebpf-go*.pb")[0].read_bytes()
# bcrypt of "secret", at the least cost
CAROL = "carol:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n"
HEALTH_CHECK = "/grpc.health.v1.Health/Check"


def basic(user, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def start(folder, address="", more="", tokens=None, users=None, **options):
    """A gateway with one address; its files are folder/tokens and folder/users."""
    auth = []
    for name, key, text in (("tokens", "bearer_tokens_file", tokens), ("users", "htpasswd_file", users)):
        if text is not None:
            (folder / name).write_text(text)
            auth.append(f"{key}: {folder / name}")
    address += f", auth: {{ {', '.join(auth)} }}" if auth else ""
    config = f"receivers: {{ otlp: [{{ endpoint: '127.0.0.1:0'{address} }}] }}\n{more}\n"
    return Gateway("--set", "service.workers=2", config=config, listen=0, **options)


@pytest.fixture(scope="module")
def grpc():
    return pytest.importorskip("grpc", reason="Python package grpcio is missing")


def export(grpc, gateway, metadata=(), method=EXPORT_METHOD, body=GOOD):
    """(code, details, trailing metadata) of one call."""
    with grpc.insecure_channel(f"127.0.0.1:{gateway.ports[0]}",
                               options=[("grpc.enable_retries", 0)]) as channel:
        call = channel.unary_unary(method, request_serializer=bytes, response_deserializer=bytes)
        try:
            _, state = call.with_call(body, metadata=metadata, timeout=PATIENCE)
            return state.code(), "", dict(state.trailing_metadata() or ())
        except grpc.RpcError as refusal:
            return refusal.code(), refusal.details(), dict(refusal.trailing_metadata() or ())


def reload(gateway, word):
    before = gateway.log().count(word)
    gateway.process.send_signal(signal.SIGHUP)
    wait_for(lambda: gateway.log().count(word) > before, f"{word!r} in the log")


def test_tokens_and_their_end(tmp_path):
    with running(start(tmp_path, tokens="alpha alice\nbeta\n")) as gateway:
        status, headers, body = gateway.post(GOOD)
        assert status == 401 and headers["www-authenticate"] == 'Bearer realm="profgate"' and body
        assert gateway.post(GOOD, bearer("wrong"))[0] == 401
        assert gateway.post(GOOD, bearer("beta"))[0] == 200
        connection = http.client.HTTPConnection("127.0.0.1", gateway.ports[0], timeout=PATIENCE)

        def post():
            connection.request("POST", PROFILES_PATH, GOOD,
                               {"Content-Type": "application/x-protobuf", **bearer("alpha")})
            answer = connection.getresponse()
            answer.read()
            return answer.status

        assert [post(), post()] == [200, 200]
        (tmp_path / "tokens").write_text("beta\nbad token here\n")
        reload(gateway, "kept=")
        assert post() == 200, "a bad file changes nothing"
        (tmp_path / "tokens").write_text("beta\ngamma\n")
        reload(gateway, "reloaded")
        assert post() == 401, "a token that is gone ends on connections that exist, too"
        assert gateway.post(GOOD, bearer("gamma"))[0] == 200
        connection.close()
        assert gateway.total("profgate_auth_total", outcome="accepted") == 5
        assert gateway.total("profgate_auth_total", outcome="missing") == 1
        assert gateway.total("profgate_auth_total", outcome="wrong") == 2
        assert "alpha" not in gateway.log(), "no token in the log"
        assert gateway.stop() == 0


def test_a_file_that_nobody_is_in_is_told(tmp_path):
    """All are refused then, which is as it says; but more likely the file is not what was meant."""
    with running(start(tmp_path, tokens="# none yet\n", users=CAROL)) as gateway:
        said = f"nobody is let in by what a file says file={tmp_path}/tokens"
        assert gateway.log().count(said) == 1 and f"{tmp_path}/users" not in gateway.log(), gateway.log()
        (tmp_path / "users").write_text("")
        reload(gateway, "reloaded")
        wait_for(lambda: f"file={tmp_path}/users" in gateway.log(), "the other one in the log")
        assert gateway.log().count(said) == 2
        (tmp_path / "tokens").write_text("alpha\n")
        (tmp_path / "users").write_text(CAROL)
        reload(gateway, "reloaded")
        assert gateway.post(GOOD, bearer("alpha"))[0] == 200
        assert gateway.log().count("nobody is let in") == 3


def test_passwords(tmp_path):
    with running(start(tmp_path, users=CAROL)) as gateway:
        assert gateway.post(GOOD, basic("carol", "secret"))[0] == 200
        assert gateway.post(GOOD, basic("carol", "Secret"))[0] == 401
        assert gateway.post(GOOD, basic("nobody", "secret"))[0] == 401
        assert gateway.post(GOOD)[1]["www-authenticate"] == 'Basic realm="profgate", charset="UTF-8"'
        with concurrent.futures.ThreadPoolExecutor(16) as pool:  # one verification serves all who ask the same
            assert {pool.submit(gateway.post, GOOD, basic("carol", "secret")).result()[0] for _ in range(64)} == {200}
        assert gateway.stop() == 0


def test_guessing_does_not_hurt_others(tmp_path):
    slow = subprocess.run(["openssl", "passwd", "-6", "-salt", "saltsalt", "secret"], capture_output=True, text=True,
                          check=True).stdout.strip()
    with running(start(tmp_path, tokens="alpha\n", users=f"carol:{slow}\n")) as gateway:
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            guesses = [pool.submit(gateway.post, b"", basic("carol", f"guess{i}")) for i in range(300)]
            good = [gateway.post(GOOD, bearer("alpha"))[0] for _ in range(100)]
            statuses = {guess.result()[0] for guess in guesses}
        assert set(good) == {200}
        assert statuses <= {401, 503}, statuses
        wait_for(lambda: gateway.post(GOOD, basic("carol", "secret"))[0] == 200, "the right password is let in")
        assert gateway.stop() == 0


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is missing")
@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
def test_curl_hears_every_refusal(tmp_path, version):
    body = tmp_path / "body"
    body.write_bytes(bytes(60_000))
    with running(start(tmp_path, tokens="alpha\n")) as gateway:
        for _ in range(20):
            run = subprocess.run(["curl", "-sS", version, "-w", "%{http_code}", "-o", tmp_path / "answer", "-H",
                                  "Content-Type: application/x-protobuf", "--data-binary", f"@{body}",
                                  f"http://127.0.0.1:{gateway.ports[0]}{PROFILES_PATH}"],
                                 capture_output=True, text=True, timeout=PATIENCE)
            assert (run.returncode, run.stdout) == (0, "401"), run.stderr
        assert gateway.stop() == 0


def test_grpc(tmp_path, grpc):
    with running(start(tmp_path, tokens="alpha alice\n", users=CAROL)) as gateway:
        assert export(grpc, gateway)[0] == grpc.StatusCode.UNAUTHENTICATED
        assert export(grpc, gateway, [("authorization", "Bearer alpha")])[0] == grpc.StatusCode.OK
        carol = basic("carol", "secret")["Authorization"]
        assert export(grpc, gateway, [("authorization", carol)])[0] == grpc.StatusCode.OK
        # A probe has no credentials; who wants to know more needs them.
        assert export(grpc, gateway, method=HEALTH_CHECK, body=b"")[0] == grpc.StatusCode.OK
        code, _, _ = export(grpc, gateway, method="/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        assert code == grpc.StatusCode.UNAUTHENTICATED
        # A stream says nothing more before it is answered, so the answer must not wait for its end.
        with grpc.insecure_channel(f"127.0.0.1:{gateway.ports[0]}") as channel:
            stream = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                                           request_serializer=bytes, response_deserializer=bytes)
            still_open = threading.Event()
            call = stream(iter(lambda: b"" if not still_open.wait() else b"", None), timeout=PATIENCE)
            with pytest.raises(grpc.RpcError) as refused:
                next(call)
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
            still_open.set()
        assert gateway.stop() == 0


def test_rate_of_one_client(tmp_path, grpc):
    limits = "limits: { request_bytes: 256KiB, per_client: { bytes_per_second: 1KiB } }"
    with running(start(tmp_path, more=limits)) as gateway:
        assert len(GOOD) <= 256 << 10
        statuses = [gateway.post(GOOD) for _ in range(8)]
        refused = [(headers, body) for status, headers, body in statuses if status == 429]
        assert statuses[0][0] == 200 and refused
        assert int(refused[-1][0]["retry-after"]) > 1 and b"bytes a second" in refused[-1][1]
        # What tells no length is let in as long as there is no debt, and makes it: so the second call at the latest.
        calls = [export(grpc, gateway) for _ in range(2)]
        code, _, trailers = calls[-1]
        assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert b"google.rpc.RetryInfo" in trailers["grpc-status-details-bin"]
        assert gateway.total("profgate_refused_by_limit_total", scope="client", limit="bytes") == (
            len(refused) + sum(call[0] == code for call in calls))
        assert gateway.stop() == 0


def test_connections_of_one_client_and_names_apart(tmp_path):
    limits = "limits: { per_client: { connections: 3 } }"
    with running(start(tmp_path, more=limits)) as gateway:
        held = [http.client.HTTPConnection("127.0.0.1", gateway.ports[0], timeout=PATIENCE) for _ in range(3)]
        for connection in held:
            connection.request("POST", PROFILES_PATH, GOOD, {"Content-Type": "application/x-protobuf"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            gateway.post(GOOD)
        held[0].close()
        wait_for(lambda: posts(gateway), "a place that was left is taken")
        assert gateway.total("profgate_refused_by_limit_total", scope="client", limit="connections") >= 1
        for connection in held:
            connection.close()
        assert gateway.stop() == 0


def posts(gateway):
    try:
        return gateway.post(GOOD)[0] == 200
    except (ConnectionError, http.client.HTTPException):
        return False


def test_tenants(tmp_path):
    more = ("tenants: { header: X-Scope-OrgID, required: true }\n"
            "limits: { request_bytes: 256KiB, per_tenant: { bytes_per_second: 1KiB } }")
    with running(start(tmp_path, more=more)) as gateway:
        status, _, body = gateway.post(GOOD)
        assert status == 400 and b"tenant" in body
        assert gateway.post(GOOD, {"X-Scope-OrgID": "a b"})[0] == 400
        statuses = [gateway.post(GOOD, {"X-Scope-OrgID": "one"})[0] for _ in range(8)]
        assert statuses[0] == 200 and statuses[-1] == 429
        assert gateway.post(GOOD, {"x-scope-orgid": "two"})[0] == 200, "one tenant's limit is not another's"
        assert gateway.total("profgate_refused_by_limit_total", scope="tenant", limit="bytes") == statuses.count(429)
        assert gateway.stop() == 0


def test_the_version_a_request_names(tmp_path):
    with running(start(tmp_path, address=", wire_version: 1.9")) as gateway:
        name = "OTLP-Profiles-Development-Version"
        status, _, body = gateway.post(GOOD, {name: "2"})
        assert status == 400 and b"otlp-profiles-development-version" in body
        assert gateway.post(GOOD, {name: "1"})[0] == 200
        assert gateway.total("profgate_requests_by_layout_total", layout="1.10") == 1
        assert gateway.stop() == 0


def test_g11_h12_default_ports():
    run = subprocess.run([BUILD / "profgate", "serve", "--print-config"], capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 0, run.stderr
    assert "localhost:4317" in run.stdout and "localhost:4318" in run.stdout


def certificate(folder, name, signer=None, names=""):
    """name.pem and name.key, made by openssl; signed by another one, or by itself."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
               "2", "-subj", f"/CN={name}", "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"]
    if names:
        command += ["-addext", f"subjectAltName={names}", "-addext", "basicConstraints=critical,CA:FALSE"]
    if signer:
        command += ["-CA", folder / f"{signer}.pem", "-CAkey", folder / f"{signer}.key"]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


def has_signing_openssl():
    run = subprocess.run(["openssl", "req", "-help"], capture_output=True, text=True)
    return "-CAkey" in run.stderr + run.stdout


@pytest.mark.skipif(not shutil.which("openssl") or not has_signing_openssl(), reason="no openssl that signs in one go")
def test_certificates(tmp_path: pathlib.Path):
    certificate(tmp_path, "ca")
    certificate(tmp_path, "server", "ca", "IP:127.0.0.1")
    certificate(tmp_path, "prod", "ca", "URI:spiffe://prod/agent")
    certificate(tmp_path, "test", "ca", "URI:spiffe://test/agent")
    tls = (f", tls: {{ cert_file: {tmp_path}/server.pem, key_file: {tmp_path}/server.key, "
           f"client_ca_file: {tmp_path}/ca.pem }}, auth: {{ identities: ['spiffe://prod/*'] }}")
    with running(start(tmp_path, address=tls)) as gateway:
        statuses = {}
        for who in ("prod", "test"):
            context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
            context.load_cert_chain(tmp_path / f"{who}.pem", tmp_path / f"{who}.key")
            connection = http.client.HTTPSConnection("127.0.0.1", gateway.ports[0], timeout=PATIENCE, context=context)
            connection.request("POST", PROFILES_PATH, GOOD, {"Content-Type": "application/x-protobuf"})
            statuses[who] = connection.getresponse().status
            connection.close()
        assert statuses == {"prod": 200, "test": 403}
        assert gateway.total("profgate_auth_total", outcome="forbidden") == 1
        assert gateway.stop() == 0
