"""The rights of single DRPC functions: who may call them, and whose topologies may serve them."""

from __future__ import annotations

from typing import Any

import pytest

from tupletree._security.rights import Principal
from tupletree.drpc_server.function_rights import parse_function_rights
from tupletree.errors import ConfigError

ALICE = Principal("alice", "user", frozenset({"call"}))
BOB = Principal("bob", "user", frozenset({"submit"}))
ADMIN = Principal("root", "user", frozenset({"admin"}))
LISTS = {"score": {"users": ["alice"], "owners": ["alice"]}, "free": None, "nobodys": {"users": []}}
LENIENT = parse_function_rights(LISTS, False)
STRICT = parse_function_rights(LISTS, True)


@pytest.mark.parametrize(
    ("who", "function", "is_strict", "may"),
    [
        (ALICE, "score", False, True),
        (BOB, "score", False, False),
        (ADMIN, "score", False, True),
        (None, "score", False, True),  # tokens are disabled
        (BOB, "free", True, True),
        (ALICE, "nobodys", False, False),
        (ADMIN, "nobodys", False, True),
        (BOB, "other", False, True),
        (BOB, "other", True, False),
        (ADMIN, "other", True, True),
    ],
)
def test_who_may_call(who: Principal | None, function: str, is_strict: bool, may: bool) -> None:
    why = (STRICT if is_strict else LENIENT).call_refusal(who, function, ())
    assert (why is None) == may


@pytest.mark.parametrize(
    ("owner", "function", "is_strict", "may"),
    [
        ("alice", "score", False, True),
        ("bob", "score", False, False),
        ("boss", "score", False, True),  # in nimbus.admins
        (None, "score", False, False),
        ("bob", "free", True, True),
        ("bob", "nobodys", True, True),  # its owners are not restricted
        ("bob", "other", False, True),
        ("bob", "other", True, False),
        ("boss", "other", True, True),
    ],
)
def test_whose_topologies_may_serve(owner: str | None, function: str, is_strict: bool, may: bool) -> None:
    rights = STRICT if is_strict else LENIENT
    assert (rights.serve_refusal(owner, "t-1", function, {"boss"}) is None) == may
    assert may or rights.restricts_owners(function)


def test_a_refusal_says_what_to_do() -> None:
    assert LENIENT.call_refusal(BOB, "score", ()) == (
        "user 'bob' may not call function 'score': they are not among its users in drpc.functions"
    )
    assert STRICT.call_refusal(BOB, "other", ()) == (
        "user 'bob' may not call function 'other': add 'other' to drpc.functions, since drpc.functions.strict is set"
    )
    assert LENIENT.serve_refusal("bob", "t-1", "score", ()) == (
        "topology t-1 may not serve function 'score': its owner 'bob' is not among the owners in drpc.functions"
    )
    assert LENIENT.serve_refusal(None, "t-1", "score", ()) == (
        "topology t-1 may not serve function 'score': nimbus knows no such topology"
    )
    assert STRICT.serve_refusal("bob", "t-1", "other", ()) == (
        "topology t-1 may not serve function 'other': add 'other' to drpc.functions, since drpc.functions.strict is set"
    )


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"a b": None}, r"drpc.functions: the DRPC function 'a b' must be named by at most 100 letters"),
        ({"f": ["alice"]}, r"drpc.functions: function 'f' takes a mapping, such as \{users: \[alice\], owners: \[al"),
        ({"f": {"user": ["a"]}}, r"drpc.functions: function 'f' has no setting 'user'; there are users, owners"),
        ({"f": {"users": "alice"}}, r"drpc.functions: users of function 'f' are a list of names of users, or null"),
        ({"f": {"owners": [1]}}, r"drpc.functions: owners of function 'f' are a list of names of users, or null"),
    ],
)
def test_what_is_no_access_list_is_refused(value: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse_function_rights(value, False)
