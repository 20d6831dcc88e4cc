"""A load in Python: JSON, sorting, regular expressions, recursion."""
import json
import re


def build(depth, width):
    return {"name": f"item {depth}", "parts": [build(depth - 1, width) for _ in range(width)] if depth else []}


def names(item):
    return [item["name"]] + [name for part in item["parts"] for name in names(part)]


while True:
    back = json.loads(json.dumps(build(5, 3)))
    found = sorted(names(back), key=lambda name: re.sub(r"\d+", lambda m: str(9 - int(m[0])), name))
