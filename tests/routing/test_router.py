"""Rules in their order, the job's own wish, and quiet hours, put together."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from bot.routing.channels import asked_for, named_in
from bot.routing.router import Fit
from bot.routing.severity import Severity
from knowledge.diagnosis import Diagnosis
from knowledge.job import JobFacts

from .rules import MAIN, failed, job, router, settings, told

NIGHT = datetime(2026, 12, 3, 3, 12, tzinfo=UTC)
MORNING = datetime(2026, 12, 3, 7, tzinfo=UTC)
QUIET = '{ hours = "22:00-07:00", zone = "UTC" }'


def test_without_rules_everything_goes_to_the_default_channel_and_nothing_is_warned_of() -> None:
    targets = told("")
    assert (targets.channels, targets.warnings, targets.hold_until) == ((MAIN,), (), None)


def test_where_no_rule_fits_the_default_channel_is_used_with_a_warning() -> None:
    targets = told('[[routes]]\nuser = "bob"\nchannels = "C0BOB"\n', job(user="alice"))
    assert targets.channels == (MAIN,)
    assert targets.warnings == ("no route matched; the default channel was used",)


@pytest.mark.parametrize(
    ("condition", "fits", "differs"),
    [
        ('cluster = "alps"', {"cluster": "alps"}, {"cluster": "jura"}),
        ('partition = "h100*"', {"partition": "h100-long"}, {"partition": "a100"}),
        ('namespace = "team-?"', {"partition": "team-a"}, {"partition": "team-ab"}),
        ('account = ["llm", "vision"]', {"account": "vision"}, {"account": "audio"}),
        ('team = "llm"', {"account": "llm"}, {"account": None}),
        ('user = "alice"', {"user": "alice"}, {"user": "Alice"}),
        ('job = "*-pretrain-*"', {"name": "llama-pretrain-7"}, {"name": "llama-sft-7"}),
    ],
)
def test_a_condition_looks_at_one_fact(condition: str, fits: dict[str, Any], differs: dict[str, Any]) -> None:
    rules = f'[[routes]]\n{condition}\nchannels = "C0HERE"\n'
    assert told(rules, job(**fits)).channels == ("C0HERE",)
    assert told(rules, job(**differs)).channels == (MAIN,)


@pytest.mark.parametrize(
    ("condition", "fits", "differs"),
    [
        ('cause = "gpu-lost"', failed("gpu-lost"), failed("gpu-ecc")),
        ('cause = "gpu-*"', failed("gpu-ecc"), failed("nic-fault")),
        ('layer = ["network", "gpu-hardware"]', failed("gpu-lost"), failed("app-exception")),
        ('severity = "medium"', failed("gpu-lost"), failed("cancelled")),
    ],
)
def test_a_condition_looks_at_the_diagnosis(condition: str, fits: Diagnosis, differs: Diagnosis) -> None:
    rules = f'[[routes]]\n{condition}\nchannels = "C0HERE"\n'
    assert told(rules, diagnosis=fits).channels == ("C0HERE",)
    assert told(rules, diagnosis=differs).channels == (MAIN,)


def test_all_conditions_of_a_rule_must_fit() -> None:
    rules = '[[routes]]\nuser = "alice"\nlayer = "gpu-hardware"\nchannels = "C0HERE"\n'
    assert told(rules, job(user="alice"), failed("gpu-lost")).channels == ("C0HERE",)
    assert told(rules, job(user="alice"), failed("app-exception")).channels == (MAIN,)
    assert told(rules, job(user="bob"), failed("gpu-lost")).channels == (MAIN,)


def test_the_first_rule_that_fits_decides_unless_it_continues() -> None:
    first = '[[routes]]\nlayer = "gpu-hardware"\nchannels = "C0OPS"\n'
    second = '[[routes]]\nchannels = ["C0TEAM", "C0OPS", "C0MORE"]\n'
    assert told(first + second, diagnosis=failed("gpu-lost")).channels == ("C0OPS",)
    continuing = first + "continue = true\n" + second
    assert told(continuing, diagnosis=failed("gpu-lost")).channels == ("C0OPS", "C0TEAM", "C0MORE")


def test_a_rule_without_channels_tells_nobody_and_is_no_accident() -> None:
    targets = told('[[routes]]\npartition = "interactive"\nchannels = []\n', job(partition="interactive"))
    assert (targets.channels, targets.warnings, targets.hold_until) == ((), (), None)


def test_a_storm_may_take_another_way_than_each_of_its_jobs() -> None:
    rules = '[[routes]]\nseverity = "high"\nchannels = "C0OPS"\n'
    assert told(rules, incidents=1).channels == (MAIN,)
    assert told(rules, incidents=40).channels == ("C0OPS",)


def test_the_answer_says_why() -> None:
    rules = '[[routes]]\nname = "iron"\nlayer = "gpu-hardware"\nchannels = "C0OPS"\n'
    assert told(rules, diagnosis=failed("gpu-lost")).why == (
        "severity high: hardware failed",
        "C0OPS: route 1 (iron)",
    )


def test_each_rule_says_why_it_fits_or_not() -> None:
    rules = (
        '[[routes]]\nuser = "bob"\nchannels = "C0BOB"\n'
        '[[routes]]\nseverity = "high"\nchannels = "C0OPS"\n'
        '[[routes]]\naccount = "llm"\nchannels = "C0LLM"\n'
        "[[routes]]\nchannels = 'C0REST'\n"
    )
    judged = router(rules).judge(job(user="alice", account="llm"), failed())
    assert [(found.fit, found.why) for found in judged] == [
        (Fit.DIFFERS, "user is alice, not bob"),
        (Fit.DIFFERS, "severity is medium, not high or more"),
        (Fit.MATCHED, "account is llm"),
        (Fit.NOT_REACHED, "route 3 decided"),
    ]


class TestTheJobsOwnWish:
    """`slack-channel=…` in a job's comment, which anybody can write."""

    rules = (
        '[routing]\noverride_allow = ["C0TEAM*"]\n'
        '[[routes]]\nlayer = "gpu-hardware"\nchannels = "C0OPS"\nalways = true\n'
        '[[routes]]\nchannels = "C0REST"\n'
    )

    @pytest.mark.parametrize(
        ("comment", "asked"),
        [
            ("slack-channel=C0TEAM", ("C0TEAM",)),
            ("slack-channel=C0TEAM,C0TEAMB", ("C0TEAM", "C0TEAMB")),
            ("run 7; slack-channel=C0TEAM; seed 3", ("C0TEAM",)),
            ("SLACK-CHANNEL: C0TEAM", ("C0TEAM",)),
            ("slack-channel=C0TEAM slack-channel=C0TEAM", ("C0TEAM",)),
            ("my-slack-channel=C0TEAM", ()),
            ("slack-channel=", ()),
            ("", ()),
            (None, ()),
        ],
    )
    def test_where_it_stands(self, comment: str | None, asked: tuple[str, ...]) -> None:
        assert asked_for(comment) == asked

    def test_it_takes_the_place_of_the_rules(self) -> None:
        targets = told(self.rules, job(comment="slack-channel=C0TEAMB,C0TEAM"))
        assert targets.channels == ("C0TEAMB", "C0TEAM")

    def test_but_not_of_those_that_always_hold(self) -> None:
        targets = told(self.rules, job(comment="slack-channel=C0TEAM"), failed("gpu-lost"))
        assert targets.channels == ("C0TEAM", "C0OPS")

    def test_a_channel_that_is_not_allowed_is_ignored_with_a_warning(self) -> None:
        targets = told(self.rules, job(comment="slack-channel=C0BOARD,C0TEAM"))
        assert targets.channels == ("C0TEAM",)
        (warning,) = targets.warnings
        assert "C0BOARD" in warning
        assert "override_allow" in warning

    def test_where_nothing_that_it_asks_for_is_allowed_the_rules_decide(self) -> None:
        assert told(self.rules, job(comment="slack-channel=C0BOARD")).channels == ("C0REST",)

    def test_an_empty_list_allows_nothing(self) -> None:
        rules = '[routing]\noverride_allow = []\n[[routes]]\nchannels = "C0REST"\n'
        assert told(rules, job(comment="slack-channel=C0REST")).warnings

    def test_without_a_list_every_channel_of_the_settings_is_allowed(self) -> None:
        rules = (
            f'[[routes]]\nuser = "bob"\nchannels = ["C0BOB"]\nquiet = {QUIET[:-1]}, instead = "C0NIGHT" }}\n'
            f"[routing.quiet]\nC0ONCALL = {QUIET}\n"
        )
        assert named_in(settings(rules)) == (MAIN, "C0BOB", "C0NIGHT", "C0ONCALL")
        for channel in (MAIN, "C0BOB", "C0NIGHT", "C0ONCALL"):
            assert told(rules, job(comment=f"slack-channel={channel}")).channels == (channel,)
        assert told(rules, job(comment="slack-channel=C0BOARD")).channels == (MAIN,)

    @pytest.mark.parametrize("name", ["#team", "C0TEAM<!channel>", "<!here>", "team", "C0team", "*", "C" * 400])
    def test_what_is_no_id_is_ignored_and_shown_shortened(self, name: str) -> None:
        targets = told(self.rules, job(comment=f"slack-channel={name}"))
        assert targets.channels == ("C0REST",)
        assert all(len(warning) < 200 for warning in targets.warnings)
        assert targets.warnings

    def test_a_comment_cannot_post_everywhere(self) -> None:
        many = ",".join(f"C0TEAM{number}" for number in range(20))
        targets = told(self.rules, job(comment=f"slack-channel={many}"))
        assert len(targets.channels) == 5
        assert "20 channels" in targets.warnings[-1]


class TestQuietHours:
    """What waits, until when, and what does not."""

    def test_a_rules_quiet_hours_hold_its_channels_back(self) -> None:
        targets = told(f'[[routes]]\nchannels = "C0TEAM"\nquiet = {QUIET}\n', now=NIGHT)
        assert targets.channels == ("C0TEAM",)
        assert targets.hold_until == MORNING
        assert "quiet until 2026-12-03 07:00 UTC" in targets.why[1]

    def test_a_channels_own_hold_back_whatever_goes_there(self) -> None:
        targets = told(f"[routing.quiet]\n{MAIN} = {QUIET}\n", now=NIGHT)
        assert targets.holds == {MAIN: MORNING}

    def test_what_is_severe_is_told_at_once(self) -> None:
        rules = f'[[routes]]\nchannels = "C0TEAM"\nquiet = {QUIET}\n'
        assert told(rules, diagnosis=failed("gpu-lost"), now=NIGHT).hold_until is None

    def test_a_failure_that_becomes_a_storm_passes(self) -> None:
        rules = f'[[routes]]\nchannels = "C0TEAM"\nquiet = {QUIET}\n'
        assert told(rules, now=NIGHT, incidents=2).hold_until == MORNING
        assert told(rules, now=NIGHT, incidents=40).hold_until is None

    def test_other_channels_do_not_wait(self) -> None:
        rules = f'[[routes]]\nchannels = ["C0TEAM", "C0OTHER"]\n[routing.quiet]\nC0TEAM = {QUIET}\n'
        targets = told(rules, now=NIGHT)
        assert targets.channels == ("C0TEAM", "C0OTHER")
        assert targets.holds == {"C0TEAM": MORNING}
        assert targets.hold_until is None

    def test_a_channel_that_two_rules_name_waits_only_if_both_do(self) -> None:
        quiet = f'[[routes]]\nchannels = "C0TEAM"\ncontinue = true\nquiet = {QUIET}\n'
        loud = '[[routes]]\nchannels = "C0TEAM"\n'
        assert told(quiet + loud, now=NIGHT).holds == {}
        later = loud + 'quiet = { hours = "00:00-09:00", zone = "UTC" }\n'
        assert told(quiet + later, now=NIGHT).holds == {"C0TEAM": MORNING}

    def test_what_a_job_asks_for_waits_for_the_channel_not_for_the_rule(self) -> None:
        rules = f'[[routes]]\nchannels = "C0TEAM"\nquiet = {QUIET}\n'
        assert told(rules, job(comment="slack-channel=C0TEAM"), now=NIGHT).holds == {}
        own = f'[[routes]]\nchannels = "C0TEAM"\n[routing.quiet]\nC0TEAM = {QUIET}\n'
        assert told(own, job(comment="slack-channel=C0TEAM"), now=NIGHT).holds == {"C0TEAM": MORNING}

    def test_another_channel_may_hear_it_meanwhile(self) -> None:
        quiet = QUIET.replace(" }", ', instead = "C0ONCALL" }')
        by_rule = told(f'[[routes]]\nchannels = ["C0A", "C0B"]\nquiet = {quiet}\n', now=NIGHT)
        by_channel = told(f'[[routes]]\nchannels = ["C0A", "C0B"]\n[routing.quiet]\nC0A = {quiet}\n', now=NIGHT)
        assert (by_rule.channels, by_rule.holds) == (("C0ONCALL",), {})
        assert (by_channel.channels, by_channel.holds) == (("C0ONCALL", "C0B"), {})

    def test_channels_that_stand_in_for_each_other_are_asked_once(self) -> None:
        there = QUIET.replace(" }", ', instead = "C0THERE" }')
        back = QUIET.replace(" }", ', instead = "C0HERE" }')
        rules = f'[[routes]]\nchannels = "C0HERE"\n[routing.quiet]\nC0HERE = {there}\nC0THERE = {back}\n'
        targets = told(rules, now=NIGHT)
        assert (targets.channels, targets.holds) == (("C0THERE",), {"C0THERE": MORNING})

    def test_nothing_is_lost_whatever_the_hour(self) -> None:
        rules = f'[[routes]]\nchannels = ["C0A", "C0B"]\nquiet = {QUIET}\n[routing.quiet]\nC0B = {QUIET}\n'
        for hour in range(24):
            targets = told(rules, now=NIGHT.replace(hour=hour))
            assert targets.channels == ("C0A", "C0B")
            assert all(hold > NIGHT.replace(hour=hour) for hold in targets.holds.values())


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("[[routes]]\nuser = 'a'\n", "channels"),
        ("[[routes]]\nchannels = '#team'\n", "not its name"),
        ("[[routes]]\nchannels = 'C0A'\ncolour = 'red'\n", "colour"),
        ("[[routes]]\nchannels = 'C0A'\nuser = []\n", "at least 1"),
        ("[[routes]]\nchannels = 'C0A'\nuser = ''\n", "at least 1"),
        ("[[routes]]\nchannels = 'C0A'\nlayer = 'gpu-hardwar'\n", "known: application, "),
        ("[[routes]]\nchannels = 'C0A'\ncause = 'gpu-gone'\n", "no cause is called"),
        ("[[routes]]\nchannels = 'C0A'\nseverity = 'big'\n", "'low', 'medium' or 'high'"),
        ("[[routes]]\nchannels = 'C0A'\npartition = 'a'\nnamespace = 'b'\n", "mean the same"),
        ("[[routes]]\nchannels = []\ncontinue = true\n", "does nothing"),
        ("[[routes]]\nchannels = 'C0A'\nquiet = { hours = '22:00-07:00', zone = 'Mars' }\n", "no such time zone"),
        ("[routing]\noverride_allow = ['#team']\n", "ids of channels"),
        ("[routing.quiet]\nteam = { hours = '22:00-07:00', zone = 'UTC' }\n", "not its name"),
        ("[routing]\nfew_ranks = 64\n", "less than many_ranks"),
    ],
)
def test_a_wrong_rule_stops_the_start_and_says_what_is_wrong(rules: str, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(rules)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("before", "after", "reached"),
    [
        ("", "user = 'a'", False),
        ("job = '*'", "job = 'x'", False),
        ("user = ['a', 'b']", "user = 'a'\nlayer = 'network'", False),
        ("severity = 'medium'", "severity = 'high'", False),
        ("severity = 'high'", "severity = 'medium'", True),
        ("severity = 'high'", "user = 'a'", True),
        ("user = 'a'", "user = ['a', 'b']", True),
        ("user = 'a'", "account = 'a'", True),
        ("continue = true", "user = 'a'", True),
    ],
)
def test_a_rule_that_can_never_be_reached_is_a_warning(before: str, after: str, reached: bool) -> None:
    rules = f"[[routes]]\nchannels = 'C0A'\n{before}\n[[routes]]\nname = 'late'\nchannels = 'C0B'\n{after}\n"
    warnings = router(rules).warnings()
    assert warnings == (() if reached else ("route 2 (late) is never reached: route 1 takes all that it would",))


def test_a_job_of_which_nothing_is_known_goes_somewhere() -> None:
    targets = told("[[routes]]\nuser = '*'\nchannels = 'C0A'\n", JobFacts(), failed("unknown"))
    assert targets.channels == ("C0A",)
    assert targets.severity is Severity.MEDIUM
