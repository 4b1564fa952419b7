"""A plugin that each worker process of Beam imports before it runs a scan: all of its stages are guarded."""

import importlib.util

from jaxdpbo.tables import _beam

if importlib.util.find_spec("apache_beam") is not None:
    _beam.guard_stages("")
