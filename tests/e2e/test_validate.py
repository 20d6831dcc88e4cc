"""profgate validate: everything that is wrong with a configuration at once, each with its place and what to write instead."""
import datetime
import os
import socket
import subprocess

import pytest
from programs import BUILD, PATIENCE, Gateway, free_port, running


def validate(*arguments):
    """(exit code, lines of standard output, standard error)."""
    done = subprocess.run([BUILD / "profgate", "validate", *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout.splitlines(), done.stderr


@pytest.fixture()
def config(tmp_path):
    path = tmp_path / "c.yaml"

    def write(text):
        path.write_text(text)
        return path

    return write


def certificate(folder, name, days):
    """A certificate of its own that ends so many days from now, and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)
    begin = end - datetime.timedelta(days=400)
    stamp = "%y%m%d%H%M%SZ"
    subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out",
                    folder / "csr", "-subj", "/CN=x"], check=True, capture_output=True)
    (folder / "index").write_text("")
    (folder / "ca.cnf").write_text(f"[ca]\ndefault_ca = d\n[d]\ndatabase = {folder}/index\nnew_certs_dir = {folder}\n"
                                   "default_md = sha256\nrand_serial = yes\npolicy = p\n[p]\ncommonName = supplied\n")
    subprocess.run(["openssl", "ca", "-batch", "-selfsign", "-config", folder / "ca.cnf", "-keyfile", key, "-in", folder / "csr",
                    "-out", cert, "-notext", "-startdate", begin.strftime(stamp), "-enddate", end.strftime(stamp)],
                   check=True, capture_output=True)
    return cert, key


def test_a_good_one(config):
    path = config("metrics: { flush_interval: 5s }\n")
    assert validate(path) == (0, [f"{path}: 0 errors, 0 warnings"], "")


def test_every_error_of_a_file_has_its_place_and_a_proposal(config):
    path = config("""metrics:
  flush_intervall: 5s
  temporality: dleta
profile: {}
profiles: { keep: lots }
limits:
  memory: 1GiB
  memory: 2GiB
receivers: { otlp: { endpoint: "localhost:4317" } }
rules: { files: { a: b } }
exporters: { otpl/x: {} }
""")
    code, lines, _ = validate(path)
    assert code == 1
    expected = [
        (8, 3, "memory: this key stands in line 7 already"),
        (2, 3, "metrics.flush_intervall: unknown key; did you mean flush_interval?"),
        (3, 16, 'metrics.temporality: "dleta" is not one of delta|cumulative; did you mean delta?'),
        (4, 1, "profile: unknown section; did you mean profiles?"),
        (5, 19, 'profiles.keep: "lots" is not a share'),
        (9, 20, "receivers.otlp: a list belongs here, not a map"),
        (10, 17, "rules.files: a list belongs here, not a map"),
        (11, 14, "otpl/x: an exporter is called otlp, file, kafka or prometheusremotewrite"),
    ]
    assert lines[-1] == f"{path}: {len(expected)} errors, 0 warnings"
    for line, (at, column, text) in zip(lines, expected, strict=False):
        assert line.startswith(f"{path}:{at}:{column}: {text}"), (line, text)
    assert len(lines) == len(expected) + 1


def test_a_tab_is_called_one(config):
    path = config("limits:\n\tmemory: 1GiB\n")
    assert validate(path)[1][0] == f"{path}:2:1: a tab; YAML is indented by spaces"


def test_what_does_not_fit_together(config, tmp_path):
    path = config(f"""metrics: {{ exporters: [prometheus, otlp/mtrics] }}
profiles: {{ exporters: [prometheusremotewrite/w] }}
exporters:
  otlp/metrics: {{ endpoint: "http://localhost:1" }}
  file/x: {{ path: {tmp_path}/nowhere/x.json }}
  prometheusremotewrite/w: {{ endpoint: "http://localhost:1" }}
rules:
  builtin: [cpu, connecter]
  files: ["{tmp_path}/none/*.rules"]
""")
    code, lines, _ = validate(path)
    assert code == 1
    text = "\n".join(lines)
    for line in (
            f"{path}:1:23: metrics.exporters names otlp/mtrics, which is not among exporters; did you mean otlp/metrics?",
            f"{path}:2:24: profiles.exporters names prometheusremotewrite/w, which takes metrics only",
            f"{path}:4:17: warning: nothing goes there: neither metrics.exporters nor profiles.exporters names it",
            f"{path}:5:19: the folder {tmp_path}/nowhere takes no files: No such file or directory",
            f"{path}:9:11: warning: rules.files: nothing matches {tmp_path}/none/*.rules",
            f"{path}:8:18: rules.builtin: there is no shipped pack connecter; did you mean connector?"):
        assert line in lines, text


def test_rules_that_the_configuration_names_have_its_place_in_serve_too(config, tmp_path):
    names = [("enable", "[busy, busyy]", 18, "rules.enable: there is no metric, trigger or pack named `busyy`; did you mean `busy`?"),
             ("enable", "[busy, \"x y\"]", 18, 'rules.enable: "x y" is not the name of a metric or a pack'),
             ("builtin", "[cpu, connecter]", 18, "rules.builtin: there is no shipped pack connecter; did you mean connector?"),
             ("files", f"[{tmp_path}/none.rules]", 11, f"rules.files: there is no file {tmp_path}/none.rules"),
             ("enable", "busyy", 11, "rules.enable: there is no metric, trigger or pack named `busyy`; did you mean `busy`?")]
    for key, value, column, text in names:
        path = config(f"rules:\n  # by hand\n  {key}: {value}\n")
        expected = f"{path}:3:{column}: {text}"
        code, lines, err = validate(path)
        assert code == 1 and lines == [expected, f"{path}: 1 error, 0 warnings"] and err == "", (lines, err)
        done = subprocess.run([BUILD / "profgate", "serve", "--config", path], capture_output=True, text=True, timeout=PATIENCE)
        assert (done.returncode, done.stderr) == (2, f"profgate serve: {expected}\n")
    # What a flag says has no place in the file, and validate says each of several.
    done = subprocess.run([BUILD / "profgate", "serve", "--config", path, "--set", "rules.enable=bussy"], capture_output=True,
                          text=True, timeout=PATIENCE)
    assert done.stderr == "profgate serve: rules.enable: there is no metric, trigger or pack named `bussy`; did you mean `busy`?\n"
    code, lines, _ = validate(config("rules:\n  enable:\n    - busyy\n    - busy\n    - no.such\n"))
    assert code == 1 and [line.split(" ")[0] for line in lines] == [f"{path}:3:7:", f"{path}:5:7:", f"{path}:"], lines


def test_rules_certificates_and_credentials(config, tmp_path):
    (tmp_path / "bad.rules").write_text("rules 1\npack bad\ncuonter x { }\n")
    good, key = certificate(tmp_path, "good", 100)
    soon, soon_key = certificate(tmp_path, "soon", 5)
    ended, ended_key = certificate(tmp_path, "ended", -5)
    (tmp_path / "tokens").write_text("two words too many\n")
    path = config(f"""rules: {{ files: [{tmp_path}/bad.rules] }}
receivers:
  otlp:
    - {{ endpoint: "a:1", tls: {{ cert_file: {good}, key_file: {key} }} }}
    - {{ endpoint: "a:2", tls: {{ cert_file: {soon}, key_file: {soon_key} }} }}
    - {{ endpoint: "a:3", tls: {{ cert_file: {ended}, key_file: {ended_key} }} }}
    - {{ endpoint: "a:4", tls: {{ cert_file: {good}, key_file: {soon_key} }} }}
    - {{ endpoint: "a:5", auth: {{ bearer_tokens_file: {tmp_path}/tokens }} }}
    - {{ endpoint: "a:6", auth: {{ htpasswd_file: {tmp_path}/users }} }}
admin: {{ auth: {{ bearer_tokens_file: {tmp_path}/users }} }}
""")
    (tmp_path / "users").write_text("\n")
    code, lines, err = validate(path)
    text = "\n".join(lines)
    for place in ("9:32", "10:16"):
        assert f"{path}:{place}: warning: {tmp_path}/users: nobody is in it, and nobody is let in by it" in text, text
    assert code == 1 and f"{tmp_path}/bad.rules:3:1" in err
    assert f"{path}:5:31: warning: {soon}: the certificate ends on" in text
    assert f"{path}:6:31: {ended}: the certificate ended on" in text
    assert f"{path}:7:31: " in text and str(soon_key) in text
    assert any(line.startswith(f"{path}:8:32: {tmp_path}/tokens: line 1") for line in lines), text
    assert not any(line.startswith(f"{path}:4:") for line in lines)


@pytest.mark.parametrize("nothing", ['""', "~", "'${env:NOWHERE:-}'"])
def test_an_admin_address_that_is_empty(config, nothing):
    path = config(f"admin: {{ endpoint: {nothing} }}\n")
    code, lines, _ = validate(path)
    assert code == 1 and lines[0] == f"{path}:1:20: admin.endpoint: host:port is missing", lines
    for way in (("--config", path), ("--set", "admin.endpoint=")):
        done = subprocess.run([BUILD / "profgate", "serve", *way], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 2 and "admin.endpoint: host:port is missing" in done.stderr, done.stderr


@pytest.mark.parametrize("key", ["auth: { bearer_tokens_file: VALUE }", "auth: { htpasswd_file: VALUE }", "auth: { identities: [VALUE] }",
                                 "tls: { cert_file: VALUE }", "tls: { client_ca_file: VALUE }"])
def test_a_variable_that_is_empty_opens_no_address(config, key):
    """`NAME=$(cat file-that-is-not-there)` of a unit: without a value the key would be one that was never written."""
    variable, environment = "'${env:PG_EMPTY}'", {**os.environ, "PG_EMPTY": ""}
    path = config(f"receivers: {{ otlp: [{{ endpoint: '127.0.0.1:0', {key.replace('VALUE', variable)} }}] }}\n")
    for words, code in ((["validate", path], 1), (["serve", "--config", path], 2)):
        done = subprocess.run([BUILD / "profgate", *words], capture_output=True, text=True, timeout=PATIENCE, env=environment)
        assert done.returncode == code and "the environment has nothing in PG_EMPTY" in done.stdout + done.stderr, done


def test_addresses_that_a_start_would_refuse(config):
    path = config("""receivers:
  otlp: [{ endpoint: "0.0.0.0:99999" }, { endpoint: localhost }, { endpoint: "unix:/run/x.sock" }, { endpoint: "[::1]" }]
admin: { endpoint: "::1:9464" }
exporters:
  otlp/x: { endpoint: "http://collector:port" }
  otlp/y: { endpoint: "collector:4317" }
metrics: { exporters: [otlp/x, otlp/y] }
""")
    code, lines, _ = validate(path)
    assert code == 1 and lines == [
        f'{path}:5:11: exporters.otlp/x: endpoint "http://collector:port": "port" is not a port from 1 to 65535',
        f'{path}:2:22: address "0.0.0.0:99999": the port is not a number from 0 to 65535',
        f'{path}:2:53: address "localhost" has no port: write host:port',
        f'{path}:2:112: address "[::1]" has no port: write [host]:port, [::1]:4317',
        f'{path}:3:20: address "::1:9464": write an IPv6 address in brackets, [::1]:4317',
        f"{path}: 5 errors, 0 warnings"]


def test_what_starts_and_is_not_what_was_meant(config, tmp_path):
    """Two that listen at one address would share out what comes, whoever each lets in; a name with a scheme is nobody's."""
    (tmp_path / "file").write_text("")
    path = config(f"""receivers:
  otlp: [{{ endpoint: "http://a:1" }}, {{ endpoint: "localhost:4317" }}, {{ endpoint: "localhost:4317" }}, {{ endpoint: "a:0" }}, {{ endpoint: "a:0" }}]
admin: {{ endpoint: "localhost:4317", hosts: [a.example, "a.example:1", "https://b.example:1/metrics"] }}
limits: {{ memory: 32MiB }}
look: {{ memory: 8MiB, storage: {tmp_path}/none/look }}
profiles: {{ exporters: [prometheus] }}
metrics: {{ exporters: [otlp/x, otlp/y] }}
exporters:
  otlp/x: {{ endpoint: "http://a:1", sending_queue: {{ storage: {tmp_path}/file }} }}
  otlp/y: {{ endpoint: "http://a:1", sending_queue: {{ storage: {tmp_path}/made }} }}
""")
    code, lines, _ = validate(path)
    assert code == 1 and lines == [
        f"{path}:3:20: admin.endpoint: localhost:4317 is one of receivers.otlp",
        f"{path}:2:82: receivers.otlp: localhost:4317 stands there twice",
        f"{path}:3:20: admin.endpoint: localhost:4317 is one of receivers.otlp",
        f'{path}:3:72: admin.hosts: "https://b.example:1/metrics" is not the name of a host; write b.example:1',
        f"{path}:6:24: profiles.exporters names prometheus, which takes metrics only",
        f"{path}:4:9: limits.request_bytes must be at most half of limits.memory, or one request could never be read: write 16MiB",
        f'{path}:2:22: address "http://a:1" is host:port, not a URL: write a:1',
        f"{path}:5:17: warning: look.memory: it will be 4MiB, an eighth of limits.memory",
        f"{path}:5:32: the folder {tmp_path}/none takes no files: No such file or directory",
        f"{path}:9:63: the folder {tmp_path}/file takes no files: Not a directory",
        f"{path}: 9 errors, 1 warning"], "\n".join(lines)


@pytest.mark.parametrize("listens, endpoint, comes_back", [
    ("localhost:4317", "localhost:4317", True), ("127.0.0.1:4317", "http://localhost:4317/", True), ("0.0.0.0:4317", "https://127.0.0.1:4317", True),
    ("'[::]:4317'", "http://[::1]:4317", True), ("unix:/run/pg.sock", "unix:/run/pg.sock", True),
    ("localhost:4317", "http://localhost:4318", False), ("localhost:4317", "http://[::1]:4317", False), ("0.0.0.0:4317", "http://gateway:4317", False),
    ("localhost:0", "http://localhost:0", False)])
def test_where_profiles_leave_is_not_where_they_come_in(config, listens, endpoint, comes_back):
    """Each would count again and leave again, for ever. By a proxy, localhost is the proxy's."""
    text = f"""receivers: {{ otlp: [{{ endpoint: {listens} }}] }}
profiles: {{ exporters: [otlp/b] }}
exporters:
  otlp/b: {{ endpoint: "{endpoint}" MORE }}
"""
    said = f"exporters.otlp/b: endpoint {endpoint} is receivers.otlp {listens.strip(chr(39))}: profiles would come back for ever"
    code, lines, _ = validate(config(text.replace("MORE", "")))
    assert (code == 1 and said in lines[0]) == comes_back, lines
    assert not any(said in line for line in validate(config(text.replace("MORE", ', proxy_url: "http://proxy:3128"')))[1])


def test_folders_that_look_as_if_they_took_files(config, tmp_path):
    """For root everything may be written, and /proc takes nothing; what is appended to needs no folder that does."""
    path = config(f"""look: {{ memory: 8MiB, storage: /proc }}
metrics: {{ exporters: [file/a, file/b, otlp/x] }}
exporters:
  file/a: {{ path: /dev/stdout }}
  file/b: {{ path: {tmp_path} }}
  otlp/x: {{ endpoint: "http://a:1", sending_queue: {{ storage: /proc/self/queue }} }}
""")
    code, lines, _ = validate(path)
    assert code == 1 and lines == [
        f"{path}:1:32: the folder /proc takes no files: No such file or directory",
        f"{path}:5:19: {tmp_path}: Is a directory",
        f"{path}:6:63: the folder /proc/self takes no files: No such file or directory",
        f"{path}: 3 errors, 0 warnings"], "\n".join(lines)


@pytest.mark.parametrize("name,says", [
    ("prometheus", "prometheus has no settings among exporters: its page is at admin.endpoint, and metrics.exporters names it"),
    ("oltp/x", "in this version; did you mean otlp?")])
def test_an_exporter_of_no_kind(config, name, says):
    path = config(f"exporters: {{ {name}: {{}} }}\n")
    code, lines, _ = validate(path)
    assert code == 1 and lines[0].startswith(f"{path}:1:14: {name}: ") and lines[0].endswith(says), lines


def serve(*arguments):
    """(exit code, standard error) of one that does not start."""
    done = subprocess.run([BUILD / "profgate", "serve", *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stderr


@pytest.mark.parametrize("text", [
    "metrics: { exporters: [prometheus, otlp/y] }\nexporters: { otlp/x: { endpoint: 'a:1' } }\n",
    "exporters:\n  otlp/x: { endpoint: 'http://collector:port' }\n",
    "receivers: { otlp: [{ endpoint: 'localhost:0' }, { endpoint: 'localhost:0', tls: { cert_file: x } }] }\n",
    "limits:\n  request_bytes: 64MiB\n  memory: 16MiB\n",
    "tenants:\n  required: true\n",
    "receivers:\n  kafka: { profiles: { topics: [a, 'b c'] } }\n",
    "receivers:\n  kafka: { profiles: { topics: [a, b, a] } }\n",
    "receivers:\n  kafka: { profiles: { topics: ['^a('] } }\n",
    "receivers:\n  kafka: { group_instance_id: a/b }\n",
    "exporters:\n  kafka/x: { profiles: { topic: 'a b' } }\n",
])
def test_serve_says_what_validate_says(config, text):
    path = config(text)
    lines = validate(path)[1]
    assert lines[0].startswith(f"{path}:")
    assert serve("--config", path) == (2, f"profgate serve: {lines[0]}\n")


def test_topics_and_the_files_and_brokers_of_kafka(config, tmp_path):
    proposals = [("'otlp profiles'", "did you mean otlp_profiles?"), ("'otlp_.*'", "did you mean the regular expression ^otlp_.*$?"),
                 ("a, a", "a is there twice"), ("'^a('", "is no regular expression"), ("'..'", "is no name"), ("''", "is no name"),
                 ("a" * 250, "is longer than 249 letters")]
    for topics, text in proposals:
        path = config(f"receivers:\n  kafka:\n    profiles:\n      topics: [{topics}]\n")
        code, lines, _ = validate(path)
        column = 19 if "twice" in text else 16
        assert code == 1 and lines[0].startswith(f"{path}:4:{column}: receivers.kafka: profiles.topics: ") and text in lines[0], lines
    every = config("receivers:\n  kafka:\n    profiles:\n      topics:\n" + "".join(f"      - {topics}\n" for topics, _ in proposals if "," not in topics))
    lines = validate(every)[1]
    assert [line.split(":", 3)[1:3] for line in lines[:-1]] == [[str(5 + i), "9"] for i in range(6)] and lines[-1].endswith("6 errors, 0 warnings"), lines
    assert validate(config("receivers: { kafka: { profiles: { topics: ['^a.*', b.c_d-E, %s] } } }\n" % ("a" * 249)))[0] == 0
    cert, key = certificate(tmp_path, "ended", -5)
    path = config(f"receivers:\n  kafka:\n    tls: {{ ca_file: {tmp_path}/none }}\n")
    assert validate(path)[1][0] == f"{path}:3:10: CA file {tmp_path}/none: No such file or directory"
    path = config(f"receivers:\n  kafka:\n    tls: {{ cert_file: {cert}, key_file: {key} }}\n")
    assert validate(path)[1][0].startswith(f"{path}:3:10: {cert}: the certificate ended on")
    ports = [free_port() for _ in range(3)]
    with socket.create_server(("127.0.0.1", ports[2])):
        path = config(f"receivers:\n  kafka:\n    brokers: ['127.0.0.1:{ports[0]}', '127.0.0.1:{ports[2]}']\n"
                      f"profiles: {{ keep: 100%, exporters: [kafka/x] }}\nexporters:\n  kafka/x: {{ brokers: ['127.0.0.1:{ports[1]}'] }}\n")
        assert validate(path)[0] == 0
        code, lines, _ = validate("--reach", path)
    assert code == 1 and lines == [f"{path}:3:14: warning: 127.0.0.1:{ports[0]} is not reachable: Connection refused",
                                   f"{path}:6:23: 127.0.0.1:{ports[1]} is not reachable: Connection refused",
                                   f"{path}: 1 error, 1 warning"]


def test_what_a_flag_says_has_no_place_in_the_file(config):
    path = config("limits: { request_bytes: 8MiB }\nreceivers: { otlp: [{ endpoint: 'localhost:0' }] }\n")
    text = "limits.request_bytes must be at most half of limits.memory, or one request could never be read: write 256MiB\n"
    assert serve("--config", path, "--set", "limits.request_bytes=1GiB") == (2, f"profgate serve: {text}")
    assert serve("--config", path, "--set", "limits.memory=16MiB", "--set", "receivers.otlp.tls.cert_file=x") == (
        2, "profgate serve: receivers.otlp localhost:0: tls.cert_file and tls.key_file go together\n")
    assert serve("--set", "tenants.required=true") == (2, "profgate serve: tenants.required means nothing without tenants.header\n")


def test_what_is_to_be_scraped_is_looked_at_as_a_start_does(config, tmp_path):
    path = config(f"""receivers:
  pprof_scrape:
    - targets: ["app:99999"]
      scheme: https
      basic_auth: {{ username: me, password_file: {tmp_path}/password }}
      tls: {{ ca_file: {tmp_path}/ca.pem }}
    - job_name: more
      targets: ["ok:6060", "http://app:6060/debug/pprof"]
      authorization: {{ credentials_file: {tmp_path}/token }}
look: {{ storage: {tmp_path} }}
""")
    code, lines, _ = validate(path)
    assert code == 1 and lines == [
        f'{path}:8:28: receivers.pprof_scrape more: the target "http://app:6060/debug/pprof" is host:port, not a URL: write app:6060 '
        "(and scheme, path_prefix)",
        f'{path}:3:17: endpoint "app:99999": "99999" is not a port from 1 to 65535',
        f"{path}:5:50: cannot read {tmp_path}/password: No such file or directory",
        f"{path}:6:12: CA file {tmp_path}/ca.pem: No such file or directory",
        f"{path}:9:42: cannot read {tmp_path}/token: No such file or directory",
        f"{path}:10:18: warning: look.storage: nothing is kept while look.memory is 0",
        f"{path}: 5 errors, 1 warning"]


def test_reach_asks_the_destinations_in_use(config):
    path = config(f"""metrics: {{ exporters: [otlp/x] }}
exporters:
  otlp/x: {{ endpoint: "http://127.0.0.1:{free_port()}" }}
  otlp/unused: {{ endpoint: "http://127.0.0.1:{free_port()}" }}
""")
    assert validate(path)[0] == 0
    code, lines, _ = validate("--reach", path)
    refused = [line for line in lines if "is not reachable: Connection refused" in line]
    assert code == 1 and len(refused) == 1 and refused[0].startswith(f"{path}:3:23: ")


def test_reach_asks_each_of_several_endpoints(config):
    there, gone = free_port(), [free_port(), free_port()]
    text = "metrics: {{ exporters: [otlp/x] }}\nexporters:\n  otlp/x: {{ endpoints: ['http://127.0.0.1:{}', 'http://127.0.0.1:{}'] }}\n"
    code, lines, _ = validate("--reach", path := config(text.format(*gone)))
    assert code == 1 and lines[0] == f"{path}:3:24: http://127.0.0.1:{gone[1]} is not reachable: Connection refused", lines
    with socket.create_server(("127.0.0.1", there)):
        code, lines, _ = validate("--reach", path := config(text.format(gone[0], there)))
    assert code == 0 and lines[0] == f"{path}:3:24: warning: http://127.0.0.1:{gone[0]} is not reachable: Connection refused", lines


def test_secrets_are_masked(config):
    path = config("exporters: { otlp/x: { endpoint: e, headers: { Authorization: Bearer s3cret } } }\n")
    done = subprocess.run([BUILD / "profgate", "serve", "--config", path, "--print-config"], capture_output=True, text=True,
                          check=True, timeout=PATIENCE)
    assert '"Authorization": "[REDACTED]"' in done.stdout and "s3cret" not in done.stdout


def test_usage(tmp_path):
    assert validate()[0] == 2
    assert validate(tmp_path / "none.yaml")[0] == 2


def test_what_shells_other_sections_and_other_programs_would_have_understood(config):
    path = config("""admin: { log_level: debug, endpoint: "127.0.0.1:4317" }
memory: 64MiB
receivers: { otlp: [{ endpoint: "localhost:4317" }] }
profiles: { keep: 1 }
metrics: { exporters: [prometheusremotewrite/x] }
exporters:
  prometheusremotewrite/x: { endpoint: "http://prometheus:9090", headers: { authorization: "$HOME" } }
""")
    code, lines, _ = validate(path)
    text = "\n".join(lines)
    assert code == 1, text
    for place, said in (("1:10", "admin.log_level: unknown key; did you mean service.log_level? "),
                        ("2:1", "memory: unknown section; did you mean look.memory or limits.memory? "),
                        ("4:19", 'profiles.keep: "1" could be all or a hundredth: write 100% or 1%'),
                        ("7:92", "prometheusremotewrite/x.headers: $HOME is not replaced: write ${env:HOME}, or $$HOME if")):
        assert any(line.startswith(f"{path}:{place}: {said}") for line in lines), text
    path = config("""admin: { endpoint: "127.0.0.1:4317" }
receivers: { otlp: [{ endpoint: "localhost:4317" }] }
metrics: { exporters: [prometheusremotewrite/x] }
exporters:
  prometheusremotewrite/x: { endpoint: "http://prometheus:9090", headers: { authorization: "$$HOME and $5" } }
""")
    code, lines, _ = validate(path)
    assert code == 1 and lines == [
        f"{path}:1:20: admin.endpoint: localhost:4317 is one of receivers.otlp",
        f"{path}:5:40: warning: exporters.prometheusremotewrite/x.endpoint: no path; Prometheus takes remote write at /api/v1/write",
        f"{path}: 1 error, 1 warning"], "\n".join(lines)


def test_metrics_that_prometheus_takes_for_one_have_their_places(config, tmp_path):
    rules = tmp_path / "mine.rules"
    rules.write_text("""rules 1 pack mine
counter shop.orders { describe "d" unit "1" on any value samples }
counter shop_orders { describe "d" unit "1" on any value samples }
counter profgate.samples { describe "d" unit "1" on any value samples }
""")
    path = config(f"rules: {{ files: [{rules}] }}\n")
    code, lines, err = validate(path)
    assert code == 1 and lines[0] == f"{path}:1:17: the rules have 2 errors"
    assert f"E137 {rules}:3:1: Prometheus takes `shop_orders` and `shop.orders` ({rules}:2) for one metric, shop_orders\n" in err
    assert f"E137 {rules}:4:1: Prometheus takes `profgate.samples` for a metric of profgate's own, profgate_samples\n" in err
    for command in (["serve", "--config", path], ["rules", "check", rules]):
        done = subprocess.run([BUILD / "profgate", *command], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode in (1, 2) and (done.stdout + done.stderr).count("E137") == 2, done
    path = config(f"rules: {{ files: [{rules}] }}\nmetrics: {{ translation_strategy: NoTranslation }}\n")
    assert validate(path)[2].count("E137") == 2


def test_a_trigger_that_asks_nobody_is_said_to_who_runs_it(config, tmp_path):
    rules = tmp_path / "mine.rules"
    rules.write_text("""rules 1 pack mine
trigger loud { when rate of profile.cpu.time over 1m above 1 do sample 97Hz lasting 1m cooldown 1m }
counter mine.unproven { describe "d" unit "1" on any value samples }
""")
    path = config(f"rules: {{ files: [{rules}] }}\n")
    code, lines, err = validate(path)
    assert code == 0 and lines == [f"{path}: 0 errors, 1 warning"]
    assert err.startswith(f"W214 {rules}:2:65: no sender is asked for anything yet: this does nothing\n") and "W209" not in err, err
    with running(Gateway("--config", path)) as gateway:
        assert "W214" in gateway.log()
