"""About: the version of the console, and the broker and store that it shows."""

from importlib.metadata import version

from warrener.web.page import PageRequest, View, page
from warrener_runtime.secrets import mask


@page("/about", refresh=None)
async def show_about(request: PageRequest) -> View:
    """Show versions and endpoints, without passwords."""
    endpoints = request.console.endpoints
    facts = [
        ("Version", version("warrener")),
        ("Broker", mask(endpoints.broker_url)),
        ("Namespace", endpoints.namespace),
        ("Store", mask(endpoints.store_url)),
        ("Zone of times", request.zone.key),
    ]
    return View("About this console", {"facts": facts})
