"""Pictures for docs/results, by a headless Chromium: the site's front page, Optuna's dashboard of a private study."""

import argparse
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, make_server

DOCS = Path(__file__).resolve().parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZE = "1280,900"


class _Silent(WSGIRequestHandler):
    def log_message(self, format, *arguments):
        del format, arguments


def browser() -> str | None:
    """Where Chromium is."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def shown(url: str, *options: str) -> str:
    """What Chromium prints of a page, once its scripts have run."""
    found = browser()
    if found is None:
        raise FileNotFoundError("Chromium is needed: apt-get install --no-install-recommends chromium")
    with tempfile.TemporaryDirectory() as profile:
        command = [
            found, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}",
            f"--window-size={SIZE}", "--virtual-time-budget=20000", *options, url,
        ]  # fmt: skip
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


class dashboard:
    """Optuna's dashboard of a storage, at a port of this machine; a context that gives its address."""

    def __init__(self, storage):
        import optuna_dashboard

        self.server = make_server("127.0.0.1", 0, optuna_dashboard.wsgi(storage), handler_class=_Silent)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_port}"

    def __exit__(self, *error):
        self.server.shutdown()
        self.server.server_close()


def private_storage():
    """A study of noised values, in memory."""
    import numpy as np
    import optuna

    from jaxdpbo.integrations.optuna import GPUCBSampler, private_study

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.InMemoryStorage()
    study = optuna.create_study(storage=storage, study_name="private", sampler=GPUCBSampler(seed=0))
    records = np.random.default_rng(0).normal(0.3, 0.1, size=20_000)

    private_study(
        study,
        lambda trial: {name: trial.suggest_float(name, 0, 1) for name in "xy"},
        lambda params, records: np.minimum(np.abs(records - params["x"]) + params["y"] / 4, 1),
        records,
        users=len(records),
        evaluations=20,
        loss_range=(0, 1),
        epsilon=1,
        delta=1e-5,
    ).optimize()
    return storage


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/screenshots", description=__doc__)
    parser.add_argument("--site", type=Path, default=DOCS.parent / "results" / "site")
    arguments = parser.parse_args()
    pictures = DOCS / "results"
    shown((arguments.site / "index.html").as_uri(), f"--screenshot={pictures / 'site.png'}")
    with dashboard(private_storage()) as address:
        shown(f"{address}/dashboard/studies/0", f"--screenshot={pictures / 'dashboard.png'}")
    print(f"wrote {pictures / 'site.png'}\nwrote {pictures / 'dashboard.png'}", file=sys.stderr)


if __name__ == "__main__":
    main()
