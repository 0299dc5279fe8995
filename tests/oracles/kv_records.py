"""Writes tests/golden/kv: stored blocks and an export file, by docs/kv-format.md alone.

Shares no code with the engine: hashes, HKDF, AES-GCM, XXH3 and zstd are other people's. The tests
of src/kv/tiers make the same block and must read these files, and write the same bytes where
nothing is random or left to the compressor.

    python kv_records.py [tests/golden/kv]
"""

import hashlib
import hmac
import pathlib
import struct
import sys

import xxhash
import zstandard
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY = bytes(range(32))
NONCE = bytes(range(0xA0, 0xAC))
WEIGHTS, ARCHITECTURE, LAYOUT, NUMERICS = b"\x11" * 32, b"\x22" * 32, b"\x33" * 32, 7
SALT = b"golden"
GROUP, ENTRY, F16 = 1, 1, 1
FIRST_TOKENS = list(range(1, 17))
TOKENS = list(range(100, 115)) + [2**31 - 1]
PAYLOAD = bytes(i * 7 % 61 for i in range(2048))
PACKED, HAS_MAC, ENCRYPTED = 1, 2, 4


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def hkdf(key, info, size):
    """RFC 5869 without a salt, for at most one block of output."""
    extracted = hmac.digest(bytes(32), key, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")[:size]


def child_of(parent, tokens):
    return sha256(b"quire kv blk 1", parent, bytes([len(tokens)]),
                  struct.pack(f"<{len(tokens)}i", *tokens))


FINGERPRINT = sha256(b"quire kv fingerprint 1", WEIGHTS, ARCHITECTURE, LAYOUT,
                     struct.pack("<Q", NUMERICS))
ROOT = sha256(b"quire kv root 1", FINGERPRINT, struct.pack("<Q", len(SALT)), SALT,
              struct.pack("<Q", 0))
PARENT = child_of(ROOT, FIRST_TOKENS)
ID = child_of(PARENT, TOKENS)
KEY_ID = hkdf(KEY, b"quire kv key id 1", 8)
MAC_KEY = hkdf(KEY, b"quire kv mac 1", 32)
ENCRYPTION_KEY = hkdf(KEY, b"quire kv encryption 1", 32)
NAMES_KEY = hkdf(KEY, b"quire kv names 1", 32)


def name_of(purpose, text, keyed):
    if keyed:
        return hmac.digest(NAMES_KEY, purpose + b"\0" + text, "sha256")
    return sha256(purpose, text)


def record(flags, body):
    sealed = flags & (HAS_MAC | ENCRYPTED) != 0
    head = bytearray(512)
    struct.pack_into("<8sIIIIIIQQ", head, 0, b"\x89QKV\r\n\x1a\n", 1, flags, F16, GROUP, ENTRY, 16,
                     len(PAYLOAD), len(body))
    if sealed:
        head[96:104] = KEY_ID
    if flags & ENCRYPTED:
        head[104:116] = NONCE
    struct.pack_into("<I", head, 116, NUMERICS)
    head[128:256] = FINGERPRINT + WEIGHTS + ARCHITECTURE + LAYOUT
    head[256:288] = name_of(b"quire kv name", ID + struct.pack("<I", GROUP), sealed)
    head[288:304] = name_of(b"quire kv tenant", ROOT, sealed)[:16]
    hidden = ROOT + PARENT + struct.pack("<16i", *TOKENS)
    if flags & ENCRYPTED:
        sealed_text = AESGCM(ENCRYPTION_KEY).encrypt(NONCE, hidden + body, bytes(head[:384]))
        hidden, body, seal = sealed_text[:128], sealed_text[128:-16], sealed_text[-16:]
        head[64:80] = seal
    head[384:512] = hidden
    if flags & HAS_MAC:
        head[64:96] = hmac.digest(MAC_KEY, bytes(head) + body, "sha256")
    checksum = xxhash.xxh3_128_intdigest(bytes(head) + body)
    head[48:64] = checksum.to_bytes(16, "little")
    return bytes(head) + body


def export_file(records, sealed):
    text = struct.pack("<8sII8sQ", b"\x89QKX\r\n\x1a\n", 1, 1 if sealed else 0,
                       KEY_ID if sealed else bytes(8), 0)
    for each in records:
        text += struct.pack("<Q", len(each)) + each
    text += struct.pack("<QQ", 0, len(records))
    proof = sha256(text)
    if sealed:
        proof = hmac.digest(MAC_KEY, b"quire kv file 1" + proof, "sha256")
    return text + proof


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                          pathlib.Path(__file__).resolve().parents[1] / "golden/kv")
    packed = zstandard.ZstdCompressor(level=1).compress(PAYLOAD)
    assert len(packed) < len(PAYLOAD)
    files = {
        "plain.record": record(0, PAYLOAD),
        "zstd.record": record(PACKED, packed),
        "mac.record": record(HAS_MAC, PAYLOAD),
        "encrypted.record": record(ENCRYPTED, PAYLOAD),
        "encrypted_zstd.record": record(ENCRYPTED | PACKED, packed),
    }
    files["plain.export"] = export_file([files["plain.record"], files["zstd.record"]], False)
    files["sealed.export"] = export_file([files["mac.record"], files["encrypted.record"]], True)
    for name, text in files.items():
        (folder / name).write_bytes(text)


if __name__ == "__main__":
    main()
