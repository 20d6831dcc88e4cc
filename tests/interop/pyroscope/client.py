"""pyroscope-io pushes what it profiles of this process: client.py URL SECONDS."""
import sys
import time

import pyroscope

pyroscope.configure(application_name="python.sdk", server_address=sys.argv[1], sample_rate=100, tags={"region": "eu"})


def burn(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


with pyroscope.tag_wrapper({"endpoint": "a"}):
    burn(float(sys.argv[2]))
pyroscope.shutdown()
