"""`python -m trimtab` is the command `trimtab`."""

from trimtab.cli.app import main

main()
