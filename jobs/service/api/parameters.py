"""Parameters and items of lists as models: what is validated, and what the schema says."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, cast, get_type_hints

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    create_model,
)

from analysis.option_fields import address_name, option_fields
from jobs.service.api.listing import MOST_ROWS, MOST_VALUES, ROWS, Listing, in_utc
from survey.column_fields import Column

#: PostgreSQL's texts hold no NUL, and SQLite's end there.
_Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]

_Int = Annotated[int, Field(ge=-(2**63), lt=2**63)]

#: How often an option may be given.
MOST_REPEATED = 64

#: The parameter beside those of a selection of runs.
ALL_RUNS = (
    bool,
    Field(False, description="Older runs of the same models too, not only the newest."),
)

#: The types of columns that filter, as parameters have them.
TYPES: dict[str, Any] = {
    "VARCHAR": _Text,
    "INTEGER": _Int,
    "BIGINT": _Int,
    "DOUBLE": FiniteFloat,
    "TIMESTAMPTZ": Annotated[AwareDatetime, AfterValidator(in_utc)],
    "BOOLEAN": bool,
}


def page_parameters(listing: Listing) -> type[BaseModel]:
    """Return the query parameters of a list's pages."""
    return _parameters(listing, _of_pages(listing))


def facet_parameters(listing: Listing) -> type[BaseModel]:
    """Return the query parameters of a list's facets."""
    return _parameters(listing, _of_facets(listing))


def page_model(listing: Listing, item: type[BaseModel]) -> type[BaseModel]:
    """Return what a page in JSON is, for the schema."""
    return create_model(
        f"{listing.name}_page",
        items=(_list_of(item), ...),
        next=(str | None, Field(None, description="The next page's token.")),
    )


def _parameters(listing: Listing, page: dict[str, Any]) -> type[BaseModel]:
    """Return the query parameters of a list: its filters, and those of its pages or facets."""
    fields: dict[str, Any] = {}
    for column in listing.scalars:
        fields |= _parameters_of(column)
    for column in listing.rows.columns:
        if column.type == "VARCHAR[]":
            fields[f"has__{column.name}"] = _parameter(several(_Text), column.name, column.sentence)
    fields["search"] = _parameter(_Text, "search", "Text that any text of the item holds.")
    # Of a column of such a name the parameter would be another one.
    assert not {*page, "search"} & set(listing.names)  # noqa: S101
    name = f"{listing.name}_{'facets' if 'by' in page else 'parameters'}"
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields, **page)


def _of_pages(listing: Listing) -> dict[str, Any]:
    names = [c.name for c in listing.scalars]
    order = several(one_of(f"{sign}{name}" for name in names for sign in ("", "-")))
    chosen = several(one_of(listing.names))
    return {
        "sort": _parameter(order, "sort", "Columns to sort by; a minus sorts downwards."),
        "fields": _parameter(chosen, "fields", "Columns of the items."),
        "limit": (int, Field(ROWS, ge=1, le=MOST_ROWS, description="Most items of a page.")),
        "next": _parameter(str, "next", "What the page before gave as next."),
    }


def _of_facets(listing: Listing) -> dict[str, Any]:
    counted = several(one_of(c.name for c in listing.scalars if c.type != "DOUBLE"))
    columns = Field(..., min_length=1, description="Columns whose values are counted.")
    most = Field(ROWS, ge=1, le=MOST_ROWS, description="Most values of a column.")
    return {"by": (counted, columns), "limit": (int, most)}


def _parameters_of(column: Column) -> dict[str, Any]:
    name, kind = column.name, TYPES[column.type]
    result = {
        f"is__{name}": _parameter(several(kind), name, column.sentence),
        f"not__{name}": _parameter(several(kind), f"{name}.not", "None of these."),
        f"known__{name}": _parameter(bool, f"{name}.known", "Whether it is known."),
    }
    if column.type not in ("VARCHAR", "BOOLEAN"):
        result[f"min__{name}"] = _parameter(kind, f"{name}.min", "At least this.")
        result[f"max__{name}"] = _parameter(kind, f"{name}.max", "At most this.")
    return result


def option_parameters(declaration: type) -> dict[str, Any]:
    """Return the query parameters that the options of a dataclass are, by the field's name."""
    hints = get_type_hints(declaration)
    return {each.name: _of_option(hints[each.name], each) for each in option_fields(declaration)}


def options_from(declaration: type, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a dataclass among the values of parameters."""
    names = {each.name for each in option_fields(declaration)}
    return {name: value for name, value in asked.items() if name in names}


def _of_option(hint: Any, option: dataclasses.Field[Any]) -> Any:
    details = option.metadata
    kind = several(str, MOST_REPEATED) if details["repeated"] else hint
    bounds = {"ge": details["minimum"], "le": details["maximum"]}
    bounds = {name: value for name, value in bounds.items() if value is not None}
    # What is not given keeps the default that the option declares.
    default = Field(None, alias=address_name(option), description=described(option), **bounds)
    return kind | None, default


def described(option: dataclasses.Field[Any]) -> str:
    """Return the help of an option, with what holds where it is not given."""
    unset = option.metadata["none"]
    return f"{option.metadata['help']} By default: {unset}." if unset else option.metadata["help"]


def one_of(names: Iterable[str]) -> Any:
    """Return the type of one of some texts."""
    return cast("Any", Literal)[tuple(names)]


def several(kind: Any, most: int = MOST_VALUES) -> Any:
    """Return the type of a parameter that may be given several times."""
    return Annotated[_list_of(kind), Field(max_length=most)]


def _list_of(kind: Any) -> Any:
    return cast("Any", list)[kind]


def _parameter(kind: Any, alias: str, description: str) -> Any:
    return (kind | None, Field(None, alias=alias, description=description))


def item_model(listing: Listing) -> type[BaseModel]:
    """Return what an item in JSON is, for the schema."""
    types = {**TYPES, "VARCHAR[]": list[str], "MAP(VARCHAR, VARCHAR)": dict[str, str]}
    columns: dict[str, Any] = {
        c.name: (
            types[c.type] | None if c.type in types else Any,
            Field(None, description=c.sentence),
        )
        for c in listing.rows.columns
    }
    return create_model(f"{listing.name}_item", __doc__=listing.sentence, **columns)


class Facets(BaseModel):
    """How many items have each value of some columns."""

    class Facet(BaseModel):
        """A value of a column."""

        column: str
        value: str | None
        count: int

    items: list[Facet]
    next: None = None
