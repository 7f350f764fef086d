"""JSON by the C module below `json`, without the Python above it.

`import json` brings in re and enum and costs more than everything else that `xsessionctl send` does
(docs/decisions/0010-the-fast-way-in.md). The C module under it is CPython's own implementation of the same functions.
Where it is missing or has changed, `json` takes its place, so that only speed depends on it.
Refuses to know: the protocol.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _cannot_encode(value: object) -> object:
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def _constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _make_codec() -> "tuple[Callable[[object], str], Callable[[object], str], Callable[[str], object]]":
    try:
        import _json

        class _Strict:
            strict = True
            object_hook = object_pairs_hook = array_hook = None
            parse_float, parse_int, parse_constant = float, int, _constant

        scan = _json.make_scanner(_Strict)  # type: ignore[arg-type] # any object with these attributes
        plain, ascii_only = (
            _json.make_encoder(None, _cannot_encode, quote, None, ":", ",", False, False, False)
            for quote in (_json.encode_basestring, _json.encode_basestring_ascii)
        )

        def encode_plain(value: object) -> str:
            return "".join(plain(value, 0))

        def encode_ascii(value: object) -> str:
            return "".join(ascii_only(value, 0))

        def decode(text: str) -> object:
            text = text.strip(" \t\r\n")
            try:
                value, end = scan(text, 0)
            except (StopIteration, SystemError):  # the latter: json's own error class is not loaded
                raise ValueError("not JSON") from None
            if end != len(text):
                raise ValueError("more than one JSON value")
            return value

        if decode(encode_plain({"a": [1, "é", None, True]})) != {"a": [1, "é", None, True]}:  # pragma: no cover
            raise TypeError("another interface than the one known")
    except (ImportError, AttributeError, TypeError):  # pragma: no cover - another Python than CPython as we know it
        from json import dumps, loads

        def encode_plain(value: object) -> str:
            return dumps(value, ensure_ascii=False, separators=(",", ":"))

        def encode_ascii(value: object) -> str:
            return dumps(value, separators=(",", ":"))

        def decode(text: str) -> object:
            return loads(text)

    return encode_plain, encode_ascii, decode


encode, encode_ascii, decode = _make_codec()
"""A value as compact JSON; the same in ASCII, which no terminal, locale or pipe can change; the value of a JSON text
(ValueError).
"""
