"""The component for development: it reads `plugin.py` at the first call.

So it is built and compiled once, and an edit has its effect at the next start. It works only if the
host allows it to read the project's folder (`mswea-host plugin check --source .`), never in a run.
"""

import contextlib
import importlib

# The module; the package has the function under that name.
importlib.import_module("mswea_sdk.export").late = True  # type: ignore[attr-defined]

from .app import *  # noqa: E402, F403  (its classes are the component's exports)

# At run time the component has no files but the project's, so the modules of Python's library must
# be imported when it is built. These are modules that plugins may need; add others here.
for _name in (
    "abc argparse array ast base64 binascii bisect calendar cmath codecs collections collections.abc "
    "colorsys configparser contextlib copy csv dataclasses datetime decimal difflib enum fnmatch "
    "fractions functools graphlib hashlib heapq hmac html html.parser io itertools json keyword "
    "linecache locale logging math numbers operator os os.path pathlib pprint random re reprlib shlex "
    "statistics string struct sys textwrap time token tokenize tomllib traceback types typing "
    "unicodedata urllib.parse uuid warnings weakref xml.etree.ElementTree zlib"
).split():
    # Some builds of the interpreter lack some of them.
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)
