"""A JupyterLab for the tests: its own folder, settings and record, nothing of the user's."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from course_utils.cli import ROOT
from course_utils.cli.lab import QUIET
from course_utils.cli.test import ONE_THREAD

START_SECONDS = 60
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},  # all cells are on the page
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}


@contextmanager
def jupyter_lab(folder: Path, notebooks: list[Path]) -> Iterator[str]:
    """A server with copies of these notebooks in folder/work; yields its host, 127.0.0.1:PORT."""
    work = folder / "work"
    work.mkdir(parents=True)
    for notebook in notebooks:
        shutil.copy(notebook, work / f"{notebook.parent.name}-{notebook.name}")
    for name, values in SETTINGS.items():
        place = folder / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(values))
    host = f"127.0.0.1:{free_port()}"
    options = (
        *QUIET,
        "--allow-root",
        "--no-browser",
        "--expose-app-in-browser",
        f"--port={host.partition(':')[2]}",
        "--ServerApp.port_retries=0",
        "--IdentityProvider.token=",
        f"--ServerApp.root_dir={work}",
    )
    with open(folder / "server.log", "w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options],
            env=environment(folder),
            stdout=log,
            stderr=log,
        )
        try:
            wait_for(f"http://{host}/api/status", server)
            yield host
        finally:
            server.terminate()  # it ends its kernels, then itself
            try:
                server.wait(15)
            except subprocess.TimeoutExpired:
                server.kill()


def environment(folder: Path) -> dict[str, str]:
    """A student's, with places of its own for all that Jupyter and the course keep."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("COURSE_STRICT", "COURSE_STATIC", "COURSE_SITE", "NBGRADER_EXECUTION")
    }
    own = {
        "COURSE_STATE": folder / "state",
        "IPYTHONDIR": folder / "ipython",
        "JUPYTERLAB_SETTINGS_DIR": folder / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": folder / "workspaces",
        "JUPYTER_CONFIG_DIR": folder / "config",
        "JUPYTER_CONFIG_PATH": ROOT / "course_utils" / "cli" / "jupyter",
        "JUPYTER_RUNTIME_DIR": folder / "runtime",
        "JUPYTER_PREFER_ENV_PATH": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }
    return kept | ONE_THREAD | {name: str(value) for name, value in own.items()}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(address: str, server: subprocess.Popen) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        assert server.poll() is None, "JupyterLab ended at once"
        with suppress(OSError), urllib.request.urlopen(address, timeout=5):
            return
        time.sleep(0.2)
    raise AssertionError(f"JupyterLab was not up within {START_SECONDS} s")


READY = """(name) => {
  const shown = globalThis.jupyterapp?.shell.currentWidget;
  const kernel = shown?.sessionContext?.session?.kernel;
  return shown?.context?.path === name && kernel?.connectionStatus === 'connected' && kernel.status === 'idle';
}"""
CLOSE_ALL = """async () => {
  for (const shown of [...globalThis.jupyterapp?.shell.widgets('main') ?? []]) shown.dispose();
  await globalThis.jupyterapp?.serviceManager.sessions.shutdownAll();
}"""


class Notebook:
    """A notebook in JupyterLab, seen through a browser's page."""

    def __init__(self, page, host: str, name: str):
        self.page, self.host, self.name = page, host, name

    def open(self) -> None:
        """By its address; where JupyterLab is there already, as its list of files does."""
        if self.page.url.startswith(f"http://{self.host}/lab"):
            self.command("docmanager:open", path=self.name)
        else:
            self.page.goto(f"http://{self.host}/lab/tree/{self.name}?reset")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        self.page.wait_for_function(READY, arg=self.name, timeout=60_000)

    def run(self) -> None:
        """Run all cells, and wait for the last one to end."""
        self.command("notebook:run-all-cells")

    def command(self, name: str, **arguments) -> None:
        call = "async ([name, args]) => { await jupyterapp.commands.execute(name, args); }"
        self.page.evaluate(call, [name, arguments])

    @property
    def theme(self) -> str:
        return self.page.get_attribute("body", "data-jp-theme-name")

    def wear(self, theme: str) -> None:
        self.command("apputils:change-theme", theme=theme)
        self.page.wait_for_selector(f"body[data-jp-theme-name='{theme}']", state="attached")

    def saved(self) -> dict:
        """The notebook as its file holds it, after saving."""
        self.command("docmanager:save")
        return self.page.evaluate(
            "name => fetch(`/api/contents/${name}`).then(reply => reply.json()).then(file => file.content)",
            self.name,
        )

    def errors(self) -> list[str]:
        """The text of outputs that are errors."""
        kind = '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.error"]'
        return [each.inner_text()[-400:] for each in self.page.query_selector_all(kind)]

    def unrun(self) -> int:
        """How many code cells with text have no number: they were not run."""
        return self.page.evaluate(
            "[...document.querySelectorAll('.jp-CodeCell')].filter(cell => !/\\d/.test("
            "cell.querySelector('.jp-InputPrompt').textContent)"
            " && cell.querySelector('.cm-content').textContent.trim()).length"
        )


def close_all(page) -> None:
    """Close all notebooks, unsaved or not, and give back the memory that their kernels hold."""
    page.evaluate(CLOSE_ALL)
