"""Whatever the OpenAPI document allows and forbids: never a 5xx, never the end of the server."""

import os
import pathlib
import subprocess
import sys

from conftest import TINY, serve


def test_no_answer_is_a_server_error(tmp_path):
    examples = os.environ.get("SCHEMATHESIS_EXAMPLES", "20")
    with serve(TINY, "--request-timeout", "5") as server:
        result = subprocess.run(
            [pathlib.Path(sys.executable).with_name("schemathesis"), "run",
             server.url + "/openapi.json", "--checks", "not_a_server_error", "--max-examples",
             examples, "--seed", "7", "--request-timeout", "20", "--no-color",
             # A stream without an end: nothing that asks for whole answers gets one.
             "--exclude-path", "/quire/events"],
            capture_output=True, text=True, timeout=900, check=False, cwd=tmp_path)
        assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
        assert server.process.poll() is None
        assert server.get("/health") is not None
