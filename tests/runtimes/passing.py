# SPDX-License-Identifier: Apache-2.0
"""Functions that are made of text, run for 20 ms and thrown away, each with a name of its own; says when each has begun."""
import time

number = 0
while True:
    number += 1
    names = {"now": time.perf_counter}
    exec(f"""def passing_{number:07}(until):
    x = {number}
    while now() < until:
        for i in range(2000):
            x = (x * 31 + i) % 1000003
""", names)
    print(number, time.time_ns(), flush=True)
    names[f"passing_{number:07}"](time.perf_counter() + 0.02)
    names.clear()
