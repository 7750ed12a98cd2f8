"""Demos: all steps of a balancer on a real cluster here; `trimtab demo` and `make demo` run them."""
