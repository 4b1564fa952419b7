"""``python -m jaxdpbo``."""

from jaxdpbo._commands import main

if __name__ == "__main__":
    main()
