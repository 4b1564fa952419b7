"""What one user can move, and what hides it: keys, clipping, choices and mechanisms.

The ``mechanisms`` are also ``jaxdpbo.mechanisms``. Make a key by ``jaxdpbo.secret_key``.
"""

from jaxdpbo import namespace
from jaxdpbo.noise import mechanisms
from jaxdpbo.noise.choice import choice_sharpness
from jaxdpbo.noise.clipping import clip_by_l2_norm
from jaxdpbo.noise.keys import key_from_bytes, secret_key

__all__ = ["choice_sharpness", "clip_by_l2_norm", "key_from_bytes", "mechanisms", "secret_key"]
__dir__ = namespace.list_public(__name__)
