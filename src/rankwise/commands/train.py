"""The command `rankwise train`: learn the past of an archive before it is needed."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rankwise.commands.console import (
    ARCHIVE_VARIABLE,
    DEFAULT_ARCHIVE,
    AsJson,
    say,
    show_json,
    show_table,
    transfer_names,
)


def train(
    archive: Annotated[
        str,
        typer.Argument(
            envvar=ARCHIVE_VARIABLE, help="Where the studies are: a storage URL, a file, a folder."
        ),
    ] = DEFAULT_ARCHIVE,
    like: Annotated[str, typer.Option(help='Only studies with such names: "xgb-*".')] = "*",
    method: Annotated[
        str,
        typer.Option(
            autocompletion=transfer_names, help="What is to learn; with options: fsbo:steps=500."
        ),
    ] = "auto",
    direction: Annotated[str | None, typer.Option(help="Of tables: minimize or maximize.")] = None,
    as_json: AsJson = False,
) -> None:
    """Learn from the studies of an archive now, so that later ones start at once.

    Studies of rankwise tune and RankwiseSearchCV are learnt space by space, all others together,
    as RankwiseSampler does.

    Example: rankwise train sqlite:///studies.db --like "xgb-*"
    """
    from rankwise import methods
    from rankwise.archive import open_archive
    from rankwise.commands.lessons import lessons_of
    from rankwise.errors import ArchiveError, OptionError

    name, options = methods.split(method)
    methods.check_values(name, options)
    if "model" not in methods.get(name).options:
        able = [name for name in transfer_names("") if "model" in methods.get(name).options]
        raise OptionError(
            f"method {name!r} keeps nothing that was learnt; these do: {', '.join(able)}"
        )
    past = open_archive(archive, like=like, direction=direction)
    if not past.studies:
        raise ArchiveError(f"{past.origin or archive} has no study to learn from (--like {like})")
    if past.folder is None:
        raise ArchiveError(f"{archive} is in memory: there is no place to keep what is learnt")
    facts = []
    for lesson in lessons_of(archive, past):
        say(f"learning {lesson.what} from {len(lesson.tasks)} studies of {past.origin}")
        facts.append(lesson.learnt(name, past.folder, options))
    if as_json:
        show_json({"method": method, "folder": past.folder, "learnt": facts})
        return
    show_table(
        ("what", "studies", "parameters", "exam", "outcome"),
        [(f["what"], f["studies"], f["parameters"], f["exam"], _outcome(f)) for f in facts],
    )
    say(f"kept in {past.folder} (exam: what the studies say of each other, in nats per study)")


def _outcome(facts: dict[str, Any]) -> str:
    if not facts["useful"]:
        return "nothing to learn: a new study starts without them"
    return "learnt now" if facts["new"] else "nothing new since the last time"
