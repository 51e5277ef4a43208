"""A testbed of a third party, by the public API alone: a simulated switch with a simulated tester and BGP.

``pytest -p acme_testbed.plugin`` runs suites on it. No rights are needed, and nothing is started but two idle processes
that stand for BGP daemons, so that tests can kill them. Take it as the beginning of a backend of your own.
"""
