"""The short form of load.py."""

import random

import load


def test_streams_side_by_side_and_what_is_left(service):
    service.post("/v1/completions", {"prompt": "Once", "max_tokens": 2})
    files = service.files()
    load.streams_equal_single_requests(service, 0, tokens=6)
    load.slow_readers(service, 60, 1)
    load.disconnects(service, 200, random.Random(27))
    load.nothing_is_left(service, files)
