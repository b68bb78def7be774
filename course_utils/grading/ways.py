"""Names by which a program gets at what it does not write out. `around` says which of them decide, and when.

They are Python's and its libraries': by a name that is put together, from text, through the interpreter's own
objects, or by what a class tells of itself.
"""

import re

from course_utils.checks.observe import MEMORY_WORKS

WRITES = {"setattr", "delattr"}
MADE = {"attrgetter", "methodcaller"}
BY_NAME = {"getattr", *WRITES, *MADE}
COPIES = {"update_wrapper", "wraps"}  # attributes by name, with `assigned`
NAMED = BY_NAME | COPIES
FROM_TEXT = {"eval", "exec", "compile", "__import__"}
NAMESPACES = {"vars", "globals", "locals"}
INSIDES = {
    *("_getframe", "_current_frames", "f_locals", "f_back", "f_globals", "tb_frame", "tb_next"),
    *("f_builtins", "gi_frame", "cr_frame", "ag_frame", "currentframe", "capture_locals"),
    *("get_objects", "get_referrers", "get_referents", "settrace", "setprofile", "modules"),
    *("getmembers", "getattr_static", "FunctionType", "CodeType", "Formatter", "format_map"),
    *("get_field", "byte_bounds", "import_module", "exec_module", "runstring", "measure"),
    *("get_type_hints", "get_annotations", "ForwardRef", "evaluate_forward_ref", "_evaluate"),
    *("singledispatch", "singledispatchmethod", "make_dataclass", "ctypes", "ctypeslib", "mock"),
    *("loadTestsFromName", "loadTestsFromNames", "resolve_name"),
}
MODULES = {
    *("ctypes", "_ctypes", "builtins", "marshal", "pickle", "copyreg", "runpy", "code", "codeop"),
    *("argparse", "optparse", "pydoc", "pkgutil", "doctest", "pdb", "bdb", "rlcompleter", "xmlrpc"),
}
SUBMODULES = {"unittest.mock", "logging.config"}
TIMERS = {"timeit", "cProfile", "profile"}  # they run functions, and text as well
SEARCHED = {"sys.path", "sys.meta_path", "sys.path_hooks"}
PLAIN = {"numpy", "math"}  # getattr(np, name) reaches functions
DUNDERS = {
    *("__name__", "__qualname__", "__doc__", "__init__", "__len__", "__class__", "__version__"),
    *("__enter__", "__exit__", "__post_init__", "__call__", "__getitem__", "__file__", "__main__"),
}
TAUGHT = {  # of a class of one's own: what hands out memory, or lets it pass for another class
    *("__array_interface__", "__array_struct__", "__dlpack__", "__buffer__", "__match_args__"),
    *("__instancecheck__", "__subclasscheck__", "__subclasshook__", "__annotations__"),
    *("__reduce__", "__reduce_ex__", "__build_class__"),
}
KINDS = {"int", "str", "float", "bool", "list", "tuple", "dict", "set", "bytes"}
WORK = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(MEMORY_WORKS))})\b")
PRIVATE_FIELD = re.compile(r"\{[^{}]*\._")


def is_inner(name: str) -> bool:
    """Whether it is a dunder that an honest program has no use for."""
    return name.startswith("__") and name not in DUNDERS
