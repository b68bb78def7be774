"""TeX as MathML, which browsers set and screen readers read by themselves, and a font to set it in.

Pages need no script for mathematics then, and print as they look. latex2mathml translates; what it gets
wrong of what the course writes is put right here. What is left untranslated is an error, never shown.
"""

import io
import re
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from course_utils.errors import CourseError

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
DELIMITERS = {"\\lceil": "⌈", "\\rceil": "⌉", "\\lfloor": "⌊", "\\rfloor": "⌋"}  # after \Big
ORDINARY = {"∞", "∂", "…"}  # symbols, no operators: they take no space
FUNCTIONS = {"cos", "exp", "log", "max", "min", "sin", "tanh"}
UNDER = {"max", "min"}  # in a displayed formula their index stands below
CLOSING = {")", "]", "⌉", "⌋", "⟩", "}", "′"}
THIN = "0.167em"

ElementTree.register_namespace("", NAMESPACE)


def to_mathml(tex: str, *, display: bool) -> str:
    """A formula as a <math> element. Raises CourseError for TeX that is not understood."""
    from latex2mathml.converter import convert

    upright = re.sub(r"\\mathrm\{([A-Za-z]+)\}", r"\\text{\1}", tex.strip())  # a word, not letters
    try:
        formula = ElementTree.fromstring(convert(upright, display="block" if display else "inline"))
    except Exception as error:  # it raises many kinds
        raise CourseError(f"this formula cannot be set: {tex.strip()} ({error})") from None
    for node in formula.iter():
        node.tag = node.tag.partition("}")[2]
    for node in formula.iter():
        _mend(node)
    for row in list(formula.iter()):
        _space(row)
    left = [node.text for node in formula.iter() if "\\" in (node.text or "")]
    if left or any(node.tag == "merror" for node in formula.iter()):
        raise CourseError(f"this formula cannot be set: {tex.strip()} (unknown: {', '.join(left)})")
    formula.set("xmlns", NAMESPACE)
    return ElementTree.tostring(formula, encoding="unicode")


def _mend(node: Element) -> None:
    text = node.text or ""
    if node.tag == "mtext":
        node.text = text.replace("\\_", "_")
    elif text in DELIMITERS:
        node.text = DELIMITERS[text]
    elif text in ORDINARY or (text in FUNCTIONS and "movablelimits" not in node.attrib):
        node.tag = "mi"
    elif text == "/":
        node.attrib |= {"lspace": "0", "rspace": "0"}
    if node.tag in ("msub", "munder") and (node[0].text or "") in UNDER:
        node.tag = "munder"
        node[0].tag = "mo"
        node[0].attrib |= {"movablelimits": "true", "lspace": "0", "rspace": "0"}


def _space(row: Element) -> None:
    """Signs that are no binary operators close up, and functions stand off from their arguments."""
    children = list(row)
    if row.tag not in ("math", "mrow", "mstyle", "msqrt"):
        return
    for before, node in pairwise(children):
        sign = node.tag == "mo" and node.text in ("−", "+", "-")
        if sign and before.tag in ("mo", "mspace") and before.text not in CLOSING:
            node.set("form", "prefix")
    for before, node in reversed(list(pairwise(children))):
        place = children.index(node)
        if _is_function(before) and node.text != "(" and node.tag != "mspace":
            row.insert(place, Element("mspace", width=THIN))
        if _is_function(node) and before.tag != "mo" and before.tag != "mspace":
            row.insert(place, Element("mspace", width=THIN))


def _is_function(node: Element) -> bool:
    inner = node[0] if node.tag in ("msub", "msup", "munder", "msubsup") else node
    return (inner.text or "") in FUNCTIONS


def math_font(characters: set[str]) -> bytes:
    """STIX Two Math (SIL Open Font License 1.1) as WOFF, with what these characters need and no more."""
    from fontTools import subset
    from fontTools.ttLib import TTFont

    package = Path(
        find_spec("ziamath").origin
    ).parent  # which is not imported: its font is all we want
    font = TTFont(package / "fonts" / "STIXTwoMath-Regular.ttf", recalcTimestamp=False)
    chosen = subset.Options(flavor="woff", layout_features=["*"], recalc_timestamp=False)
    chosen.name_IDs = ["*"]  # the licence travels with the font
    subsetter = subset.Subsetter(chosen)
    wanted = characters | {italic(character) for character in characters} | {"√"}
    subsetter.populate(unicodes=[ord(character) for character in wanted])
    subsetter.subset(font)
    font.flavor = "woff"
    out = io.BytesIO()
    font.save(out)
    return out.getvalue()


def italic(letter: str) -> str:
    """The mathematical italic that a browser takes for a letter alone in <mi>; others are themselves."""
    if letter == "h":
        return "\N{PLANCK CONSTANT}"
    for first, last, start in (("A", "Z", 0x1D434), ("a", "z", 0x1D44E), ("α", "ω", 0x1D6FC)):
        if first <= letter <= last:
            return chr(start + ord(letter) - ord(first))
    return {"∂": "\U0001d715"}.get(letter, letter)
