"""Checks running servers with the published package's `openenv validate --url`, and
their openapi.json with a validator of the specification.

    python check.py http://127.0.0.1:8000 http://127.0.0.1:8001

prints one line of JSON for each: {"url": …, "exit_code": n, "output": …, "openapi": error
or null}. The command is run in this process: it takes seconds to load.
"""

import json
import sys
import urllib.request

from openapi_spec_validator import validate
from openenv.cli.__main__ import app
from typer.testing import CliRunner


def openapi_error(url):
    with urllib.request.urlopen(f"{url}/openapi.json", timeout=10) as response:
        document = json.load(response)
    try:
        validate(document)
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return None if document["openapi"].startswith("3.1") else document["openapi"]


def main():
    for url in sys.argv[1:]:
        result = CliRunner().invoke(app, ["validate", "--url", url])
        line = {
            "url": url,
            "exit_code": result.exit_code,
            "output": result.output,
            "openapi": openapi_error(url),
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
