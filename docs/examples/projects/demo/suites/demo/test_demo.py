"""Three tests of a simulated DUT that forwards 4 Mpps per direction: one of each verdict."""

from pytest_nfvperf import Traffic


def test_throughput(phy2phy, search, sla):
    """Search the highest load without loss (NDR) and with at most 0.5 % of it (PDR): the SLA asks for less."""
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=64), latency=True))


def test_promised_rate(phy2phy, search, sla):
    """The same search, where the SLA asks for more than the DUT forwards."""
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=64)))


def test_busy_machine(busy_machine, phy2phy, search, sla):
    """A fixed load from a generator that is disturbed: whatever is lost says nothing about the DUT."""
    sla.check(search.loss_at(phy2phy, Traffic(frame_size=64), 50e3, 2.0))
