"""When partitions are asked for leases."""

from __future__ import annotations

from crawler.frontier.due import SWEEP, DueTimes


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def made(partitions: int = 4) -> tuple[DueTimes, Clock]:
    clock = Clock()
    return DueTimes(partitions, clock), clock


def hear_all(due: DueTimes, wait_ms: int | None, partitions: int = 4) -> None:
    for partition in range(partitions):
        due.heard(partition, wait_ms, due.ask(partition))


def test_what_was_never_asked_is_due() -> None:
    due, _ = made()
    assert sorted(due.plan()) == [0, 1, 2, 3]
    assert due.soonest_ms() == 0


def test_each_plan_begins_with_another() -> None:
    due, _ = made()
    assert {due.plan()[0] for _ in range(4)} == {0, 1, 2, 3}


def test_a_partition_is_asked_again_when_it_said_so() -> None:
    due, clock = made()
    hear_all(due, None)
    due.heard(2, 1500, due.ask(2))
    due.plan()
    assert due.soonest_ms() == 1500
    clock.now += 1.49
    assert 2 not in due.plan()[1:]
    clock.now += 0.02
    assert 2 in due.plan()


def test_idle_partitions_are_swept_in_turn() -> None:
    due, clock = made()
    hear_all(due, None)
    asked = []
    for _ in range(100):
        for partition in due.plan():
            asked.append(partition)
            due.heard(partition, None, due.ask(partition))
        clock.now += SWEEP / 10
    assert len(asked) <= 11
    assert set(asked) == {0, 1, 2, 3}
    assert due.soonest_ms() is None


def test_what_is_expected_while_a_question_is_under_way_is_not_forgotten() -> None:
    """The links were added after the partition had looked, and before its answer was here."""
    due, clock = made()
    hear_all(due, None)
    due.plan()
    began = due.ask(1)
    clock.now += 0.001
    due.expect(1)
    clock.now += 0.001
    due.heard(1, None, began)
    assert due.plan() == [1]
    due.heard(1, None, due.ask(1) + 0.001)
    assert due.plan() == []
