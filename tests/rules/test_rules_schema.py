"""`logdiag schema rule|family|catalogue|filter`: what an editor checks a rule file by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from logdiag.model import Reason
from logdiag.rules.files import FORMS, schema_of
from logdiag.rules.folders import shipped_folder
from tests.helpers import rule_text, run_logdiag


def document(text: str) -> Any:
    """A YAML file as an editor sees it: every key is a string."""
    return json.loads(json.dumps(yaml.safe_load(text)))


def test_every_shipped_file_is_of_its_schema() -> None:
    """What logdiag reads, an editor does not call wrong; the tables and the forms of lines have no schema."""
    validators = {form: jsonschema.Draft202012Validator(schema_of(form)) for form in FORMS}
    seen = set()
    for path in Path(shipped_folder()).rglob("*/*.yaml"):
        topic = path.relative_to(shipped_folder()).parts[0]
        if topic != "forms":
            read = json.loads(json.dumps(yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)))
            family = "family" if "rules" in read else "rule"
            form = {"catalogues": "catalogue", "filters": "filter"}.get(topic, family)
            assert validators[form].is_valid(read), path
            seen.add(form)
    assert seen == set(FORMS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (rule_text(actoin="restart"), "actoin"),
        (rule_text(reason="Gremlins"), "Gremlins"),
        (rule_text(goes_on="sometimes"), "sometimes"),
        (rule_text(match=[]), "None is not of type 'array'"),
        ("title: t\n", "'match' is a required property"),
        (rule_text().partition("examples:")[0] + "examples: {quiet: [a widget]}", "not valid under any of the given"),
    ],
)
def test_a_slip_is_found(text: str, said: str) -> None:
    """A wrong key, reason or type, and what is missing."""
    errors = jsonschema.Draft202012Validator(schema_of("rule")).iter_errors(document(text))
    assert any(said in error.message for error in errors)


def test_an_editor_can_complete_and_explain() -> None:
    """The command prints the reasons and a sentence on each key."""
    schema = json.loads(run_logdiag("schema", "rule").stdout)
    assert set(schema["$defs"]["Reason"]["enum"]) == {reason.value for reason in Reason}
    described = {name for name, item in schema["properties"].items() if item.get("description")}
    assert schema["properties"].keys() - described == {"examples"}
