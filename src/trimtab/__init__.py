"""trimtab: small moves that keep message clusters level."""

__version__ = "0.1.0"
