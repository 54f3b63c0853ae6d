"""docs/upstream_tests.md is what tools/upstream_page.py makes of the counts and of the list of reasons."""

import importlib.util
import json
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "upstream_page.py"
spec = importlib.util.spec_from_file_location("upstream_page", TOOL)
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


def test_page_is_up_to_date():
    kept = json.loads(tool.COUNTS.read_text())
    assert tool.PAGE.read_text() == tool.page(kept["files"], kept["note"])


def test_each_test_has_one_reason_and_the_list_is_short():
    tests = [test for tests in json.loads(tool.SKIPS.read_text()).values() for test in tests]
    assert len(tests) == len(set(tests)) < 500


def test_counts_of_a_run(tmp_path):
    (tmp_path / "logs").mkdir()
    outcomes = {
        "TestA.test_x_float32": "pass",
        "TestA.test_x_bfloat16": "xfail",
        "TestA.test_y_int64": "fail",
        "TestViewOps.test_view_as_real_complex32": "error",
        "TestA.test_z": "skip",
    }
    lines = [json.dumps({"id": name, "o": outcome, "t": 0}) for name, outcome in outcomes.items()]
    (tmp_path / "logs" / "nn__test_a.py.0.part").write_text("\n".join(lines))
    assert tool.count([tmp_path]) == {
        "nn/test_a.py": {
            "executed": 4,
            "passed": 2,
            "listed": 1,
            "crashed": 0,
            "skipped": 1,
            "open": ["TestA.test_y"],
        }
    }
