"""A source: notebooks of trials, one line "study; loss; name=value; name=value" per trial."""

from pathlib import Path

from rankwise.archive import Contents, ReadOptions, Record, studies_of
from rankwise.errors import ArchiveError


def belongs(address: str) -> bool:
    """True for files that end with .trials."""
    return address.endswith(".trials")


def read(address: str, options: ReadOptions) -> Contents:
    """Read the lines of a file; texts of numbers are parsed by `studies_of`."""
    records = []
    for k, line in enumerate(Path(address).read_text(encoding="utf-8").splitlines(), 1):
        try:
            study, loss, *cells = [cell.strip() for cell in line.split(";")]
            params = dict(cell.split("=", 1) for cell in cells)
            records.append(Record(study, params, float(loss)))
        except ValueError as error:
            raise ArchiveError(f"{address}, line {k}: {error}") from error
    return studies_of(records, address, options, direction="minimize")
