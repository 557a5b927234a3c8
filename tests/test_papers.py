"""The ledger of papers: claims are sound, name checks that exist, and get their verdicts from results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.catalogue import CATALOGUE
from experiments.harness import ledger
from experiments.harness.errors import InputError

FOLDER = Path(__file__).resolve().parent.parent / "papers"
PAPERS = ledger.load(FOLDER)
CLAIMS = [claim for paper in PAPERS for claim in paper.claims]
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")


def named(claim: ledger.LedgerClaim) -> str:
    return f"{claim.source}-{claim.id}"


def test_there_are_thirty_claims_from_a_dozen_sources() -> None:
    assert len(CLAIMS) >= 30 and len(PAPERS) >= 12
    assert len({named(claim) for claim in CLAIMS}) == len(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS, ids=named)
def test_a_claim_is_held_against_checks_that_the_page_has_results_of(claim: ledger.LedgerClaim) -> None:
    """The page is made by runs: a check that did not exist would have stopped it."""
    assert claim.statement.replace("|", "\\|") in PAGE and claim.obtained
    if claim.check:
        assert CATALOGUE.resolve([claim.experiment]) == [claim.experiment]
        assert f"(`{claim.experiment}`: {', '.join(claim.check)})" in PAGE
    assert not (claim.mark == "M" and claim.check)


def document(*checks: tuple[str, float, bool, bool]) -> dict[str, Any]:
    return {
        "checks": [
            {"id": name, "lhs": lhs, "op": "<=", "rhs": 4, "passed": passed, "deterministic": exact}
            for name, lhs, passed, exact in checks
        ]
    }


def claim(**more: Any) -> ledger.LedgerClaim:
    facts: dict[str, Any] = {"kind": "count", "mark": "R", "obtained": "read", "experiment": "e", "check": ("a",)}
    return ledger.LedgerClaim("source", "id", "statement", **{**facts, **more})


def test_verdicts_come_from_the_checks() -> None:
    assert ledger.verdict(claim(), {"e": document(("a", 3.0, True, True))}) == ("3 <= 4", "reproduced")
    assert ledger.verdict(claim(), {"e": document(("a", 5.0, False, True))}) == ("5 <= 4 fails", "not reproduced")
    assert ledger.verdict(claim(limit=2.5), {"e": document(("a", 3.0, True, True))})[1] == "not reproduced"
    assert ledger.verdict(claim(), {"e": document(("a", 3.0, True, False))})[1] == "reproduced in kind"
    assert ledger.verdict(claim(), {})[1] == "not run"
    assert ledger.verdict(claim(experiment="", check=()), {})[1] == "not attempted"
    with pytest.raises(InputError, match="has no check a"):
        ledger.verdict(claim(), {"e": document(("b", 3.0, True, True))})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"mark": "M"}, "recalled feeds no check"),
        ({"check": ()}, "go together"),
        ({"kind": "rumour"}, "none of those"),
    ],
)
def test_an_unsound_claim_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ledger.ensure_sound(claim(**more))


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_text('citation = "x"\n[[claim]]\nid = 3 4\n')
    with pytest.raises(InputError, match=r"odd\.toml"):
        ledger.load(tmp_path)


def test_bars_of_pipes_do_not_break_the_table() -> None:
    paper = ledger.Paper("p", "P", (claim(published="|v|", experiment="", check=()),))
    assert "| \\|v\\| |" in ledger.page([paper], {})
