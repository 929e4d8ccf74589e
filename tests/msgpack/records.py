"""Reads and writes job records and dead letters with redis-py and msgpack, one request a line.

    records.py PORT

    read key id               the value under a hash, and whether it is byte for byte what this library makes of it
    write key id value form   puts a value there, in one of the forms below
    score key id at           puts an id into a sorted set

Keys and ids are hex. A value is spelled n, t, f, i<decimal>, b<hex> (bytes), s<hex> (text) or [value,value].
"""

import struct
import sys

import msgpack
import redis


def show(value):
    if value is None:
        return "n"
    if value is True or value is False:
        return "t" if value else "f"
    if isinstance(value, int):
        return f"i{value}"
    if isinstance(value, bytes):
        return "b" + value.hex()
    if isinstance(value, str):
        return "s" + value.encode().hex()
    return "[" + ",".join(map(show, value)) + "]"


def parse(text):
    """A value, and what is left of the text."""
    kind, text = text[0], text[1:]
    if kind == "[":
        values = []
        while not text.startswith("]"):
            value, text = parse(text)
            values.append(value)
            text = text.removeprefix(",")
        return values, text[1:]
    end = next((at for at, char in enumerate(text) if char in ",]"), len(text))
    word, text = text[:end], text[end:]
    return {
        "n": lambda: None,
        "t": lambda: True,
        "f": lambda: False,
        "i": lambda: int(word),
        "b": lambda: bytes.fromhex(word),
        "s": lambda: bytes.fromhex(word).decode(),
    }[kind](), text


def widest(value):
    """The longest spelling of each value that the format knows."""
    if isinstance(value, list):
        return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(widest, value))
    if isinstance(value, bytes):
        return b"\xc6" + struct.pack(">I", len(value)) + value
    if isinstance(value, str):
        return b"\xdb" + struct.pack(">I", len(value.encode())) + value.encode()
    if isinstance(value, int) and not isinstance(value, bool):
        return b"\xcf" + struct.pack(">Q", value)
    return msgpack.packb(value)


def signed(value):
    """Whole numbers as the signed ones that some languages write, where they fit."""
    if isinstance(value, list):
        return msgpack.Packer().pack_array_header(len(value)) + b"".join(map(signed, value))
    if isinstance(value, int) and not isinstance(value, bool) and value < 1 << 63:
        return b"\xd3" + struct.pack(">q", value)
    return msgpack.packb(value)


FORMS = {
    "usual": lambda value: msgpack.packb(value, use_bin_type=True),
    # As libraries did before the format knew bytes.
    "old": lambda value: msgpack.packb(value, use_bin_type=False),
    "widest": widest,
    "signed": signed,
    # A letter with the longest spelling of its record only.
    "inside": lambda letter: b"\x93" + b"".join(map(msgpack.packb, letter[:2])) + widest(letter[2]),
    # What is spelled is the bytes themselves.
    "raw": lambda value: value,
}


def main():
    client = redis.Redis("127.0.0.1", int(sys.argv[1]))
    for line in sys.stdin:
        verb, key, id, *rest = line.split()
        key, id = bytes.fromhex(key), bytes.fromhex(id)
        if verb == "read":
            raw = client.hget(key, id)
            value = msgpack.unpackb(raw)
            same = "same" if msgpack.packb(value) == raw else "other"
            answer = f"{same} {show(value)}"
        elif verb == "write":
            value, form = rest
            client.hset(key, id, FORMS[form](parse(value)[0]))
            answer = "ok"
        else:
            client.zadd(key, {id: int(rest[0])})
            answer = "ok"
        print(answer, flush=True)


main()
