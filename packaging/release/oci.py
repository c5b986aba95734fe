"""Write an OCI image that contains /gorun and its licenses, as an archive: oci.py VERSION REVISION FILE ARCHITECTURE...

The same inputs and SOURCE_DATE_EPOCH give the same bytes.
"""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

DATE = int(os.environ["SOURCE_DATE_EPOCH"])
CREATED = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(DATE))


def tar(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), 0o755 if name == "gorun" else 0o644, DATE
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def main() -> None:
    version, revision, out, *architectures = sys.argv[1:]
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
    labels = {"org.opencontainers.image.source": os.environ["HOMEPAGE"]} if os.environ.get("HOMEPAGE") else {}
    labels |= {
        "org.opencontainers.image.title": "gorun",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.revision": revision,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }

    def blob(kind: str, content: bytes | dict, **more: dict) -> dict:
        """Add a blob, and return what refers to it."""
        if isinstance(content, dict):
            content = json.dumps(content).encode()
        digest = hashlib.sha256(content).hexdigest()
        files[f"blobs/sha256/{digest}"] = content
        kind = f"application/vnd.oci.image.{kind}"
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content), **more}

    def index(manifests: list[dict]) -> dict:
        return {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests}

    def image(architecture: str) -> dict:
        texts = {f"licenses/{path.name}": path.read_bytes() for path in (Path("LICENSE"), Path("build/THIRD-PARTY-NOTICES"))}
        layer = tar({"gorun": Path(f"build/gorun-linux-{architecture}").read_bytes(), **texts})
        # Python's zlib is not the same on all machines.
        packed = subprocess.run(["gzip", "-9n"], input=layer, stdout=subprocess.PIPE, check=True).stdout
        platform = {"architecture": architecture, "os": "linux"}
        config = {
            **platform,
            "created": CREATED,
            "config": {"Entrypoint": ["/gorun"], "Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
            "history": [{"created": CREATED, "created_by": "gorun " + version}],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": blob("config.v1+json", config),
            "layers": [blob("layer.v1.tar+gzip", packed)],
            "annotations": labels,
        }
        return blob("manifest.v1+json", manifest, platform=platform)

    images = index([image(a) for a in architectures])
    # By these names podman and docker load it. A tag has no "+".
    name = "gorun:" + version.replace("+", "-")
    names = {"org.opencontainers.image.ref.name": name, "io.containerd.image.name": "docker.io/library/" + name}
    named = blob("index.v1+json", images, annotations=names)
    files["index.json"] = json.dumps(index([named])).encode()
    Path(out).write_bytes(tar(files))


if __name__ == "__main__":
    main()
