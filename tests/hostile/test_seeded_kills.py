"""kill -9 of `cf` at seeded moments of a run (rule 4.4): a few of them always, a hundred when asked for.

CODEFRAME_CHAOS_SEED=7 make test-chaos
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.hostile.seeded_kills import KINDS, PHASES, Kills, report


def test_kill_9_at_a_few_moments_loses_nothing(tmp_path: Path) -> None:
    # One of each phase that the other tests of kills do not reach, the same ones each time.
    few = [KINDS.index(kind) for kind in ("claim", "launch", "sweep", "verdict", "git")]
    hits = Kills(1, tmp_path).all(few)
    assert not any(hit.trouble for hit in hits), report(hits)
    # On a busy machine some runs are over before their moment.
    assert sum(hit.kind != "survived" for hit in hits) >= 2, report(hits)


@pytest.mark.slow
def test_kill_9_at_a_hundred_seeded_moments_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("CODEFRAME_CHAOS_SEED") or random.SystemRandom().randrange(10**6))
    moments = int(os.environ.get("CODEFRAME_CHAOS_MOMENTS") or 100)
    hits = Kills(seed, tmp_path).all(range(moments))
    with capsys.disabled():
        print(f"\nseed {seed}: {report(hits)}")
    assert not any(hit.trouble for hit in hits), f"seed {seed}"
    assert set(PHASES) <= {hit.kind for hit in hits} or moments < len(KINDS), f"seed {seed}"
