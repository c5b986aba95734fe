"""Copies apidiff's record of a module without packages that no other module can import: api.py FROM TO."""

import sys
import zipfile

with zipfile.ZipFile(sys.argv[1]) as record, zipfile.ZipFile(sys.argv[2], "w", zipfile.ZIP_DEFLATED, compresslevel=9) as api:
    for entry in sorted(record.infolist(), key=lambda entry: entry.filename):
        folders = entry.filename.removesuffix(".x").split("/")
        if not {"internal", "cmd", "examples", "testdata"} & set(folders):
            api.writestr(zipfile.ZipInfo(entry.filename), record.read(entry), zipfile.ZIP_DEFLATED, 9)
