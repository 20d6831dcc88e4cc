"""Wire layouts for longer than a unit test may take, and over the wire."""
import os
import subprocess

import pytest
from programs import BUILD


@pytest.mark.soak
def test_of_a_hundred_thousand_mutants_none_has_a_wrong_number():
    test = BUILD / "tests" / "unit_proto_otlp_layouts_test_mutants"
    if not test.exists():
        pytest.skip(f"{test} is not built")
    done = subprocess.run([test], env={**os.environ, "PG_MUTANTS": "100000", "CK_FORK": "no"}, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
