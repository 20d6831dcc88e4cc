"""What the real connector answered for a captured request (tests/data/connector/NAME.default.json)."""
import collections
import json

from programs import DATA


def totals(name, configuration="default"):
    """{(metric, frozenset of attributes)): number}, added up over resources."""
    recorded = json.loads((DATA / "connector" / f"{name}.{configuration}.json").read_text())
    found = collections.Counter()
    for resource in recorded["resourceMetrics"]:
        for scope in resource["scopeMetrics"]:
            for metric in scope["metrics"]:
                for point in metric.get("sum", metric.get("gauge"))["dataPoints"]:
                    attributes = frozenset((a["key"], a["value"]["stringValue"]) for a in point.get("attributes", []))
                    found[metric["name"], attributes] += int(point["asInt"])
    return found


def all_totals(names):
    found = collections.Counter()
    for name in names:
        found.update(totals(name))
    return found


def prometheus_name(metric):
    return metric.replace(".", "_") + "_total"
