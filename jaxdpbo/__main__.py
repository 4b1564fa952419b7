"""``python -m jaxdpbo``."""

from jaxdpbo.commands import main

if __name__ == "__main__":
    main()
