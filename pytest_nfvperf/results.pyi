# Of a measurement
from .model.measure.outcome import Outcome as Outcome
from .features.routing.convergence import ConvergenceReading as ConvergenceReading
from .model.display import format_fps as format_fps

# From evidence
from .adapters.evidence.reader import read_run as read_run
from .adapters.evidence.writer import read_samples as read_samples
from .adapters.evidence.hdr import exact_latency as exact_latency
