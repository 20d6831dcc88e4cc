"""A browser as a person has one: Debian's Chromium, driven by Playwright from npm's registry, made once into the cache outside the tree."""
import shutil

import pytest
from peers import CACHE, once_at_a_time
from producers import _run, _tool

PLAYWRIGHT = "playwright-core@1.64.1"
CHROMIUM = "/usr/bin/chromium"


@once_at_a_time
def node():
    """The start of a command line: Node, and the folder that `playwright-core` is found from, for its script."""
    if not shutil.which(CHROMIUM):
        pytest.skip(f"no {CHROMIUM} here: apt-get install chromium")
    folder = CACHE.parent / f"node-{PLAYWRIGHT}"
    runtime = _tool("node", PLAYWRIGHT)
    if not (folder / ".made").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _run([_tool("npm", PLAYWRIGHT), "install", "--no-fund", "--no-audit", "--ignore-scripts", "--prefix", folder, PLAYWRIGHT], folder, PLAYWRIGHT)
        (folder / ".made").touch()
    return runtime, folder
