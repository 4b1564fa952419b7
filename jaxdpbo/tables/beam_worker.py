"""A plugin that each worker process of Beam imports before it runs a scan: all of its stages are guarded."""

import importlib.util

from jaxdpbo.tables import beam_table

if importlib.util.find_spec("apache_beam") is not None:
    beam_table.guard_stages("")
