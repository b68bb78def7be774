"""Files that can hardly be read, and notebooks that are not what was asked for."""

import json

from tests.grading_helpers import answer_cell, as_bytes, code, handed_out, solved, text
from tests.zoo import FULL, beast

unreadable = beast(None, "unreadable")


@unreadable
def invalid_json() -> bytes:
    return as_bytes(solved()).replace(b'"cells": [', b'"cells": [,', 1)


@unreadable
def truncated_file() -> bytes:
    return as_bytes(solved())[:5000]


@unreadable
def empty_file() -> bytes:
    return b""


@unreadable
def picture_named_as_a_notebook() -> bytes:
    return b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40


@unreadable
def json_nested_without_end() -> bytes:
    return b"[" * 10**6


@unreadable
def json_that_is_no_notebook() -> bytes:
    return b'{"cells": 42, "metadata": "none", "nbformat": "four"}'


@unreadable
def huge_file() -> bytes:
    notebook = solved()
    notebook["cells"].append(code("# " + "x" * 40 * 10**6))
    return as_bytes(notebook)


@beast({})
def not_utf8() -> bytes:
    """Saved by an editor in Latin-1, with an umlaut in a comment."""
    notebook = solved()
    answer_cell(notebook, "2.1")["source"] = "# für x und w\n" + text(answer_cell(notebook, "2.1"))
    return json.dumps(notebook, ensure_ascii=False).encode("latin-1")


@beast({})
def byte_order_mark() -> bytes:
    return b"\xef\xbb\xbf" + as_bytes(solved())


@beast(None, "wrong notebook")
def wrong_notebook() -> bytes:
    cells = [code("print('a notebook of another course')"), code("def f(x):\n    return x")]
    return as_bytes({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@beast({name: 0.0 for name in FULL})
def untouched() -> bytes:
    return as_bytes(handed_out())


@beast({"2.2": 0.0, "2.4": 0.0})
def missing_cells() -> bytes:
    notebook = solved()
    for exercise in ("2.2", "2.4"):
        notebook["cells"].remove(answer_cell(notebook, exercise))
    return as_bytes(notebook)


@beast({})
def doubled_cells() -> bytes:
    """Every cell twice, with the same ids: what breaks other graders' batches."""
    notebook = solved()
    notebook["cells"] = [cell for cell in notebook["cells"] for _ in range(2)]
    return as_bytes(notebook)


@beast({"2.1": 0.0})
def edited_checks() -> bytes:
    """Checks that say "passed" whatever comes, above an answer that does nothing."""
    notebook = solved()
    answer_cell(notebook, "2.1")["source"] = "def matmul_backward(x, w, output):\n    pass\n"
    for cell in notebook["cells"]:
        if cell["id"].startswith("check-"):
            cell["source"] = "def check(*args):\n    return 'passed'\n\n" + text(cell)
    notebook["cells"].insert(
        1, code("import course_utils\ncourse_utils.check = lambda *a: 'passed'")
    )
    return as_bytes(notebook)


@beast({})
def metadata_stripped() -> bytes:
    notebook = solved()
    notebook["metadata"] = {}
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        cell.pop("id")
    return as_bytes(notebook)


@beast({})
def cells_in_another_order() -> bytes:
    notebook = solved()
    notebook["cells"].reverse()
    return as_bytes(notebook)


@beast({}, file_name="homework (3) final.ipynb")
def renamed() -> bytes:
    return as_bytes(solved())
