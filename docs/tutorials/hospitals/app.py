"""The Flower app: relays in the hospitals, and the search on the server."""

import jax
from flwr.serverapp import ServerApp

from jaxdpbo import silos
from jaxdpbo.integrations import flower

jax.config.update("jax_enable_x64", True)  # as the commands compute
client = flower.client_app()
server = ServerApp()


@server.main()
def main(grid, context):
    """Run the search, and write its answer and its record."""
    options = context.run_config
    agreement = silos.load_agreement(options["agreement"])
    run = flower.run_on_grid(agreement, grid, record=options["sums"], wait=options["wait"])
    run.save(options["answer"])
    run.report(options["report"])
