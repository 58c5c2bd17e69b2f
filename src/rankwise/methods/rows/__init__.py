"""The methods, one file for each group.

`METHODS` lists them in the order of `rankwise.methods.available()`. To add a method, append a
`Method` to the file of its group.
"""

from __future__ import annotations

from rankwise.methods.method import Method
from rankwise.methods.rows import data_sets, others, principal, single_study, transfer

METHODS: tuple[Method, ...] = (
    *principal.METHODS,
    *transfer.METHODS,
    *data_sets.METHODS,
    *single_study.METHODS,
    *others.METHODS,
)
