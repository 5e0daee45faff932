"""The four kinds of gRPC method, for interceptors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc


def parts_of(method: Any) -> tuple[Callable[..., grpc.RpcMethodHandler[Any, Any]], Any]:
    """Return the factory for methods of the same kind, ``make(handler, deserializer, serializer)``, and the handler."""
    if method.request_streaming and method.response_streaming:
        return grpc.stream_stream_rpc_method_handler, method.stream_stream
    if method.request_streaming:
        return grpc.stream_unary_rpc_method_handler, method.stream_unary
    if method.response_streaming:
        return grpc.unary_stream_rpc_method_handler, method.unary_stream
    return grpc.unary_unary_rpc_method_handler, method.unary_unary
