"""A process that takes a command a line, so that two libraries are timed interleaved, neither imported
beside the other, and a cold process is a cold process.
"""

import json
import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

MISSING = "not installed"
LIMIT = 900.0  # seconds for one answer: a process that hangs must not hang the benchmark


class Worker:
    """``python -m MODULE`` in a process of its own; ``worker(name, **arguments)`` calls one of its functions.

    ``folder``: of another checkout, whose module it is then. JAX is in float64 unless the environment says otherwise.
    """

    def __init__(self, module: str, folder: Path | None = None, **environment: str):
        here = ["benchmarks.speed.worker"] if folder is None else []  # another checkout's may be older
        self._process = subprocess.Popen(
            [sys.executable, "-m", *here, module],
            env={"JAX_ENABLE_X64": "1"} | os.environ | environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._read() == "imported"

    def __call__(self, name: str, **arguments: Any) -> Any:
        assert self._process.stdin
        self._process.stdin.write(json.dumps([name, arguments]) + "\n")
        self._process.stdin.flush()
        return self._read()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: Any) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()

    def _read(self) -> Any:
        assert self._process.stdout
        alarm = threading.Timer(LIMIT, self._process.kill)
        alarm.start()
        line = self._process.stdout.readline()
        alarm.cancel()
        if not line:
            raise RuntimeError(f"a worker ended with status {self._process.wait()}")
        answer = json.loads(line)
        if isinstance(answer, dict) and list(answer) == [MISSING]:
            raise ModuleNotFoundError(f"a worker needs {answer[MISSING]}", name=answer[MISSING])
        return answer


def run_module(module: str) -> None:
    """Import and serve a worker's module; answer with the name of a peer that is not installed."""
    answers = sys.stdout
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except ModuleNotFoundError as error:
        print(json.dumps({MISSING: error.name}), file=answers)


def serve(*functions: Callable[..., Any], version: str | None = None) -> None:
    """The worker's side: answer on what was standard output; anything else printed goes to standard error.

    ``version``: of the peer, or else of JAX.
    """
    answers, sys.stdout = sys.stdout, sys.stderr
    named = {function.__name__: function for function in functions}
    named["version"] = _jax_version if version is None else lambda: version
    print(json.dumps("imported"), file=answers, flush=True)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        print(json.dumps(named[name](**arguments)), file=answers, flush=True)


def _jax_version() -> str:
    import jax

    return f"jax {jax.__version__}, {jax.local_device_count()} device(s)"


if __name__ == "__main__":
    run_module(sys.argv[1])
