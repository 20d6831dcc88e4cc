"""The sum over all series, overflow included, is what was accepted: at any cardinality, number of workers, flush interval,
while rules change to and fro. (Clock steps: tests/unit/gateway/aggregate, where the clock is an argument.)"""
import random
import threading

import pytest
from programs import Gateway, captures, json_lines, running, wait_for
from test_reload import reload, rules_taken

BODIES = [path.read_bytes() for path in captures("ebpf-*.pb")]
# Labels that make few, some and very many series of one sample; each metric counts every sample once.
RULES = """rules 1
pack stress
counter stress.all      {{ unit "1" on "samples/count" value one }}
counter stress.type     {{ unit "1" on "samples/count" value one  label t = type of leaf }}
counter stress.function {{ unit "1" on "samples/count" value one  label f = function of leaf  label r = function of root {limit} }}
counter stress.{name}   {{ unit "1" on "samples/count" value one  label t = sample["thread.name"]  limit 3 }}
"""
METRICS = ["stress.all", "stress.type", "stress.function"]


def config(folder, r):
    """Two files, delta and cumulative, of any number of workers, interval and limit."""
    text = (f"rules: {{ builtin: none, files: [{folder}/mine.rules] }}\n"
            f"service: {{ workers: {r.choice([1, 2, 3, 5])} }}\n"
            f"metrics: {{ flush_interval: {r.choice(['100ms', '300ms', '1s', '30s'])}, cardinality_limit: {r.choice([1, 7, 60, 100000])}, "
            f"metric_expiration: {r.choice(['0s', '500ms', '5m'])}, exporters: [file/delta, file/cumulative, prometheus] }}\n"
            f"exporters:\n  file/delta: {{ path: {folder}/delta.jsonl }}\n"
            f"  file/cumulative: {{ path: {folder}/cumulative.jsonl, temporality: cumulative }}\n")
    return text


def write_rules(folder, r, i):
    limit = r.choice(["", "limit 1", "limit 20", "limit 5 largest", "limit 40 largest"])
    (folder / "mine.rules").write_text(RULES.format(limit=limit, name="even" if i % 2 else "odd"))


def streams(path):
    """{(resource, metric, labels, start): its last value}, of deltas their sum; and that each one's times ascend."""
    found, last = {}, {}
    for request in json_lines(path):
        for resource in request["resourceMetrics"]:
            who = str(sorted(resource.get("resource", {}).get("attributes", []), key=str))
            for metric in (m for scope in resource["scopeMetrics"] for m in scope["metrics"]):
                delta = metric["sum"]["aggregationTemporality"] in (1, "AGGREGATION_TEMPORALITY_DELTA")
                for point in metric["sum"]["dataPoints"]:
                    start, time = int(point["startTimeUnixNano"]), int(point["timeUnixNano"])
                    one = (who, metric["name"], str(sorted(point.get("attributes", []), key=str)))
                    assert start < time
                    assert last.get(one, 0) <= start if delta else last.get(one, 0) < time, one
                    last[one] = time
                    if int(point.get("flags", 0)) & 1:  # no recorded value: the stream ends
                        continue
                    key = (*one, 0 if delta else start)
                    value = int(point["asInt"])
                    assert delta or found.get(key, 0) <= value, key
                    found[key] = found.get(key, 0) + value if delta else value
    return found


def total(found, names):
    return sum(value for key, value in found.items() if key[1] in names)


@pytest.mark.parametrize("seed", range(4))
def test_the_sum_over_all_series_is_what_was_accepted(tmp_path, seed):
    r = random.Random(f"stress {seed}")
    write_rules(tmp_path, r, 0)
    accepted, lock, stop = [0], threading.Lock(), threading.Event()
    with running(Gateway(config=config(tmp_path, r), listen=1)) as gateway:
        def client(number):
            mine, n = random.Random(f"client {seed} {number}"), 0
            while not stop.is_set():
                n += gateway.post(mine.choice(BODIES))[0] == 200
            with lock:
                accepted[0] += n

        clients = [threading.Thread(target=client, args=(i,)) for i in range(4)]
        for thread in clients:
            thread.start()
        for i in range(1, 8):
            write_rules(tmp_path, r, i)
            wait_for(lambda: reload(gateway)[0] == 200, "a reload")
            wait_for(lambda: rules_taken(gateway) == i, "new rules in force")
        stop.set()
        for thread in clients:
            thread.join()
        samples = int(gateway.total("profgate_samples_total"))
        assert gateway.stop() == 0
    assert accepted[0] > 20 and samples > 0
    for name in ("delta", "cumulative"):
        found = streams(tmp_path / f"{name}.jsonl")
        for metric in METRICS:
            assert total(found, [metric]) == samples, (name, metric)
        assert total(found, ["stress.even", "stress.odd"]) == samples, name
