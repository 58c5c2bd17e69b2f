"""The command `rankwise train`: learns models from the studies of an archive in advance."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rankwise._core.words import count
from rankwise.cli.console import (
    DEFAULT_ARCHIVE,
    AsJson,
    archive_option,
    say,
    show_json,
    show_table,
    transfer_names,
)


def train(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[ARCHIVE]", help="The archive: a storage URL, a file or a folder."
        ),
    ] = None,
    archive: Annotated[
        str, archive_option("The archive, as in other commands.")
    ] = DEFAULT_ARCHIVE,
    like: Annotated[
        str, typer.Option(help='Only studies whose name matches this pattern, such as "xgb-*".')
    ] = "*",
    method: Annotated[
        str,
        typer.Option(
            autocompletion=transfer_names,
            help="Transfer method, optionally with options: fsbo:steps=500.",
        ),
    ] = "auto",
    direction: Annotated[
        str | None, typer.Option(help="For tables and runs: minimize or maximize.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn from the studies of an archive in advance, so that later studies start faster.

    Studies of rankwise tune and RankwiseSearchCV give one model per search space and metric, which
    also learns from the built-in studies of that space. All studies together give one model for
    RankwiseSampler.

    Example: rankwise train sqlite:///studies.db --like "xgb-*"
    """
    from rankwise import methods
    from rankwise.archive import open_archive
    from rankwise.cli.train_spaces import lessons_of
    from rankwise.errors import ArchiveError, OptionError

    archive = source or archive
    name, options = methods.split(method)
    methods.check_values(name, options)
    if "model" not in methods.get(name).options:
        able = [name for name in transfer_names("") if "model" in methods.get(name).options]
        raise OptionError(
            f"method {name!r} has no model that can be kept; choose one of {', '.join(able)}"
        )
    past = open_archive(archive, like=like, direction=direction)
    if not past.studies:
        raise ArchiveError(f"{past.origin or archive} has no study to learn from (--like {like})")
    if past.folder is None:
        raise ArchiveError(f"{archive} is in memory: there is no folder for the models")
    facts = []
    for lesson in lessons_of(archive, past):
        studies = count(len(lesson.tasks), "study")
        more = "" if lesson.builtin is None else f" and {len(lesson.builtin.tasks)} built-in ones"
        say(f"learning {lesson.what} from {studies} of {past.origin}{more}")
        facts.append(lesson.learnt(name, past.folder, options))
    if as_json:
        show_json({"method": method, "folder": past.folder, "learnt": facts})
        return
    show_table(
        ("what", "studies", "parameters", "exam", "outcome"),
        [(f["what"], f["studies"], f["parameters"], f["exam"], _outcome(f)) for f in facts],
    )
    say(
        f"models are in {past.folder} (exam: how well the studies predict each other, in nats per "
        "study)"
    )


def _outcome(facts: dict[str, Any]) -> str:
    if not facts["useful"]:
        return "not used: the studies do not predict each other"
    return "model learnt" if facts["new"] else "nothing new: the model was already learnt"
