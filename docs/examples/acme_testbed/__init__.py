"""A testbed of a third party, by the public API alone: a simulated switch with a simulated tester and BGP.

``pytest -p acme_testbed.plugin`` runs suites on it. Nothing is started, and no rights are needed: take it as the
beginning of a backend of your own.
"""
