"""The Flower app: relays in the hospitals, and the search on the server."""

import terms
from flwr.serverapp import ServerApp

from jaxdpbo.integrations import flower

client = flower.client_app()
server = ServerApp()


@server.main()
def main(grid, context):
    """Run the search, and write its record."""
    agreement = terms.agree(context.run_config["roster"])
    run = flower.run_on_grid(agreement, grid, record=context.run_config["sums"], wait=context.run_config["wait"])
    run.report(context.run_config["report"])
