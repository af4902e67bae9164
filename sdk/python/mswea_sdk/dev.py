"""The component for development: it reads `plugin.py` when it is first asked.

So it is built and compiled once, and an edit costs nothing but the next start. It works only where the
host lends it the project's folder (`mswea-host plugin check --source .`), never in a run.
"""

import contextlib
import importlib

# The module; the package has the function under that name.
importlib.import_module("mswea_sdk.export").late = True  # type: ignore[attr-defined]

from .app import *  # noqa: E402, F403  (its classes are the component's exports)

# A component has no files but the project's then: what of Python's library is to be found has to be
# imported now. These are what plugins may meet; another one is added here.
for _name in (
    "abc argparse array ast base64 binascii bisect calendar cmath codecs collections collections.abc "
    "colorsys configparser contextlib copy csv dataclasses datetime decimal difflib enum fnmatch "
    "fractions functools graphlib hashlib heapq hmac html html.parser io itertools json keyword "
    "linecache locale logging math numbers operator os os.path pathlib pprint random re reprlib shlex "
    "statistics string struct sys textwrap time token tokenize tomllib traceback types typing "
    "unicodedata urllib.parse uuid warnings weakref xml.etree.ElementTree zlib"
).split():
    # Not every build of the interpreter has all of them.
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)
