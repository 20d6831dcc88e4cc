"""What the real connector answered for a captured request (tests/data/connector/NAME.default.json)."""
import collections
import json

from programs import DATA


def add_up(requests):
    """{(metric, frozenset of attributes): number} of the connector's metrics in OTLP/JSON metrics requests, whoever made
    them, added up over requests and resources."""
    found = collections.Counter()
    for request in requests:
        for resource in request["resourceMetrics"]:
            for scope in resource["scopeMetrics"]:
                for metric in scope["metrics"]:
                    if not metric["name"].startswith("samples."):
                        continue
                    for point in metric.get("sum", metric.get("gauge"))["dataPoints"]:
                        attributes = frozenset((a["key"], a["value"]["stringValue"]) for a in point.get("attributes", []))
                        found[metric["name"], attributes] += int(point["asInt"])
    return found


def all_totals(names, configuration="default"):
    """What the connector answered for these captures, added up."""
    return add_up(json.loads((DATA / "connector" / f"{name}.{configuration}.json").read_text()) for name in names)


def prometheus_name(metric):
    return metric.replace(".", "_") + "_total"
