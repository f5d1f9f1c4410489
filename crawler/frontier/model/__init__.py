"""The frontier in memory, with the interface of `Frontier`: for tests, which hold the two against each other, and for
simulation.

Written from the design, not from the scripts, so that each checks the other; only policy and the bytes of records are
shared. Nothing is stored and nobody else sees it. Time is ``wall`` (seconds) unless a call brings ``now`` (ms).

    ground             a partition's state and small steps
    fetching, keeping  its transitions, one method for each script
    base, whole        the partitions together
    operators          operators' calls
"""

from __future__ import annotations

from crawler.frontier.model.whole import Model

__all__ = ["Model"]
