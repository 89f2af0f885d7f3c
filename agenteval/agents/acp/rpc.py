"""JSON-RPC 2.0 as both sides of the Agent Client Protocol use it: one message per line, requests, responses, errors."""

from collections.abc import Callable
from typing import Any

from agenteval.adapters.values import decode_leniently
from agenteval.errors import BadRecord
from agenteval.streams.console import describe_fault
from agenteval.streams.jsonl import decode, encode
from agenteval.streams.source import BOM

PROTOCOL_VERSION = 1

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
AUTHENTICATION_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002

Message = dict[str, Any]
Report = Callable[[Exception], None]


class RequestError(Exception):
    """The error that answers a request: a JSON-RPC code, a message and optional data."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.data = code, data


def message_line(message: Message) -> bytes:
    """Returns a message as a line to send."""
    return encode({"jsonrpc": "2.0", **message}) + b"\n"


def response(ident: Any, compute: Callable[[], Any], report: Report = lambda _error: None) -> Message:
    """Returns the response to the request with that id: what `compute` returns, or the error that it raises.

    `report` is called with an unexpected error.
    """
    try:
        return {"id": ident, "result": compute()}
    except Exception as error:
        return error_response(ident, error, report)


def error_response(ident: Any, error: Exception, report: Report = lambda _error: None) -> Message:
    """Returns the response to a request that failed; the id is None if it could not be read."""
    if not isinstance(error, RequestError):
        report(error)
        error = RequestError(INTERNAL_ERROR, describe_fault(error))
    fields = {"code": error.code, "message": str(error)}
    return {"id": ident, "error": fields if error.data is None else {**fields, "data": error.data}}


def find_message(line: bytes) -> Message | None:
    """Returns the message on a line of an agent, None for a line that is something else: agents also print logs."""
    line = line.strip().removeprefix(BOM)
    if not line.startswith(b"{"):
        return None
    try:
        message = decode(line)
    except BadRecord:
        message = decode_leniently(line.decode("utf-8", "replace"))
    return message if isinstance(message, dict) else None


def parse_message(line: bytes) -> Message:
    """Returns the message on a line of a client; raises RequestError if it is not JSON, or not a JSON-RPC message."""
    try:
        message = decode(line)
    except BadRecord as error:
        raise RequestError(PARSE_ERROR, "Parse error", str(error)) from None
    if not isinstance(message, dict) or ("method" in message and not _is_request(message)):
        raise RequestError(INVALID_REQUEST, "Invalid request")
    return message


def _is_request(message: Message) -> bool:
    """Whether a message is a well-formed request or notification."""
    method, ident, params = message["method"], message.get("id"), message.get("params")
    return isinstance(method, str) and isinstance(ident, str | int | None) and isinstance(params, dict | None)


def text_param(params: Message, name: str) -> str:
    """Returns a parameter that must be a string."""
    if not isinstance(value := params.get(name), str):
        raise RequestError(INVALID_PARAMS, f'Invalid params: "{name}" must be a string')
    return value


def integer_param(params: Message, name: str) -> int | None:
    """Returns a parameter that must be an integer, or None if it is missing."""
    value = params.get(name)
    if value is not None and type(value) is not int:
        raise RequestError(INVALID_PARAMS, f'Invalid params: "{name}" must be an integer')
    return value
