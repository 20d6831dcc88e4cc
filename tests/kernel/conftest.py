"""The tests of this folder use the helpers of those in tests/e2e."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
