"""What trimtab and its data planes share: errors, settings, document checks, optional packages.

Nothing here is about one system or one balancer. msgspec is the only package that it needs.
"""
