"""Triggers of the rules in a running gateway: shown, logged, and `do keep all` honoured for as long as they fire."""
import json

from programs import Gateway, captures, parse_prometheus, running, wait_for
from test_forward import config, sink  # noqa: F401 (sink is a fixture)

BODY = captures("ebpf-go*.pb")[0].read_bytes()
RULES = """rules 1
pack mine
counter mine.all { describe "All samples" unit "1" on "samples/count" value events }
trigger busy {
    describe "it is busy"
    when rate of mine.all over 1s above 5
    until below 1
    do keep all
    lasting 1m  cooldown %s
}
test "t" { stack go "x" expect mine.all }
"""


def self_metrics(gateway):
    return {(name, dict(labels).get("group")): value
            for (name, labels), value in parse_prometheus(gateway.get("/metrics?collect[]=self")).items()
            if dict(labels).get("trigger") == "busy"}


def trigger(gateway):
    found = [t for t in json.loads(gateway.get("/api/v1/triggers"))["triggers"] if t["name"] == "busy"]
    assert len(found) == 1
    return found[0]


def test_a_trigger_fires_keeps_all_and_ends(sink, tmp_path):
    (tmp_path / "mine.rules").write_text(RULES % "1s")
    rules = f"rules: {{ files: [{tmp_path}/mine.rules] }}\n"
    with running(Gateway(config=rules + config(sink, "0%"))) as gateway:
        assert trigger(gateway)["firing"] == [] and trigger(gateway)["describe"] == "it is busy"
        assert gateway.post(BODY)[0] == 200
        assert gateway.total("profgate_forward_samples_total") == 0

        def fires():
            assert gateway.post(BODY)[0] == 200
            return trigger(gateway)["firing"]
        wait_for(fires, "the trigger to fire")
        firing = trigger(gateway)["firing"][0]
        assert firing["group"] == {} and firing["value"] > 5 and firing["capturing"]
        shown = self_metrics(gateway)
        assert shown[("profgate_trigger_active", "")] == 1 and shown[("profgate_trigger_fired_total", None)] >= 1
        assert "trigger fired name=busy" in gateway.log()

        def arrives():
            assert gateway.post(BODY)[0] == 200
            return sink.bodies
        wait_for(arrives, "what is captured downstream")
        wait_for(lambda: not trigger(gateway)["firing"], "the trigger to end")
        assert "trigger ended name=busy" in gateway.log()
        assert ("profgate_trigger_active", "") not in self_metrics(gateway)

        def nothing_leaves():
            before = gateway.total("profgate_forward_samples_total")
            assert gateway.post(BODY)[0] == 200
            return gateway.total("profgate_forward_samples_total") == before
        wait_for(nothing_leaves, "captures to end")


def test_new_rules_begin_anew_and_totals_stay(sink, tmp_path):
    (tmp_path / "mine.rules").write_text(RULES % "1s")
    rules = f"rules: {{ files: [{tmp_path}/mine.rules] }}\n"
    with running(Gateway(config=rules + config(sink, "0%"))) as gateway:
        def fires():
            assert gateway.post(BODY)[0] == 200
            return trigger(gateway)["firing"]
        wait_for(fires, "the trigger to fire")
        fired, counted = trigger(gateway)["fired"], gateway.total("mine_all_total")
        (tmp_path / "mine.rules").write_text((RULES % "1h").replace("it is busy", "said better"))
        gateway.process.send_signal(1)
        wait_for(lambda: trigger(gateway)["describe"] == "said better", "the new rules")
        assert trigger(gateway)["fired"] == fired
        assert 'reason="no longer evaluated"' in gateway.log()
        wait_for(lambda: gateway.total("mine_all_total") >= counted > 0, "totals as before")
        wait_for(fires, "the new trigger to fire")
        assert trigger(gateway)["fired"] == fired + 1
