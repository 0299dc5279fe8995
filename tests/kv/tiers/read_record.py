"""Reads stored blocks and export files by docs/kv-format.md, with the standard library alone.

It shares nothing with the engine, and so tells whether the document is enough. The checksum of a
record (XXH3) and encryption are beyond the standard library: bodies of encrypted records are not
opened, checksums are shown, not computed.

    read_record.py [--key HEX] FILE...    prints what the files hold, as JSON
    read_record.py --test                 reads tests/golden/kv and checks what it finds
"""

import argparse
import hashlib
import hmac
import json
import pathlib
import struct
import sys
import unittest

RECORD_MAGIC = b"\x89QKV\r\n\x1a\n"
FILE_MAGIC = b"\x89QKX\r\n\x1a\n"
HEADER_BYTES = 512
MAX_RECORD_BYTES = 64 << 20
ZSTD, MAC, ENCRYPTED = 1, 2, 4
TYPES = {1: "f16", 2: "f32", 3: "bf16", 4: "q8_0"}
UNUSED = ((120, 128), (304, 384))


class BadRecord(ValueError):
    """What is not as the document says."""


def require(condition, what):
    if not condition:
        raise BadRecord(what)


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def subkey(key, info, size=32):
    prk = hmac.new(bytes(32), key, hashlib.sha256).digest()
    return hmac.new(prk, info + b"\x01", hashlib.sha256).digest()[:size]


def name_of(purpose, text, key):
    if key is None:
        return sha256(purpose, text)
    return hmac.new(subkey(key, b"quire kv names 1"), purpose + b"\0" + text,
                    hashlib.sha256).digest()


def read_record(record, key=None):
    """The fields of a record; with the key its MAC is proven."""
    require(record[:8] == RECORD_MAGIC, "not a record")
    require(len(record) >= HEADER_BYTES, "cut off in its header")
    header, body = record[:HEADER_BYTES], record[HEADER_BYTES:]
    version, flags, kv_type, group, entry, slots = struct.unpack_from("<6I", header, 8)
    payload_bytes, body_bytes = struct.unpack_from("<2Q", header, 32)
    require(version == 1 and flags & ~7 == 0 and slots == 16 and kv_type in TYPES, "version")
    require(group < 1024 and entry < 2**31, "numbers")
    require(len(body) == body_bytes, "length of the body")
    require(body_bytes < payload_bytes if flags & ZSTD else body_bytes == payload_bytes, "lengths")
    require(not any(any(header[begin:end]) for begin, end in UNUSED), "unused bytes")
    fields = {
        "kv_type": TYPES[kv_type], "group": group, "entry": entry,
        "is_packed": bool(flags & ZSTD), "is_sealed": bool(flags & (MAC | ENCRYPTED)),
        "is_encrypted": bool(flags & ENCRYPTED), "payload_bytes": payload_bytes,
        "body_bytes": body_bytes, "checksum": header[48:64].hex(), "key": header[96:104].hex(),
        "numerics_version": struct.unpack_from("<I", header, 116)[0],
        "fingerprint": header[128:160].hex(), "weights": header[160:192].hex(),
        "architecture": header[192:224].hex(), "layout": header[224:256].hex(),
        "name": header[256:288].hex(), "tenant": header[288:304].hex(),
    }
    require(header[128:160] == sha256(b"quire kv fingerprint 1", header[160:256],
                                      struct.pack("<Q", fields["numerics_version"])),
            "fingerprint")
    if flags & MAC and key is not None:
        require(header[96:104] == subkey(key, b"quire kv key id 1", 8), "another key")
        proven = header[:48] + bytes(48) + header[96:] + body
        mac = hmac.new(subkey(key, b"quire kv mac 1"), proven, hashlib.sha256).digest()
        require(hmac.compare_digest(mac, header[64:96]), "forged")
    if flags & ENCRYPTED:
        return fields, None
    root, parent, tokens = header[384:416], header[416:448], header[448:512]
    identity = sha256(b"quire kv blk 1", parent, b"\x10", tokens)
    fields |= {"root": root.hex(), "parent": parent.hex(), "id": identity.hex(),
               "tokens": list(struct.unpack("<16i", tokens))}
    name_key = key if flags & MAC else None
    if name_key is not None or not flags & MAC:
        named = name_of(b"quire kv name", identity + struct.pack("<I", group), name_key)
        require(named == header[256:288], "name")
        require(name_of(b"quire kv tenant", root, name_key)[:16] == header[288:304], "tenant")
    return fields, None if flags & ZSTD else body


def read_file(text, key=None):
    """The records of an export file, one bytes object each; its end is proven."""
    require(text[:8] == FILE_MAGIC and len(text) >= 32, "not an export file")
    version, flags = struct.unpack_from("<2I", text, 8)
    require(version == 1 and flags & ~1 == 0 and not any(text[24:32]), "version")
    records, at = [], 32
    while True:
        require(at + 8 <= len(text), "cut off")
        (length,) = struct.unpack_from("<Q", text, at)
        at += 8
        if length == 0:
            break
        require(HEADER_BYTES <= length <= min(MAX_RECORD_BYTES, len(text) - at), "length")
        records.append(text[at:at + length])
        at += length
    require(len(text) == at + 40, "end")
    require(struct.unpack_from("<Q", text, at)[0] == len(records), "number of records")
    proof = sha256(text[:at + 8])
    if flags & 1:
        if key is None:
            return records
        proof = hmac.new(subkey(key, b"quire kv mac 1"), b"quire kv file 1" + proof,
                         hashlib.sha256).digest()
    require(hmac.compare_digest(proof, text[at + 8:]), "forged or changed")
    return records


class GoldenTest(unittest.TestCase):
    FOLDER = pathlib.Path(__file__).resolve().parents[2] / "golden/kv"
    KEY = bytes(range(32))
    PAYLOAD = bytes(i * 7 % 61 for i in range(2048))

    def golden(self, name):
        return (self.FOLDER / name).read_bytes()

    def check_fields(self, fields):
        self.assertEqual(
            {"kv_type": "f16", "group": 1, "entry": 1, "payload_bytes": 2048,
             "numerics_version": 7, "weights": "11" * 32, "architecture": "22" * 32,
             "layout": "33" * 32},
            {name: fields[name] for name in ("kv_type", "group", "entry", "payload_bytes",
                                             "numerics_version", "weights", "architecture",
                                             "layout")})

    def test_clear_records_tell_their_block_and_payload(self):
        for name, key in (("plain", None), ("mac", self.KEY), ("mac", None)):
            fields, payload = read_record(self.golden(f"{name}.record"), key)
            self.check_fields(fields)
            self.assertEqual(self.PAYLOAD, payload)
            self.assertEqual(list(range(100, 115)) + [2**31 - 1], fields["tokens"])
            self.assertEqual(name == "mac", fields["is_sealed"])
            first = struct.pack("<16i", *range(1, 17))
            root = bytes.fromhex(fields["root"])
            self.assertEqual(sha256(b"quire kv blk 1", root, b"\x10", first).hex(),
                             fields["parent"])

    def test_packed_and_encrypted_records_tell_their_head(self):
        for name in ("zstd", "encrypted", "encrypted_zstd"):
            fields, payload = read_record(self.golden(f"{name}.record"))
            self.check_fields(fields)
            self.assertEqual("zstd" in name, fields["is_packed"])
            self.assertEqual("encrypted" in name, fields["is_encrypted"])
            self.assertIsNone(payload)
        self.assertNotIn("tokens", read_record(self.golden("encrypted.record"))[0])

    def test_a_changed_record_is_forged(self):
        record = bytearray(self.golden("mac.record"))
        for at in (20, 200, 400, 500, 512, len(record) - 1):
            record[at] ^= 1
            with self.assertRaises(BadRecord):
                read_record(bytes(record), self.KEY)
            record[at] ^= 1
        with self.assertRaisesRegex(BadRecord, "another key"):
            read_record(bytes(record), bytes(32))

    def test_export_files_hold_their_records(self):
        plain = [self.golden("plain.record"), self.golden("zstd.record")]
        self.assertEqual(plain, read_file(self.golden("plain.export")))
        sealed = [self.golden("mac.record"), self.golden("encrypted.record")]
        self.assertEqual(sealed, read_file(self.golden("sealed.export"), self.KEY))

    def test_a_changed_export_file_is_noticed(self):
        for name, key in (("plain.export", None), ("sealed.export", self.KEY)):
            text = bytearray(self.golden(name))
            for at in (16, 40, 800, len(text) - 40, len(text) - 1):
                text[at] ^= 1
                with self.assertRaises(BadRecord, msg=f"{name}, byte {at}"):
                    read_file(bytes(text), key)
                text[at] ^= 1
            with self.assertRaises(BadRecord):
                read_file(bytes(text[:-1]), key)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--key", type=bytes.fromhex)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    for path in arguments.files:
        text = path.read_bytes()
        is_file = text[:8] == FILE_MAGIC
        for record in read_file(text, arguments.key) if is_file else [text]:
            print(json.dumps(read_record(record, arguments.key)[0]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--test"]:
        unittest.main(argv=sys.argv[:1])
    main()
