"""Frames of Kafka's protocol: a request's bytes in, its answer's bytes out."""

import struct
from dataclasses import dataclass

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from trimtab.simulate import (
    kafka_answers_configs,
    kafka_answers_metadata,
    kafka_answers_offsets,
    kafka_answers_placement,
    kafka_answers_topics,
)
from trimtab.simulate.kafka_answers import Asked, Handler, Message
from trimtab.simulate.kafka_cluster import SimulatedKafka

HANDLERS: dict[Message, Handler] = (
    kafka_answers_metadata.HANDLERS
    | kafka_answers_placement.HANDLERS
    | kafka_answers_configs.HANDLERS
    | kafka_answers_topics.HANDLERS
    | kafka_answers_offsets.HANDLERS
)
BY_KEY = {request.API_KEY: request for request in (*HANDLERS, ApiVersionsRequest)}


@dataclass(frozen=True)
class Answer:
    """One request answered.

    Attributes
    ----------
    actor
        The client id of the request.
    request
        Its name in Kafka's protocol.
    frame
        What to send back.
    """

    actor: str
    request: str
    frame: bytes


def take_frame(received: bytearray) -> bytes | None:
    """Take the first request out of what has been received; None while it is not whole."""
    if len(received) < 4:
        return None
    (size,) = struct.unpack_from(">i", received)
    if len(received) < 4 + size:
        return None
    frame = bytes(received[4 : 4 + size])
    del received[: 4 + size]
    return frame


def answer_frame(cluster: SimulatedKafka, broker: int, ports: dict[int, int], frame: bytes) -> Answer | None:
    """Let a broker answer a request; None where no broker here knows such requests.

    Raises
    ------
    KafkaRefusal
        The request has to wait until there is a controller again.
    """
    key, version = struct.unpack_from(">hh", frame)
    request_class = BY_KEY.get(key)
    if request_class is None:
        return None
    request = request_class[version].decode(frame, header=True)
    asked = Asked(cluster, broker, request.header.client_id or "", ports)
    if request_class is ApiVersionsRequest:
        response = _api_versions()
    else:
        response = HANDLERS[request_class](asked, request)
    response.API_VERSION = version
    response.with_header(correlation_id=request.header.correlation_id)
    name = request_class.__name__.removesuffix("Request")
    return Answer(asked.actor, name, response.encode(header=True, framed=True))


def _api_versions() -> Message:
    return ApiVersionsResponse(
        error_code=0,
        api_keys=[
            ApiVersionsResponse.ApiVersion(
                api_key=key,
                min_version=request.valid_versions[0],
                max_version=request.valid_versions[1],
            )
            for key, request in BY_KEY.items()
        ],
    )
