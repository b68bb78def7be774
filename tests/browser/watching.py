"""Listens to a page: its errors, and every host that it asks for anything; and what shuts somebody out."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

# Text is legible, or not, as any other text is that looks the same upon the same. Contrast takes axe-core most
# of its time, so it is asked about one element of each look, its parents' included.
FIRST_OF_EACH_LOOK = """(within) => {
  const looks = new Map([[null, ""]]), seen = new Set();
  const own = (style) => ["color", "fill", "stroke", "backgroundColor", "backgroundImage", "opacity", "filter",
    "fontSize", "fontWeight", "textShadow", "visibility"].map((name) => style[name]).join();
  const look = (node) => {
    if (!looks.has(node)) looks.set(node, look(node.parentElement) + "|" + own(getComputedStyle(node)));
    return looks.get(node);
  };
  for (const old of document.querySelectorAll("[data-first-look]")) old.removeAttribute("data-first-look");
  for (const part of document.querySelectorAll(within)) for (const node of [part, ...part.querySelectorAll("*")]) {
    const hasText = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!(hasText || node.matches("input, select")) || !node.checkVisibility() || seen.has(look(node))) continue;
    seen.add(look(node));
    node.setAttribute("data-first-look", "");
  }
  return seen.size;
}"""


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


def faults(page, selector: str = "body") -> list[str]:
    """What axe-core finds, however minor, in the page or in what a selector names."""
    from axe_playwright_python.base import AXE_SCRIPT
    from axe_playwright_python.sync_playwright import Axe

    assert page.evaluate(FIRST_OF_EACH_LOOK, selector) > 3
    rule = "axe.configure({rules: [{id: 'color-contrast', selector: '[data-first-look]'}]});"
    context = {"include": [[selector]]} if selector != "body" else None
    options = {"resultTypes": ["violations"]}
    axe = Axe(f"{AXE_SCRIPT}\n{rule}")
    found = axe.run(page, context=context, options=options).response["violations"]
    return [
        f"{each['id']}: {node['html'][:150]} ({node['failureSummary'][:200]})"
        for each in found
        for node in each["nodes"]
    ]
