"""The HTTP API of the service: routes, documents, users and the server.

One table of operations (`operations`) makes the router, the checks and the OpenAPI document.
"""
