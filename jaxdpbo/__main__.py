"""``python -m jaxdpbo``."""

from jaxdpbo.commands import main

main()
