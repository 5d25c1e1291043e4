"""What `firstfault report` says to somebody who has made a mistake."""

from __future__ import annotations

import json
from pathlib import Path

from tests.hooks.intake import Intake
from tests.hooks.test_without_site import report


def test_a_field_that_nobody_knows_is_named_with_the_one_that_may_be_meant(tmp_path: Path, intake: Intake) -> None:
    done = report(tmp_path, intake, json.dumps({"jobid": "881", "Exit_Code": 1, "weather": "fine", "job_id": "882"}))
    assert done.returncode == 0
    said = [line.partition("job.json: ")[2] for line in done.stderr.splitlines() if "job.json: " in line]
    assert said == [
        "'Exit_Code' is no field and is left out, did you mean exit_code?",
        "'jobid' is no field and is left out, did you mean job_id?",
        "'weather' is no field and is left out",
    ]
    assert intake.job("882", 0)


def test_a_token_that_the_service_does_not_know_is_named_with_its_file(tmp_path: Path, intake: Intake) -> None:
    intake.away = True
    done = report(tmp_path, intake, None)
    assert done.returncode == 1
    asked = f"{intake.url} does not know the token in {tmp_path / 'token'}"
    assert done.stderr == f"firstfault: {asked}; `firstfault cluster add NAME` makes one\n"
