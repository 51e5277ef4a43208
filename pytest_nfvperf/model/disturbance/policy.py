"""When a trial counts, and how often it is repeated: the numbers of this policy, all in one table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrialPolicy:
    """The numbers by which windows, trials and loads are judged, each with its reason or the observation behind it.

    Several say when there are enough windows. They differ because the questions do: a rate needs two windows, a
    comparison of cores that change speed needs a dozen.
    """

    # How many windows are enough, and for what.

    windows_for_a_rate: int = 2
    """Undisturbed windows that a rate can be read from."""

    windows_for_a_loss: int = 8
    """Windows that must be undisturbed for a trial to be judged by them, however short it is."""

    windows_for_a_comparison: int = 12
    """Of either subject: fewer cannot tell the subject from the speed of the cores."""

    windows_of_a_trial: int = 30
    """A trial too short for so many is not divided into windows."""

    most_windows_of_a_trial: int = 6000
    """Longer trials have longer windows."""

    windows_to_know_a_host: int = 100
    """Windows of trials before a search, by which it is coarse or fine: a warm-up's. A host that disturbs for a moment
    disturbs fewer."""

    # Which share of them must be undisturbed, or lossy.

    undisturbed_to_judge: float = 0.1
    """Share of a trial that must be undisturbed for it to be judged by its undisturbed windows."""

    undisturbed_to_refute: float = 0.5
    """If this share of a trial was undisturbed, hardly a disturbance hides: loss in undisturbed windows is the
    DUT's."""

    lossy_to_refute: float = 0.25
    """Share of the undisturbed windows. If so many of them lost frames, the loss is the DUT's, however few they are."""

    # When the generator was the limit, and not the DUT.

    most_not_offered: float = 0.04
    """Share of the frames due that a trial may leave out and still be one at its load. It is the largest of the rig's
    own limits: that of a generator which shares a CPU with housekeeping (docs/explanation/measuring-method.md)."""

    most_unrefused_of_a_rate: float = 0.25
    """Share of undisturbed windows in which nothing may be refused, and the DUT still be the limit of a rate."""

    most_unrefused_at_best: float = 0.05
    """The same of either subject of a comparison at its best. The windows without refusals may be the best ones: if
    there are more, nobody knows how fast a subject is at its best."""

    at_ceiling: float = 0.95
    """A result above this share of the rig's own ceiling is generator-limited (How we measure, rule 3)."""

    higher_ceiling: float = 1.05
    """How far a new ceiling must exceed the known one before the search runs again."""

    most_raises: int = 2
    """How often a ceiling, or the load of a forwarding rate, is raised."""

    # How much the generator may fail.

    most_skipped: float = 0.005
    """Share of a direction's frames that may be skipped because the generator was absent, or fell behind: the load was
    right within that."""

    most_skipped_saturating: float = 0.05
    """The same where the load only has to exceed what the DUT takes: the absent time is subtracted from its rate."""

    most_skipped_windowed: float = 0.5
    """The same where only undisturbed windows count, in which the generator was running."""

    most_skipped_undisturbed: float = 0.02
    """The same of the frames due in undisturbed windows: their load is what was offered."""

    longest_poll_gap_ns: int = 250_000_000
    """A longer gap makes a trial invalid on any port."""

    most_asleep_ns: int = 10_000_000
    """The two clocks are read one after the other, and the host may run somebody else in between."""

    # When the DUT's CPU was taken away.

    least_wait_ns: int = 100_000
    """During a shorter wait of a PMD for its CPU any ring holds all frames, so it explains no loss. Waits are measured
    to some 50 us."""

    wait_slack: float = 1.5
    """A stall costs more than its own length, because the PMD then has to empty the queue, too."""

    most_off_cpu: float = 0.01
    """Share of a saturating trial that PMDs may wait for a CPU: their rate is too low by as much."""

    most_off_cpu_windowed: float = 0.1
    """The same if the rate is read from undisturbed windows: those in which a PMD waited are not among them."""

    # How often a trial is repeated, and how long a run waits.

    inconclusive_repeats: int = 3
    """Repeats at one load of an inconclusive trial. If the host shares its cores all the time, more do not help, and
    time spent on one load is missing at those that matter."""

    long_repeats: int = 2
    """Repeats of a trial that takes long and was invalid, or inconclusive: the rig more likely sustains a lower
    load."""

    rate_tries: int = 3
    """Readings of a rate until the CPUs were near and the DUT was the limit."""

    most_disturbed_loads: int = 4
    """Loads that a search may leave out because the rig disturbed all trials at them."""

    retry_budget_s: float = 20.0
    """Time that a search may spend on invalid and inconclusive trials in all; and longest wait for the near band."""

    least_retry_budget_s: float = 5.0
    """The smallest budget, after waits in vain."""

    moved_s: float = 60.0
    """How long repeats may take whose only fault is that the host moved a CPU, with the waits for the near band, s."""

    # How confirmations go down from the load that a search found.

    # fmt: off
    confirmation_shares: tuple[float, ...] = (
        1.0, 0.99, 0.97, 0.95, 0.92, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.35, 0.25, 0.1,
    )
    # fmt: on
    """Shares of the found load at which a full-length trial is tried, one after the other. The reported load is as
    coarse as these steps, and a trial that exceeds its loss is given up after a second. The last are far down: a load
    that was sustained there is still a figure."""

    coarse_shares: tuple[float, ...] = (0.95, 0.9, 0.85, 0.8, 0.7, 0.5, 0.35, 0.25, 0.1)
    """Those that are tried after the rig disturbed a load, and after some time. At first a twentieth apart: the
    reported figure of a load that the rig disturbs differs by such a step from run to run."""

    last_share: float = 0.5
    """Share of the found load at which a last trial is made when the time is over and none has passed."""

    fine_lengths: int = 3
    """For so many times a confirmation's length all shares are tried: a user waits for the figure."""

    close_above: float = 1.05
    """A load up to this factor above another is close to it: its loss bounds what the other one may be."""


POLICY = TrialPolicy()
