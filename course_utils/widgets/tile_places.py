"""Where the matrices of a product or an attention stand, so that a tile is in line with what it meets.

The factors stand to the left of and above what they make: a row of A, and a column of B, meet at their element
of C. In attention what Q and K make are the scores, whose rows are queries and whose columns are keys. So K
lies on its side above them, as V does, and O stands to their right.
"""

from collections.abc import Mapping

__all__ = ["is_product", "place_matrices"]

LEFT, TOP, GAP, MARGIN = 8, 20, 22, 8
SHORTEST, THICKNESS = 36, 11  # a side, and a vector, in units of the drawing
NEVER_STORED = "scores: never in HBM"


def is_product(shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Of A and B, into C. An attention may have an array called A."""
    return {"A", "B", "C"} <= set(shapes)


def place_matrices(shapes: Mapping[str, tuple[int, ...]]) -> dict:
    """The drawing's "size" (width, height) and "places": name -> x, y, wide, high, turned, label.

    shapes: of A, B and C, or of Q, K and more: V, O, S, P, and vectors (n_queries,). Any other array has no
    place. An attention has a "scores" too, to be drawn dashed where S is not among the arrays.
    """
    product = is_product(shapes)
    (m, k), n = (shapes["A"], shapes["B"][1]) if product else (shapes["Q"], shapes["K"][0])
    scale = 330 / (k + max(m, n)) if product else 190 / max(m, n)
    wide, high, deep = (max(scale * size, SHORTEST) for size in (n, m, k))
    places: dict[str, dict] = {}

    def put(name: str, x: float, y: float, size: tuple[float, float], label: str = "") -> None:
        if name in shapes or label:
            turned = name in ("K", "V")
            words = label or (f"{name} (on its side)" if turned else SHORT.get(name, name))
            x, y, *size = (round(length, 2) for length in (x, y, *size))
            places[name] = {"x": x, "y": y, "wide": size[0], "high": size[1]}
            places[name] |= {"turned": turned, "label": words}

    x, y = LEFT + deep + GAP, TOP + deep + GAP
    if product:
        put("A", LEFT, y, (deep, high))
        put("B", x, TOP, (wide, deep))
        put("C", x, y, (wide, high))
        return {"size": [round(x + wide + MARGIN), round(y + high + MARGIN)], "places": places}
    if "V" in shapes:
        y += deep + GAP
        put("V", x, TOP, (wide, deep))
    put("Q", LEFT, y, (deep, high))
    put("K", x, y - GAP - deep, (wide, deep))
    for name in ("S", "P"):  # the same square: a square of its own would be far from its factors
        put(name, x, y, (wide, high))
    if "S" not in shapes:
        put("scores", x, y, (wide, high), NEVER_STORED)
    right = x + wide + GAP
    if "O" in shapes:
        put("O", right, y, (deep, high))
        right += deep + GAP
    for name, shape in shapes.items():
        if len(shape) == 1:
            put(name, right, y, (THICKNESS, high))
            right += THICKNESS + GAP
    return {"size": [round(right), round(y + high + MARGIN)], "places": places}


SHORT = {"row_sums": "ℓ", "row_maxima": "m", "logsumexp": "lse"}  # as lesson 07 writes them
