"""New configuration while running: what is good is taken, what is bad changes nothing, and nothing is lost or counted
twice meanwhile."""
import http.client
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

from programs import BUILD, PATIENCE, Gateway, captures, json_lines, parse_prometheus, running, wait_for

BODY = captures("ebpf-go*.pb")[0].read_bytes()
RULES = """rules 1
pack mine
counter mine.{name} {{ describe "All samples" unit "1" on "samples/count" value events }}
test "t" {{ stack go "x" expect mine.{name} }}
"""


def start(folder, exporters="prometheus", more=""):
    (folder / "mine.rules").write_text(RULES.format(name="all"))
    return Gateway(config=f"rules: {{ files: [{folder}/mine.rules] }}\nmetrics: {{ flush_interval: 200ms, "
                          f"exporters: [{exporters}] }}\n{more}", listen=1)


def reload(gateway, headers=None):
    """POST /api/v1/reload: (status, text)."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.admin, timeout=PATIENCE)
    connection.request("POST", "/api/v1/reload", headers=headers or {})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def rules_taken(gateway):
    return gateway.log().count("reloaded metrics=")


def send(gateway):
    assert gateway.post(BODY)[0] == 200


def total(gateway, name):
    return sum(v for (series, _), v in parse_prometheus(gateway.get("/metrics?collect[]=profiles")).items() if series == name)


def total_of(path):
    """What the delta points in the file add up to, by metric."""
    totals = {}
    for request in json_lines(path):
        for resource in request["resourceMetrics"]:
            for metric in (m for scope in resource["scopeMetrics"] for m in scope["metrics"]):
                for point in metric.get("sum", {}).get("dataPoints", []):
                    totals[metric["name"]] = totals.get(metric["name"], 0) + int(point.get("asInt", 0))
    return totals


def test_metrics_that_stay_keep_their_totals(tmp_path):
    with running(start(tmp_path)) as gateway:
        send(gateway)
        wait_for(lambda: total(gateway, "mine_all_total") > 0, "the first request counted")
        once, user = total(gateway, "mine_all_total"), total(gateway, "samples_user_count_total")
        (tmp_path / "mine.rules").write_text(RULES.format(name="all") + 'counter mine.more { describe "d" unit "1" '
                                             'on "samples/count" value events }\n')
        assert reload(gateway) == (200, "reloaded\n")
        wait_for(lambda: rules_taken(gateway) == 1, "new rules in force")
        send(gateway)
        wait_for(lambda: total(gateway, "mine_more_total") == once, "the new metric counted")
        assert total(gateway, "mine_all_total") == 2 * once
        assert total(gateway, "samples_user_count_total") == 2 * user
        assert gateway.stop() == 0


def test_what_is_bad_changes_nothing(tmp_path):
    with running(start(tmp_path)) as gateway:
        (tmp_path / "mine.rules").write_text("rules 1\npack mine\nnonsense\n")
        status, text = reload(gateway)
        assert status == 400 and "the rules have 1 error" in text
        assert "mine.rules:3:1" in gateway.log()
        assert reload(gateway, {"Origin": "http://somewhere.example"})[0] == 403
        send(gateway)
        wait_for(lambda: total(gateway, "mine_all_total") > 0, "the old rules in force")
        assert gateway.stop() == 0


def outcome(gateway):
    series = gateway.metrics("self")
    return tuple(series[(f"profgate_config_last_reload_{name}", frozenset())]
                 for name in ("successful", "success_timestamp_seconds"))


def test_a_reload_is_all_or_nothing(tmp_path):
    """Whatever is bad, what is good beside it is not taken either: the rules, the tokens, the level of the log."""
    tokens = tmp_path / "tokens"
    tokens.write_text("alpha\n")
    (tmp_path / "mine.rules").write_text(RULES.format(name="all"))
    config = tmp_path / "profgate.yaml"
    good = (f"rules: {{ files: [{tmp_path}/mine.rules] }}\nadmin: {{ endpoint: '127.0.0.1:0' }}\n"
            f"receivers: {{ otlp: [{{ endpoint: '127.0.0.1:0', auth: {{ bearer_tokens_file: {tokens} }} }}] }}\n")
    config.write_text(good)

    def taken(gateway):
        """Which of the two tokens is taken, and which of the two metrics is counted."""
        token = [t for t in ("alpha", "beta") if gateway.post(BODY, {"Authorization": f"Bearer {t}"})[0] == 200]
        wait_for(lambda: any(total(gateway, f"mine_{name}_total") > 0 for name in ("all", "new")), "counts")
        return token, total(gateway, "mine_new_total") > 0

    with running(Gateway("--config", config, listen=0)) as gateway:
        began = outcome(gateway)
        assert began[0] == 1 and began[1] > 1.7e9
        assert taken(gateway) == (["alpha"], False)
        for name, bad in [("configuration", (config, good + "profiles: { keep: much }\n", good)),
                          ("rules", (tmp_path / "mine.rules", "nonsense", RULES.format(name="new"))),
                          ("credentials", (tokens, "two tokens at once\n", "beta\n"))]:
            tokens.write_text("beta\n")
            (tmp_path / "mine.rules").write_text(RULES.format(name="new"))
            path, text, after = bad
            path.write_text(text)
            assert reload(gateway)[0] == 400
            assert f'reload refused part="{name}"' in gateway.log()
            assert taken(gateway) == (["alpha"], False), name
            assert outcome(gateway) == (0, began[1])
            path.write_text(after)
        assert reload(gateway) == (200, "reloaded\n")
        wait_for(lambda: rules_taken(gateway) == 1, "new rules in force")
        wait_for(lambda: taken(gateway) == (["beta"], True), "all of it")
        assert outcome(gateway)[0] == 1 and outcome(gateway)[1] >= began[1]
        assert gateway.stop() == 0


def test_a_reload_during_a_reload_is_done_after_it(tmp_path):
    """However many are asked for while workers change over, the newest files count in the end."""
    with running(start(tmp_path)) as gateway:
        for name in ("all", "first", "second", "third"):
            # At once: the reload that follows another may read while this is written.
            (tmp_path / "new.rules").write_text(RULES.format(name=name))
            (tmp_path / "new.rules").replace(tmp_path / "mine.rules")
            status, text = reload(gateway)
            assert status in (200, 202), text
        def newest():
            send(gateway)
            return total(gateway, "mine_third_total") > 0
        wait_for(newest, "the newest rules")
        assert "refused" not in gateway.log()
        assert gateway.stop() == 0


def test_keys_that_need_a_restart_are_named(tmp_path):
    config = tmp_path / "profgate.yaml"
    config.write_text("profiles: { keep: 50% }\n")
    with running(Gateway("--config", config)) as gateway:
        config.write_text("profiles: { keep: 10% }\nlimits: { memory: 1GiB }\n")
        gateway.process.send_signal(signal.SIGHUP)
        wait_for(lambda: rules_taken(gateway) == 1, "the reload")
        log = gateway.log()
        assert 'key=limits.memory kept="the old value" error="it needs a restart"' in log
        assert "key=profiles.keep" not in log
        assert reload(gateway) == (200, "reloaded; these keys need a restart:\nlimits.memory\n")
        wait_for(lambda: rules_taken(gateway) == 2, "the end of it: during a reload another is put off")
        config.write_text("profiles: { keep: much }\n")
        assert reload(gateway)[0] == 400
        assert gateway.stop() == 0


def test_a_file_that_is_just_being_written_takes_nothing_away(tmp_path):
    """An editor or `>` has truncated it: that is no wish for the defaults, without the rules and limits that it names."""
    with running(start(tmp_path)) as gateway:
        file = pathlib.Path(gateway.folder.name) / "profgate.yaml"
        send(gateway)
        once = wait_for(lambda: total(gateway, "mine_all_total"), "the first request counted")
        file.write_text("")
        status, text = reload(gateway)
        assert status == 400 and f"{file}: empty" in text
        send(gateway)
        wait_for(lambda: total(gateway, "mine_all_total") == 2 * once, "the second one")
        assert gateway.stop() == 0


def test_a_pipe_is_not_waited_for(tmp_path):
    """Nobody writes into it a second time, and who reads it would serve nobody until somebody does."""
    with running(start(tmp_path)) as gateway:
        file = pathlib.Path(gateway.folder.name) / "profgate.yaml"
        file.unlink()
        os.mkfifo(file)
        assert reload(gateway) == (400, f"{file}: a pipe, which can be read once\n")
        send(gateway)
        wait_for(lambda: total(gateway, "mine_all_total"), "its rules at work")
        assert gateway.stop() == 0


def test_a_shorter_flush_interval_does_not_wait_for_the_longer_one(tmp_path):
    out = tmp_path / "out.json"
    config = "metrics: {{ flush_interval: {}, exporters: [file/x] }}\nexporters: {{ file/x: {{ path: " + str(out) + " }} }}\n"
    with running(Gateway(config=config.format("1h"), listen=1)) as gateway:
        send(gateway)
        file = pathlib.Path(gateway.folder.name) / "profgate.yaml"
        file.write_text(file.read_text().replace("1h", "200ms"))
        assert not out.exists() or out.stat().st_size == 0
        assert reload(gateway)[0] == 200
        wait_for(lambda: out.exists() and out.stat().st_size > 0, "the flush")


def test_nothing_is_lost_or_doubled(tmp_path):
    """Clients send without a pause while the rules change to and fro; every acknowledged sample is counted once, by
    exactly one of the metrics that take turns."""
    out = tmp_path / "out.jsonl"
    with running(start(tmp_path, "file/out", f"exporters: {{ file/out: {{ path: {out} }} }}\n")) as gateway:
        send(gateway)
        each = wait_for(lambda: total_of(out), "one request's worth")["mine.all"]
        stop, sent = threading.Event(), []

        def client():
            n = 0
            while not stop.is_set():
                send(gateway)
                n += 1
            sent.append(n)

        clients = [threading.Thread(target=client) for _ in range(3)]
        for thread in clients:
            thread.start()
        for i in range(20):
            (tmp_path / "mine.rules").write_text(RULES.format(name="even" if i % 2 else "odd"))
            wait_for(lambda: reload(gateway)[0] == 200, "a reload")
            wait_for(lambda: rules_taken(gateway) == i + 1, "new rules in force")
        stop.set()
        for thread in clients:
            thread.join()
        assert gateway.stop() == 0
    assert len(sent) == 3 and min(sent) > 20
    totals = total_of(out)
    mine = {name: value for name, value in totals.items() if name.startswith("mine.")}
    assert set(mine) == {"mine.all", "mine.odd", "mine.even"}
    assert sum(mine.values()) == each * (sum(sent) + 1)
    assert min(mine.values()) > 0


def holds_or_hears(pid, number):
    """Whether a signal would not end a process: it is blocked, or caught."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return any(int(re.search(rf"{mask}:\s+(\w+)", status).group(1), 16) >> (number - 1) & 1 for mask in ("SigBlk", "SigCgt"))


def test_a_hangup_that_comes_early_or_late_ends_nothing():
    """A supervisor or a reloader may send it at any time; once the program is there it is heard, and at the end it waits."""
    for _ in range(3):
        process = subprocess.Popen([BUILD / "profgate", "serve", "--listen", "127.0.0.1:0", "--set", "admin.endpoint=127.0.0.1:0"],
                                   stderr=subprocess.DEVNULL)
        wait_for(lambda: holds_or_hears(process.pid, signal.SIGHUP), "the program's beginning")
        for _ in range(20):
            process.send_signal(signal.SIGHUP)
            time.sleep(0.01)
        assert process.poll() is None
        wait_for(lambda: holds_or_hears(process.pid, signal.SIGTERM), "the program's beginning to hear of its end")
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:
            process.send_signal(signal.SIGHUP)
            time.sleep(0.001)
        assert process.returncode == 0
