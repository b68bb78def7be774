"""Listens to a page: its errors, and every host that it asks for anything."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Heard:
    """What a page said on its console, and which other hosts it asked."""

    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)


def listen(page, own_host: str) -> Heard:
    """Begin to listen. own_host: as in an address, 127.0.0.1:8888."""
    heard = Heard()

    def asked(address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("data", "blob", "file", "about") and parts.netloc != own_host:
            heard.strangers.append(address)

    def said(message) -> None:
        if message.type == "error":
            heard.errors.append(message.text)

    page.on("console", said)
    page.on("pageerror", lambda error: heard.errors.append(str(error)))
    page.on("request", lambda request: asked(request.url))
    page.on("websocket", lambda socket: asked(socket.url))
    return heard


def faults(page, selector: str | None = None) -> list[str]:
    """What axe-core finds that is serious or critical, in the page or in what a selector names."""
    from axe_playwright_python.sync_playwright import Axe

    context = {"include": [[selector]]} if selector else None
    options = {"resultTypes": ["violations"]}
    found = Axe().run(page, context=context, options=options).response["violations"]
    return [
        f"{each['id']}: {node['html'][:150]} ({node['failureSummary'][:200]})"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
