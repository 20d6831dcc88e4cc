"""Protobuf written by hand, for what no library writes."""

SHORT = [bytes([n]) for n in range(128)]  # nearly all of them


def varint(n):
    n &= (1 << 64) - 1
    if n < 128:
        return SHORT[n]
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + SHORT[n]


def field(number, value):
    """A number, a text, or bytes of a message or list."""
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3) + varint(value) if isinstance(value, int) else varint(number << 3 | 2) + varint(len(value)) + value
